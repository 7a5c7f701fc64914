"""The cache folder: whose it may be, what is read from it, how it stays small."""

import os
import socket
import stat
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from vkbackend import atomic_file, config, disk_cache
from vkbackend.atomic_file import UNFINISHED
from vkbackend.disk_cache import read, remove, trim, untrusted_reason, write

CONTENT = b"content"
OTHER = 1234

needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make files of another user"
)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test be the first to write and to be warned."""
    monkeypatch.setattr(disk_cache, "_has_written", False)
    disk_cache._warn_once.cache_clear()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def entry(base: Path) -> Path:
    """Return the path of a file that is there."""
    path = base / "spirv" / "entry"
    write(path, CONTENT)
    return path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o077])
def test_everything_made_is_private(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        path = tmp_path / "above" / "cache" / "spirv" / "entry"
        write(path, CONTENT)
    finally:
        os.umask(before)
    assert read(path) == CONTENT
    assert mode_of(path) == 0o600
    for folder in list(path.parents)[:3]:
        assert mode_of(folder) == 0o700


def test_what_is_not_there_is_nothing(base: Path) -> None:
    assert read(base / "spirv" / "entry") is None
    remove(base / "spirv" / "entry")
    assert not base.exists()


def open_base(entry: Path) -> None:
    entry.parent.parent.chmod(0o777)


def open_base_to_group(entry: Path) -> None:
    entry.parent.parent.chmod(0o770)


def open_kind(entry: Path) -> None:
    entry.parent.chmod(0o702)


def sticky_base(entry: Path) -> None:
    entry.parent.parent.chmod(0o1777)


def others_base(entry: Path) -> None:
    os.chown(entry.parent.parent, OTHER, OTHER)


def others_kind(entry: Path) -> None:
    os.chown(entry.parent, OTHER, OTHER)


def others_link(entry: Path) -> None:
    base = entry.parent.parent
    base.rename(base.with_name("real"))
    base.symlink_to("real")
    os.lchown(base, OTHER, OTHER)


def linked_kind(entry: Path) -> None:
    entry.parent.rename(entry.parent.with_name("elsewhere"))
    entry.parent.symlink_to("elsewhere")


REFUSED = [
    *(open_base, open_base_to_group, open_kind, sticky_base, linked_kind),
    *(
        pytest.param(each, marks=needs_root)
        for each in (others_base, others_kind, others_link)
    ),
]


@pytest.mark.parametrize("change", REFUSED)
def test_a_folder_that_others_can_change_is_not_used(
    change: Callable[[Path], None], entry: Path
) -> None:
    change(entry)
    with pytest.warns(
        RuntimeWarning, match="^cache: .*nothing is kept on disk"
    ) as said:
        assert read(entry) is None
    (message,) = (str(row.message) for row in said)
    assert str(entry.parent.parent) in message
    assert untrusted_reason(entry.parent.parent) in message
    new = entry.with_name("new")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write(new, CONTENT)
        remove(entry)
        trim(entry.parent.parent)
    assert not new.exists()
    assert entry.read_bytes() == CONTENT


def test_a_folder_may_be_reached_by_ones_own_link(entry: Path) -> None:
    base = entry.parent.parent
    base.rename(base.with_name("real"))
    base.symlink_to("real")
    assert read(entry) == CONTENT
    write(entry, b"new")
    assert (base.with_name("real") / "spirv" / "entry").read_bytes() == b"new"
    assert untrusted_reason(base) == ""


@needs_root
def test_where_the_folder_lies_does_not_matter(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    os.chown(tmp_path, OTHER, OTHER)
    path = tmp_path / "cache" / "spirv" / "entry"
    write(path, CONTENT)
    assert read(path) == CONTENT


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def link(path: Path) -> None:
    path.with_name("target").write_bytes(CONTENT)
    path.with_name("target").chmod(0o600)
    path.symlink_to("target")


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def device(path: Path) -> None:
    os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))


def listener(path: Path) -> None:
    before = os.getcwd()
    os.chdir(path.parent)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(before)


def large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(disk_cache.MAX_FILE_BYTES + 1)
    path.chmod(0o600)


def writable(path: Path) -> None:
    path.write_bytes(CONTENT)
    path.chmod(0o666)


def others(path: Path) -> None:
    path.write_bytes(CONTENT)
    path.chmod(0o600)
    os.chown(path, OTHER, OTHER)


@pytest.mark.parametrize(
    "make",
    [
        *(pipe, folder, link, endless, listener, large, writable),
        *(pytest.param(each, marks=needs_root) for each in (device, others)),
    ],
)
def test_an_entry_that_is_no_file_of_the_user_counts_as_missing(
    make: Callable[[Path], None], entry: Path
) -> None:
    entry.unlink()
    make(entry)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(entry) is None
    if make is not folder:
        write(entry, b"new")
        assert read(entry) == b"new"
    assert not (entry.with_name("target")).exists() or (
        entry.with_name("target").read_bytes() == CONTENT
    )


READ_ONLY = """
import os, sys
from pathlib import Path
import warnings
from vkbackend import disk_cache
os.chdir(int(sys.argv[1]))
os.setgroups([]); os.setgid(1234); os.setuid(1234)
warnings.simplefilter("error")
print(disk_cache.read(Path("cache/spirv/entry")))
try:
    disk_cache.write(Path("cache/spirv/new"), b"new")
except PermissionError as error:
    print(error.strerror)
"""


@needs_root
@pytest.mark.parametrize("owner", [0, OTHER])
def test_a_read_only_cache_is_read(owner: int, entry: Path) -> None:
    base = entry.parent.parent
    for path, mode in ((base, 0o555), (entry.parent, 0o555), (entry, 0o444)):
        path.chmod(mode)
        os.chown(path, owner, owner)
    descriptor = os.open(base.parent, os.O_RDONLY)
    os.fchmod(descriptor, 0o755)
    try:
        said = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(descriptor)],
            pass_fds=[descriptor],
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        os.close(descriptor)
    assert said.stdout.splitlines() == [str(CONTENT), "Permission denied"]


def used(path: Path, days: float) -> None:
    """Let a file seem to have been used that many days ago."""
    then = path.stat().st_mtime - days * 86400
    os.utime(path, (then, then))


def filled(base: Path, count: int) -> list[Path]:
    """Return files of 1000 bytes in every folder, each used 2 hours after the last."""
    paths = []
    for number in range(count):
        path = base / disk_cache.KINDS[number % 3] / f"{number}"
        write(path, bytes(1000))
        used(path, (count - number) / 12)
        paths.append(path)
    return paths


def test_the_least_recently_used_go_first(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = filled(base, 12)
    foreign = base / "drivers" / "library"
    foreign.parent.mkdir()
    foreign.write_bytes(bytes(100_000))
    assert read(paths[0]) == bytes(1000)  # which is used now
    monkeypatch.setenv(config.CACHE_SIZE.name, "10K")
    trim(base)
    # The third is a verdict, and those go last.
    assert {path for path in paths if not path.exists()} == {
        paths[k] for k in (1, 3, 4)
    }
    assert foreign.exists()
    monkeypatch.setenv(config.CACHE_SIZE.name, "3000")
    trim(base)
    kept = [path.relative_to(base) for path in paths if path.exists()]
    assert [path.parent.name for path in kept] == ["tuning", "tuning"]


def test_a_use_is_noted_once_an_hour(entry: Path) -> None:
    for hours, is_noted in ((0.9, False), (1.1, True)):
        now = entry.stat().st_mtime
        used(entry, hours / 24)
        before = entry.stat().st_mtime
        assert read(entry) == CONTENT
        assert (entry.stat().st_mtime > before) == is_noted
        os.utime(entry, (now, now))


@pytest.mark.parametrize("size", ["0", "1G", "12800"])
def test_what_fits_stays(
    size: str, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(config.CACHE_SIZE.name, size)
    paths = filled(base, 12)
    trim(base)
    assert all(path.exists() for path in paths)


def test_writes_look_at_the_size_now_and_then(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []

    def look(base: Path) -> None:
        looks.append(base)
        trim(base)

    monkeypatch.setattr(disk_cache, "trim", look)
    monkeypatch.setenv(config.CACHE_SIZE.name, "1M")
    for number in range(2 * 16):  # blocks of 4096 bytes, of which 16 are a step
        write(base / "spirv" / str(number % 3), CONTENT)
        read(base / "spirv" / "0")
    assert looks == [base, base]
    write(base / "spirv" / "large", bytes(1 << 16))
    assert looks == [base] * 3


WRITER = """
import os, sys
from pathlib import Path
from vkbackend import disk_cache
for _ in range(12):
    disk_cache.write(Path(sys.argv[1]) / "spirv" / os.urandom(8).hex(), bytes(50_000))
    os.write(1, b"%d\\n" % sum(row.stat().st_size for row in os.scandir("spirv")))
os.kill(os.getpid(), 9)
"""


def test_many_short_processes_stay_within_the_limit(base: Path) -> None:
    """Also where each of them writes little, and ends without closing anything."""
    base.mkdir(0o700)
    sizes: list[int] = []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", WRITER, str(base)],
            env={**os.environ, config.CACHE_SIZE.name: "1M"},
            cwd=base,
            capture_output=True,
            check=False,
        )
        sizes += map(int, done.stdout.split())
    assert len(sizes) == 36
    assert 900_000 < max(sizes) <= 1 << 20


def test_the_first_write_of_a_process_looks_if_none_did_lately(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def look(base: Path) -> None:
        looks.append(base)
        trim(base)

    monkeypatch.setattr(disk_cache, "trim", look)
    for past, expected in ((False, 0), (True, 1), (False, 1)):
        monkeypatch.setattr(disk_cache, "_has_written", False)
        if past:
            used(base, 1)
        for _ in range(3):
            write(base / "spirv" / "entry", CONTENT)
        assert len(looks) == expected


def test_a_cache_that_is_written_stays_small(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(config.CACHE_SIZE.name, "20000")
    for number in range(256):
        write(base / "spirv" / str(number), bytes(100))
        kept = list((base / "spirv").iterdir())
        assert sum(path.stat().st_size for path in kept) <= 20_000


def test_a_size_that_is_none_costs_a_warning(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(config.CACHE_SIZE.name, "plenty")
    with pytest.warns(RuntimeWarning, match="'plenty' is no size; .* the limit is 1G"):
        trim(base)


def test_leftovers_are_removed_when_old(entry: Path) -> None:
    spirv = entry.parent
    file = spirv / f"{UNFINISHED}{'0' * 16}"
    former = spirv / f"{UNFINISHED}a_3x9zq0"
    fresh = spirv / f"{UNFINISHED}{'1' * 16}"
    former.mkdir()
    for path in (file, fresh, former / "x.spv"):
        path.write_bytes(b"half")
    for path in (file, former):
        used(path, 1)
    trim(entry.parent.parent)
    assert {*spirv.iterdir()} == {entry, fresh}


def test_processes_and_threads_share_it(base: Path) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(20):
                path = base / "spirv" / f"{turn % 5}"
                write(path, b"%d" % number * 1000)
                found = read(path)
                assert found is None or len(found) == 1000
                trim(base)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(list((base / "spirv").iterdir())) == 5


def test_without_owners_everything_is_reached_by_path(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "_HAS_OWNERS", False)
    monkeypatch.setattr(atomic_file, "fcntl", None)
    paths = filled(base, 12)
    monkeypatch.setenv(config.CACHE_SIZE.name, "10K")
    left = base / "spirv" / f"{UNFINISHED}{'0' * 16}"
    left.write_bytes(b"half")
    used(left, 1)
    trim(base)
    gone = [k for k, path in enumerate(paths) if not path.exists()]
    assert gone == [0, 1, 3]  # the third is a verdict
    assert not left.exists()
    assert read(paths[-1]) == bytes(1000)
    remove(paths[-1])
    assert read(paths[-1]) is None


PROGRAM = """
import resource, sys
import vkbackend.framework as fw
from vkbackend import Verdict, Verdicts, open_device
device = fw.device(open_device().name)
limit = int(sys.argv[1])
if limit >= 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
print((fw.ones((3,), device=device) * 2 + 1).numpy().tolist())
for _ in range(2):
    Verdicts(device.gpu.info, "1").keep("which?", Verdict("this"))
"""


def run_program(base: Path, limit: int) -> list[str]:
    """Return what a program that computes and keeps things is warned of."""
    done = subprocess.run(
        [sys.executable, "-W", "always::RuntimeWarning", "-c", PROGRAM, str(limit)],
        env={**os.environ, config.CACHE.name: str(base)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[3.0, 3.0, 3.0]\n"
    lines = done.stderr.splitlines()
    return [
        line.partition("RuntimeWarning: ")[2] for line in lines if "Warning" in line
    ]


@pytest.mark.device
@pytest.mark.skipif(
    "VK_DRIVER_FILES" in os.environ,
    reason="newer drivers keep device memory in files, which the limit is for too",
)
@pytest.mark.usefixtures("device")
def test_a_full_disk_costs_a_warning_each(base: Path) -> None:
    said = run_program(base, 16)
    starts = ["shader cache: cannot", "verdicts: cannot", "pipeline cache: cannot"]
    assert [line[: len(start)] for line, start in zip(said, starts, strict=True)] == (
        starts
    )
    assert all("File too large" in line for line in said)
    assert [path for path in base.rglob("*") if path.is_file()] == []
    assert run_program(base, -1) == []
    assert len([path for path in base.rglob("*") if path.is_file()]) >= 3


@pytest.mark.device
@pytest.mark.usefixtures("device")
def test_a_folder_of_others_costs_one_warning(base: Path) -> None:
    assert run_program(base, -1) == []
    base.chmod(0o777)
    before = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    (said,) = run_program(base, -1)
    assert said.startswith(f"cache: {base} is open to other users: its mode is 777")
    after = {path: path.read_bytes() for path in base.rglob("*") if path.is_file()}
    assert after == before
