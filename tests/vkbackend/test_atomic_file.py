"""Files that nobody sees half of, and what becomes of what was there before."""

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from vkbackend import atomic_file
from vkbackend.atomic_file import (
    ABANDONED_SECONDS,
    UNFINISHED,
    replace_file,
    save_atomically,
)

CONTENT = b"new content"


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def make_old(path: Path) -> None:
    """Let a file seem to have been changed long ago."""
    then = path.stat().st_mtime - 2 * ABANDONED_SECONDS
    os.utime(path, (then, then))


@pytest.fixture
def umask() -> int:
    """Return what a new file's mode is by the process's umask."""
    found = os.umask(0o022)
    os.umask(found)
    return 0o666 & ~found


def test_a_file_is_replaced_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content in (b"first", b"second, and longer", b""):
        replace_file(str(path), content)
        assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_a_new_file_is_what_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    save_atomically(tmp_path / "file", CONTENT)
    assert mode_of(tmp_path / "file") == umask


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o660, 0o400 | 0o200, 0o666])
def test_the_mode_stays(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    save_atomically(path, CONTENT)
    assert (path.read_bytes(), mode_of(path)) == (CONTENT, mode)


def test_the_content_is_never_open_to_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o600)
    seen = []

    def replace(source: str, target: str, **folders: int | None) -> None:
        seen.append(mode_of(Path(source)))
        os.rename(source, target)

    monkeypatch.setattr(atomic_file.os, "replace", replace)
    save_atomically(path, CONTENT)
    assert seen == [0o600]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_owner_and_group_stay(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    os.chown(path, 1234, 2345)
    save_atomically(path, CONTENT)
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode_of(path)) == (1234, 2345, 0o640)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_group_gets_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "file"
    path.write_bytes(b"old")
    path.chmod(0o666)
    os.chown(path, 1234, 2345)
    os.chown(folder, 4321, 4321)
    code = (
        "import os, sys\nfrom vkbackend.atomic_file import save_atomically\n"
        "os.setgroups([]); os.setgid(4321); os.setuid(4321)\n"
        "os.chdir(int(sys.argv[1])); save_atomically('file', b'new content')\n"
    )
    # Reached by a descriptor: the folders above are closed to others.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        subprocess.run(
            [sys.executable, "-c", code, str(descriptor)],
            pass_fds=[descriptor],
            check=True,
        )
    finally:
        os.close(descriptor)
    found = path.stat()
    assert path.read_bytes() == CONTENT
    assert (found.st_uid, found.st_gid, mode_of(path)) == (4321, 4321, 0o606)


def chain(folder: Path) -> Path:
    (folder / "deep").mkdir()
    (folder / "deep" / "real").write_bytes(b"old")
    (folder / "deep" / "middle").symlink_to("real")
    (folder / "link").symlink_to("deep/middle")
    return folder / "deep" / "real"


def test_links_stay_and_their_target_is_written(tmp_path: Path) -> None:
    target = chain(tmp_path)
    save_atomically(tmp_path / "link", CONTENT)
    assert target.read_bytes() == CONTENT
    assert (tmp_path / "link").readlink() == Path("deep/middle")
    assert (tmp_path / "deep" / "middle").readlink() == Path("real")
    assert not target.is_symlink()
    assert {each.name for each in tmp_path.rglob("*")} == {
        *("deep", "real", "middle", "link")
    }


def test_a_link_to_nothing_makes_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("later")
    save_atomically(tmp_path / "link", CONTENT)
    assert (tmp_path / "later").read_bytes() == CONTENT
    assert (tmp_path / "link").is_symlink()


def test_a_link_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(OSError, match="link") as caught:
        save_atomically(tmp_path / "link", CONTENT)
    assert caught.value.errno == errno.ELOOP
    assert (tmp_path / "link").is_symlink()


def test_a_device_is_written_to(tmp_path: Path) -> None:
    before = os.stat(os.devnull)
    save_atomically(os.devnull, CONTENT)
    (tmp_path / "null").symlink_to(os.devnull)
    save_atomically(tmp_path / "null", CONTENT)
    after = os.stat(os.devnull)
    assert stat.S_ISCHR(after.st_mode)
    assert (before.st_ino, before.st_rdev) == (after.st_ino, after.st_rdev)


def test_a_full_device_is_an_error() -> None:
    with pytest.raises(OSError, match="No space left"):
        save_atomically("/dev/full", CONTENT)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    save_atomically(path, CONTENT)
    reader.join()
    assert got == [CONTENT]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_standard_output_is_written_to(name: str, tmp_path: Path) -> None:
    code = (
        "from vkbackend.atomic_file import save_atomically\n"
        f"save_atomically({name!r}, b'new')\n"
        "print(' and more', flush=True)\n"
    )
    piped = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE
    )
    assert piped.stdout == b"new and more\n"
    # What goes on writing to a file must find it under its name afterwards.
    with (tmp_path / "out").open("ab") as file:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=file)
        assert os.fstat(file.fileno()).st_ino == (tmp_path / "out").stat().st_ino
    assert (tmp_path / "out").read_bytes() == b"new and more\n"


def test_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        save_atomically(tmp_path, CONTENT)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_file_closed_to_the_user_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o444)
    tmp_path.chmod(0o777)
    os.seteuid(1234)
    try:
        with pytest.raises(PermissionError):
            save_atomically(path, CONTENT)
    finally:
        os.seteuid(0)
    assert path.read_bytes() == b"old"


LIMITED = """
import resource, sys
from vkbackend.atomic_file import save_atomically, replace_file
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for write in (save_atomically, replace_file):
    try:
        write(sys.argv[1], bytes(5000))
    except OSError as error:
        print(error.errno)
"""


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    said = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout.split() == [str(errno.EFBIG)] * 2
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def interrupted_calls(path: Path) -> int:
    """Write until it is whole, interrupted at each line; return how often."""
    lines = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal left
        if frame.f_code.co_filename != atomic_file.__file__:  # type: ignore[attr-defined]
            return None
        if event == "line":
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    while True:
        left = lines
        sys.settrace(trace)  # type: ignore[arg-type]
        try:
            save_atomically(path, CONTENT)
        except KeyboardInterrupt:
            lines += 1
        else:
            return lines
        finally:
            sys.settrace(None)
        assert path.read_bytes() in (b"old", CONTENT)
        assert [each.name for each in path.parent.iterdir()] == [path.name]


# Between the last line of a `with` block and its end no code can close the file.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_line_leaves_old_or_new(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    assert interrupted_calls(path) > 30
    assert path.read_bytes() == CONTENT


def test_the_disk_has_content_before_name_and_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def noted(name: str, real: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: object, **named: object) -> None:
            kind = ""
            if name == "fsync":
                found = os.fstat(arguments[0])  # type: ignore[arg-type]
                kind = " folder" if stat.S_ISDIR(found.st_mode) else f" {found.st_size}"
            done.append(name + kind)
            real(*arguments, **named)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(atomic_file.os, name, noted(name, getattr(os, name)))
    save_atomically(tmp_path / "file", CONTENT)
    assert done == [f"fsync {len(CONTENT)}", "replace", "fsync folder"]
    done.clear()
    replace_file(str(tmp_path / "file"), CONTENT)
    assert done == ["replace"]


KILLED = """
import os, signal, sys
from vkbackend import atomic_file
atomic_file.os.replace = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
atomic_file.save_atomically(sys.argv[1], b"half")
"""


def test_a_folder_that_cannot_be_read_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root reads everything, the system's answer is given by hand."""
    path, opened = tmp_path / "file", os.open

    def refusing(name: str, flags: int, *more: int, dir_fd: int | None = None) -> int:
        if flags & os.O_DIRECTORY:
            raise PermissionError(errno.EACCES, "Permission denied", name)
        return opened(name, flags, *more, dir_fd=dir_fd)

    path.write_bytes(b"old")
    monkeypatch.setattr(os, "open", refusing)
    save_atomically(path, CONTENT)
    assert path.read_bytes() == CONTENT


def test_what_a_killed_process_left_is_removed_when_old(tmp_path: Path) -> None:
    path = tmp_path / "ck.safetensors"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(UNFINISHED)
    save_atomically(path, CONTENT)
    assert left.exists()
    make_old(left)
    # As versions before named it; and names that only look alike.
    former = tmp_path / f".{path.name}.0123abcd"
    others = [
        *(tmp_path / f"{UNFINISHED}notes", tmp_path / f"{UNFINISHED}0123"),
        *(tmp_path / ".other.safetensors.0123abcd", tmp_path / f".{path.name}.backup"),
    ]
    for each in (former, *others):
        each.write_bytes(b"")
        make_old(each)
    save_atomically(path, CONTENT)
    assert {*tmp_path.iterdir()} == {path, *others}


def test_what_is_still_written_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / f"{UNFINISHED}{'0' * 16}"
    with path.open("wb") as file:
        atomic_file._lock(file.fileno())
        make_old(path)
        atomic_file.remove_leftovers(str(tmp_path))
        assert path.exists()
    atomic_file.remove_leftovers(str(tmp_path))
    assert not path.exists()


def test_names_of_the_greatest_length(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    save_atomically(path, CONTENT)
    assert path.read_bytes() == CONTENT


def test_where_a_folder_should_be_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    with pytest.raises(NotADirectoryError):
        save_atomically(tmp_path / "taken" / "file", b"content")
