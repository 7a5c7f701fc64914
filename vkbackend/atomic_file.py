"""Atomic file replacement: readers see the old content or the new, never half.

Content goes to a temporary file in the same folder, which is renamed when complete: a
reader finds the old content or all of the new. Temporary files are locked by their
writer, so that those left by a killed process can be told apart.
"""

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove a file that is open
    fcntl = None  # type: ignore[assignment]

UNFINISHED = ".new-"
"""What the names of unfinished files begin with."""

ABANDONED_SECONDS = 600
"""Age from which an unfinished file that nobody locks is a leftover. A lock alone does
not tell: file servers may keep it from other hosts."""

_LEFTOVER = re.compile(re.escape(UNFINISHED) + r"[0-9a-f]{16}")
_MAX_LINKS = 40
# What is seen through these is an open file, not a name that another could take.
_OPEN_FILES = re.compile(r"/proc/|/dev/fd(/|$)")


def save_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a user's file atomically and durably; see `saving`.

    Raises
    ------
    OSError
        If it cannot be written; the old file is then as it was.
    """
    with saving(path) as file:
        file.write(content)


@contextlib.contextmanager
def saving(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Hand out a file, which replaces a user's file atomically and durably at the end.

    Links are followed, so that they stay. A file that is replaced passes its mode on,
    and its owner and group where that is allowed; a new one has what the umask leaves.
    What is no regular file, as a device or a pipe, is written to as it is. Other hard
    links keep the old content. After an error in the block all is as it was.

    Raises
    ------
    OSError
        If it cannot be written; the old file is then as it was.
    """
    path = os.fsdecode(path)
    target = _followed(path)
    old = None if target is None else _status(target)
    if target is None or (old is not None and not stat.S_ISREG(old.st_mode)):
        with open(path, "wb") as file:
            yield file
        return
    effective = os.access in os.supports_effective_ids
    if old is not None and not os.access(target, os.W_OK, effective_ids=effective):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    parent, name = os.path.split(target)
    with contextlib.suppress(OSError):
        # The second pattern is of versions whose unfinished files had longer names.
        remove_leftovers(parent or ".", also=re.escape(f".{name}.") + "[0-9a-f]{8}")
    with replacing(target, like=old, durable=True) as file:
        yield file


def replace_file(
    name: str,
    content: bytes,
    *,
    folder: int | None = None,
    mode: int = 0o666,
    durable: bool = False,
) -> None:
    """Replace a file, whatever it is; of several that write at once, one stays.

    Parameters
    ----------
    name : str
        A path, relative to `folder` if that is given.
    content : bytes
        All of it.
    folder : int, optional
        Descriptor of an open folder.
    mode : int, default 0o666
        Of the new file, less the umask.
    durable : bool, default False
        Whether to wait until the disk has it. Without, a power cut may leave an empty
        file: enough where readers check a digest and can do without.
    """
    with replacing(name, folder=folder, mode=mode, durable=durable) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(
    name: str,
    *,
    folder: int | None = None,
    mode: int = 0o666,
    like: os.stat_result | None = None,
    durable: bool = False,
) -> Iterator[BinaryIO]:
    """Hand out an unfinished file, which takes the place of another at the end.

    Parameters
    ----------
    name, folder, mode, durable
        As of `replace_file`.
    like : os.stat_result, optional
        Of the file whose mode and owner the new one takes over.
    """
    scratch = os.path.join(os.path.dirname(name), UNFINISHED + os.urandom(8).hex())

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags, mode if like is None else 0o600, dir_fd=folder)

    try:
        with open(scratch, "xb", opener=opener) as file:
            _lock(file.fileno())
            if like is not None:
                _take_over(file.fileno(), like)
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(scratch, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch, dir_fd=folder)
        raise
    if durable:
        _sync_folder(os.path.dirname(name) or ".", folder)


def remove_leftovers(folder: int | str, also: str = "") -> None:
    """Remove unfinished files whose writer is gone.

    Parameters
    ----------
    folder : int or str
        A descriptor or a path.
    also : str, optional
        Pattern of further names.
    """
    for name in leftovers(folder, also):
        where = folder if isinstance(folder, int) else None
        path = name if isinstance(folder, int) else os.path.join(folder, name)
        with contextlib.suppress(OSError):
            _remove_abandoned(path, where)


def leftovers(folder: int | str, also: str = "") -> list[str]:
    """Return the names of unfinished files, of processes that run as well."""
    with os.scandir(folder) as rows:
        return [
            row.name
            for row in rows
            if _LEFTOVER.fullmatch(row.name) or (also and re.fullmatch(also, row.name))
        ]


def _remove_abandoned(path: str, folder: int | None) -> None:
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not is_abandoned(found):
            return
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path, dir_fd=folder)
    finally:
        os.close(descriptor)
    if fcntl is None:
        os.unlink(path)


def is_abandoned(found: os.stat_result) -> bool:
    """Return whether something is this user's and was not changed for long."""
    is_own = not hasattr(os, "geteuid") or found.st_uid == os.geteuid()
    return is_own and time.time() - found.st_mtime > ABANDONED_SECONDS


def _followed(path: str) -> str | None:
    """Return the path behind links; None if they lead to an open file."""
    for _ in range(_MAX_LINKS):
        folder, name = os.path.split(path)
        if _OPEN_FILES.match(os.path.join(os.path.realpath(folder), name)):
            return None
        if not os.path.islink(path):
            return path
        path = os.path.join(folder, os.readlink(path))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _lock(descriptor: int) -> None:
    """Lock a file that is being written, where the file system can."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _take_over(descriptor: int, old: os.stat_result) -> None:
    """Give a file the mode of another, and its owner and group if that is allowed."""
    if not hasattr(os, "fchown"):
        return
    mode = old.st_mode & 0o777
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        for owner in (old.st_uid, -1):
            with contextlib.suppress(OSError):
                os.fchown(descriptor, owner, old.st_gid)
                break
        else:
            # Another group must not get what this one had.
            mode &= ~0o070
    os.fchmod(descriptor, mode)


def _sync_folder(path: str, folder: int | None) -> None:
    """Wait until the disk has a folder's names, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    # The file is in its place already, so that what fails here is no failure to write;
    # a folder that the user may write to but not read, for example, cannot be opened.
    with contextlib.suppress(OSError), _opened_folder(path, folder) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def _opened_folder(path: str, folder: int | None) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
