"""Disk cache in a folder private to its user, bounded in size; failures are harmless.

Its content decides what kernels compute, so only trusted folders are used: each folder
of the path must belong to this user (or root) and be writable by nobody else, and files
are opened relative to the open folder, so that no link or renaming leads elsewhere. The
folder's location does not matter then. Systems without owners and modes, as Windows,
keep the user's folder private by themselves.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import stat
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vkbackend import config
from vkbackend.atomic_file import (
    UNFINISHED,
    is_abandoned,
    leftovers,
    remove_leftovers,
    replace_file,
)
from vkbackend.errors import ArgumentError

if TYPE_CHECKING:
    from vkbackend.driver.device_info import DeviceInfo

_EVICTED_LAST = "tuning"
KINDS = ("spirv", "pipelines", _EVICTED_LAST)
"""The folders whose files are counted and removed; others are left alone."""

DIGEST_SIZE = 32
"""Bytes of a `digest`."""

MAX_FILE_BYTES = 1 << 28
"""Largest file that is read: far above what any driver keeps of its pipelines."""

_TRIM_INTERVAL_SHARE = 1 / 16
"""Share of the limit after which, when so much was written by whatever processes, the
next write looks at the size; and that is kept free, so that the limit holds."""

_RETAINED_SHARE = 0.9
"""Share of the limit that a trim leaves; below `1 - _TRIM_INTERVAL_SHARE`."""

_WRITTEN = ".written"
"""The file beside the folders that counts what was written since the last look: a byte
for each block begun, appended, so that many processes may do it at once."""

_BLOCK = 4096

_TRIM_SECONDS = 3600
"""Seconds after which the first write of a process looks as well, for what killed ones
left. A look at 24,000 files takes half a second; the folder's own time says when the
last one was."""

_TOUCH_SECONDS = 3600
_HAS_OWNERS = hasattr(os, "geteuid") and os.open in os.supports_dir_fd

_has_written = False


class UntrustedFolder(OSError):
    """A cache folder that other users may write to."""


class _Folder(NamedTuple):
    """An open folder; without descriptor where members are reached by their path."""

    path: str
    descriptor: int | None

    def member(self, name: str) -> str:
        """Return what reaches a member, with the descriptor if there is one."""
        return name if self.descriptor is not None else os.path.join(self.path, name)


def read(path: Path) -> bytes | None:
    """Return the content of a file of the cache, or None if there is none to trust.

    Parameters
    ----------
    path : Path
        Of a file two levels below the cache folder, as `spirv/name`.
    """
    flags = _flags("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")
    try:
        with _folder_of(path, make=False) as folder:
            member = folder.member(path.name)
            descriptor = os.open(member, flags, dir_fd=folder.descriptor)
            with open(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if not _is_trusted(found):
                    return None
                _touch(file.fileno(), path, found)
                return file.read(found.st_size)
    except UntrustedFolder as error:
        _warn_untrusted(error)
    except OSError:
        pass
    return None


def write(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Replace a file of the cache, and make room now and then.

    Parameters
    ----------
    path : Path
        As for `read`; folders are made, private to the user.
    content : bytes
        All of it.
    durable : bool, default False
        As for `atomic_file.replace_file`.

    Raises
    ------
    OSError
        If it cannot be written; a folder that is refused gets one warning instead.
    """
    global _has_written
    try:
        with _folder_of(path, make=True) as folder:
            replace_file(
                folder.member(path.name),
                content,
                folder=folder.descriptor,
                mode=0o600,
                durable=durable,
            )
    except UntrustedFolder as error:
        _warn_untrusted(error)
        return
    base = path.parent.parent
    is_first, _has_written = not _has_written, True
    if _is_interval_full(base, len(content)) or (is_first and _is_trim_overdue(base)):
        trim(base)


def digest(content: bytes) -> bytes:
    """Return what tells whether a content is whole: its SHA-256, of `DIGEST_SIZE`."""
    import hashlib  # the first kernel needs it: it loads OpenSSL

    return hashlib.sha256(content).digest()


def remove(path: Path) -> None:
    """Remove a file of the cache if it is there."""
    with contextlib.suppress(FileNotFoundError, UntrustedFolder):
        with _folder_of(path, make=False) as folder:
            os.unlink(folder.member(path.name), dir_fd=folder.descriptor)


def untrusted_reason(base: Path) -> str:
    """Return why a cache folder is not used, or an empty string."""
    for kind in KINDS:
        try:
            with _folder_of(base / kind / "any", make=False):
                pass
        except UntrustedFolder as error:
            return str(error)
        except OSError:
            pass
    return ""


def trim(base: Path) -> None:
    """Evict leftovers, and the least recently used files beyond the limit.

    Tuning results go last: they are small, and cost the most to measure again.

    Parameters
    ----------
    base : Path
        The cache folder; `VKBACKEND_CACHE_SIZE` says what may stay in it.
    """
    rows: list[tuple[bool, float, int, str, str]] = []
    with contextlib.suppress(OSError):
        os.utime(base)
        # Before the look: what is written during it counts for the next.
        with _open_folder(str(base), None, str(base)) as folder:
            _count(folder, os.O_TRUNC, 0)
    for kind in KINDS:
        with contextlib.suppress(OSError):
            with _folder_of(base / kind / "any", make=False) as folder:
                _remove_leftovers(folder)
                rows += [
                    (kind == _EVICTED_LAST, used, size, kind, name)
                    for used, size, name in _files(folder)
                ]
    limit = _limit()
    total = sum(size for _, _, size, _, _ in rows)
    if not limit or total <= limit * (1 - _TRIM_INTERVAL_SHARE):
        return
    for _, _, size, kind, name in sorted(rows):
        if total <= limit * _RETAINED_SHARE:
            break
        with contextlib.suppress(OSError):
            remove(base / kind / name)
            total -= size


def _is_interval_full(base: Path, size: int) -> bool:
    """Count what was written, and return whether it is time to look at the size."""
    limit = _limit()
    with contextlib.suppress(OSError):
        with _open_folder(str(base), None, str(base)) as folder:
            blocks = _count(folder, os.O_APPEND, -(-size // _BLOCK))
            return 0 < limit * _TRIM_INTERVAL_SHARE <= blocks * _BLOCK
    return False


def _count(folder: _Folder, flag: int, blocks: int) -> int:
    """Add to the blocks that were written, and return how many there are."""
    flags = _flags("O_BINARY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")
    descriptor = os.open(
        folder.member(_WRITTEN),
        flags | os.O_WRONLY | os.O_CREAT | flag,
        0o600,
        dir_fd=folder.descriptor,
    )
    try:
        os.write(descriptor, bytes(blocks))
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def _is_trim_overdue(base: Path) -> bool:
    with contextlib.suppress(OSError):
        return time.time() - base.stat().st_mtime > _TRIM_SECONDS
    return False


@functools.cache
def _flags(*names: str) -> int:
    """Return the flags for reading that this system has."""
    return functools.reduce(
        operator.or_, (getattr(os, name, 0) for name in names), os.O_RDONLY
    )


def _limit() -> int:
    try:
        return config.cache_size()
    except ArgumentError as error:
        _warn_once(
            f"cache: {error}; the limit is {config.CACHE_SIZE.default} until then"
        )
        return config.cache_size(config.CACHE_SIZE.default)


def _files(folder: _Folder) -> Iterator[tuple[float, int, str]]:
    """Yield when each file was last used, its bytes and its name."""
    with os.scandir(_scanned(folder)) as rows:
        for row in rows:
            try:
                found = row.stat(follow_symlinks=False)
            except OSError:
                continue  # removed meanwhile
            if stat.S_ISREG(found.st_mode):
                yield found.st_mtime, found.st_size, row.name


def _scanned(folder: _Folder) -> int | str:
    return folder.path if folder.descriptor is None else folder.descriptor


def _remove_leftovers(folder: _Folder) -> None:
    where = _scanned(folder)
    remove_leftovers(where)
    # Versions before kept an unfinished file in a folder of its own.
    for name in leftovers(where, also=f"{UNFINISHED}[a-z0-9_]{{8}}"):
        with contextlib.suppress(OSError):
            member = folder.member(name)
            found = os.stat(member, dir_fd=folder.descriptor, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode) and is_abandoned(found):
                _remove_folder(member, folder.descriptor)


def _remove_folder(name: str, above: int | None) -> None:
    """Remove a folder that holds nothing but files."""
    with _open_folder(name, above, name) as folder:
        with os.scandir(_scanned(folder)) as rows:
            names = [row.name for row in rows]
        for member in names:
            os.unlink(folder.member(member), dir_fd=folder.descriptor)
    os.rmdir(name, dir_fd=above)


@contextlib.contextmanager
def _folder_of(path: Path, *, make: bool) -> Iterator[_Folder]:
    """Open the folder of a file of the cache, level by level."""
    whole = os.path.dirname(path)
    base, kind = os.path.split(whole)
    if make:
        _make_private(Path(base))
    with _open_folder(base, None, base) as outer:
        member = outer.member(kind)
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(member, 0o700, dir_fd=outer.descriptor)
        with _open_folder(member, outer.descriptor, whole) as inner:
            yield inner


def _make_private(folder: Path) -> None:
    """Make a folder, and those above it that are not there, for this user alone."""
    missing = [folder, *folder.parents]
    while missing and missing[-1].exists():
        missing.pop()
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):
            each.mkdir(0o700)


@contextlib.contextmanager
def _open_folder(name: str, above: int | None, path: str) -> Iterator[_Folder]:
    """Open one folder, which must belong to the user and be writable by no other."""
    if not _HAS_OWNERS:
        yield _Folder(path, None)
        return
    flags = _flags("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
    try:
        descriptor = os.open(name, flags, dir_fd=above)
    except OSError:
        if not os.path.islink(path):
            raise
        # The cache folder itself may be reached by a link that others cannot change.
        if above is not None or not _is_own(os.lstat(path)):
            raise UntrustedFolder(f"{path} is a link") from None
        descriptor = os.open(os.path.realpath(path), flags)
    try:
        found = os.fstat(descriptor)
        if not _is_own(found):
            raise UntrustedFolder(
                f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}"
            )
        if found.st_mode & 0o022:
            mode = stat.S_IMODE(found.st_mode)
            raise UntrustedFolder(
                f"{path} is open to other users: its mode is {mode:o}"
            )
        yield _Folder(path, descriptor)
    finally:
        os.close(descriptor)


def _is_own(found: os.stat_result) -> bool:
    """Return whether something is this user's; root can do all that the user can."""
    return found.st_uid in (0, os.geteuid())


def _is_trusted(found: os.stat_result) -> bool:
    """Return whether an open file of the cache may be read."""
    if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
        return False
    return not _HAS_OWNERS or (_is_own(found) and not found.st_mode & 0o022)


def _touch(descriptor: int, path: Path, found: os.stat_result) -> None:
    """Note that a file was used, once an hour."""
    if time.time() - found.st_mtime > _TOUCH_SECONDS:
        with contextlib.suppress(OSError):
            os.utime(descriptor if os.utime in os.supports_fd else path)


def _warn_untrusted(reason: UntrustedFolder) -> None:
    _warn_once(
        f"cache: {reason}; nothing is kept on disk: make the folder yours and writable"
        f" by you alone (chmod go-w), or set {config.CACHE.name} to another"
    )


@functools.cache
def _warn_once(message: str) -> None:
    """Warn of something that costs time only, once per process."""
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def cache_name(info: DeviceInfo) -> str:
    """Return the name, without a suffix, of files about a device and its driver."""
    return (
        f"{info.vendor_id:04x}-{info.device_id:04x}-{info.driver_version:08x}"
        f"-{info.pipeline_cache_uuid}"
    )


def cache_file(info: DeviceInfo) -> Path:
    """Return where the cache of a device and its driver version is kept."""
    return config.cache_folder() / "pipelines" / f"{cache_name(info)}.bin"
