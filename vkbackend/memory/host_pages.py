"""Pages of host memory that a device may import: made by the library, and by it alone.

| made by | what | who sees them |
| --- | --- | --- |
| `HostPages.anonymous` | private anonymous memory | this process |
| `HostPages.shared` | a memfd sealed against resizing | whoever gets its descriptor |
| `HostPages.from_descriptor` | such a memfd of another process | both processes |
| `window_pages` | a shared window of a message library | the ranks of one machine |

There is no way to name an arbitrary address or a file. A driver that is given a file's
pages refuses them, and may refuse nearly every later allocation too (NVIDIA H200,
driver 580.159.04), which nothing in the process can undo. So a descriptor must carry
the seals that only a memfd can have, and what is mapped under a window is looked up.
"""

import contextlib
import ctypes
import mmap
import os
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

from vkbackend.errors import ArgumentError

_SIZE_STEP = 1 << 16
"""Sizes are multiples of it: no device asks for a larger alignment of imports."""

_HUGE_PAGE = 2 << 20

# Filesystems without a file behind their pages.
_MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs"})
# What the kernel itself maps from its own tmpfs, which is mounted nowhere.
_KERNEL_NAMES = ("/memfd:", "/dev/zero (deleted)", "/SYSV", "[heap]", "[anon")


class HostPages:
    """Pages of host memory; unmapped when nothing refers to them or their bytes.

    Made by the functions of the module's table. `Device.import_pages` makes a buffer of
    them, which keeps them alive.

    Attributes
    ----------
    address : int
        Of the first byte; a multiple of the page size.
    size : int
        Bytes; a multiple of the page size.
    descriptor : int or None
        Of the memfd, to be handed to another process; None if there is none. It is
        closed with the pages.
    """

    def __init__(
        self, owner: object, address: int, size: int, descriptor: int | None = None
    ) -> None:
        self._owner = owner
        self.address = address
        self.size = size
        self.descriptor = descriptor
        # Making the type takes longer than a view.
        self._array = ctypes.c_ubyte * size
        if descriptor is not None:
            weakref.finalize(self, os.close, descriptor)

    def __repr__(self) -> str:
        return f"<HostPages {self.size} bytes at {self.address:#x}>"

    @classmethod
    def anonymous(cls, size: int) -> "HostPages":
        """Return fresh private pages, zeroed.

        A process that forks while a device writes to them needs a kernel that keeps
        pinned pages with the parent (Linux 5.19); `shared` ones stay in any case.

        Parameters
        ----------
        size : int
            Bytes, at least 1; rounded up to 64 KiB.
        """
        rounded = _rounded("HostPages.anonymous", size)
        if not anonymous_mappings():
            mapping = mmap.mmap(-1, rounded)
        else:
            mapping = mmap.mmap(-1, rounded, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if rounded >= _HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without huge pages
                mapping.madvise(mmap.MADV_HUGEPAGE)
        return cls(mapping, _address_of(mapping), rounded)

    @classmethod
    def shared(cls, size: int) -> "HostPages":
        """Return fresh pages that another process can map, zeroed.

        Parameters
        ----------
        size : int
            Bytes, at least 1; rounded up to 64 KiB.

        Raises
        ------
        ArgumentError
            Where the operating system has no sealed memfd: Linux has.
        """
        rounded = _rounded("HostPages.shared", size)
        if not hasattr(os, "memfd_create"):
            raise ArgumentError(
                f"HostPages.shared: the operating system has no memfd: {sys.platform};"
                f" use HostPages.anonymous within one process"
            )
        import fcntl

        descriptor = os.memfd_create("vkbackend", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, rounded)
            fcntl.fcntl(
                descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
            )
            mapping = mmap.mmap(descriptor, rounded)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(mapping, _address_of(mapping), rounded, descriptor)

    @classmethod
    def from_descriptor(cls, descriptor: int) -> "HostPages":
        """Return the pages of `shared` ones whose descriptor another process gave.

        Parameters
        ----------
        descriptor : int
            It is duplicated, and stays the caller's.

        Raises
        ------
        ArgumentError
            If it is anything else than a memfd that cannot change its size: pages of a
            file must never reach a driver.
        """
        size = _sealed_size(descriptor)
        own = os.dup(descriptor)
        try:
            mapping = mmap.mmap(own, size)
        except BaseException:
            os.close(own)
            raise
        return cls(mapping, _address_of(mapping), size, own)

    def view(self) -> memoryview:
        """Return the bytes, writable; they keep the pages mapped."""
        array = self._array.from_address(self.address)
        array.owner = self._owner  # type: ignore[attr-defined]
        return memoryview(array).cast("B")


def window_pages(owner: object, address: int, size: int) -> HostPages:
    """Return the whole pages of a shared window that a message library mapped.

    For the layers of the library that make such windows; programs use `HostPages`.

    Parameters
    ----------
    owner : object
        What keeps the window mapped.
    address, size : int
        Of the window, in bytes. What lies in a page only in part is left out: such a
        window may begin inside a page, at the same place in each process.

    Raises
    ------
    ArgumentError
        If no page is left, or the pages are a file's.
    """
    page = mmap.PAGESIZE
    start, stop = -(-address // page) * page, (address + size) // page * page
    if start >= stop:
        raise ArgumentError(
            f"window_pages: the window holds no whole page: {size} bytes at"
            f" {address:#x}; pages have {page} bytes"
        )
    try:
        maps = Path("/proc/self/maps").read_text(errors="replace")
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError as error:
        raise ArgumentError(
            f"window_pages: what is mapped at {address:#x} cannot be looked up:"
            f" {error}; only pages without a file can be imported"
        ) from error
    behind = file_behind(maps, mounts, start, stop)
    if behind:
        raise ArgumentError(
            f"window_pages: the pages at {address:#x} are not memory alone: {behind};"
            f" have the window made in /dev/shm"
        )
    return HostPages(owner, start, stop - start)


def file_behind(maps: str, mounts: str, start: int, stop: int) -> str:
    """Return what is mapped at an address range that is no plain memory, or "".

    Parameters
    ----------
    maps, mounts : str
        Content of `/proc/self/maps` and of `/proc/self/mountinfo`.
    start, stop : int
        First address, and the one after the last.
    """
    rows = [line.split() for line in mounts.splitlines() if line.strip()]
    # Their numbers are decimal, and those of mappings hexadecimal.
    mounted = {_device(fields[2], 10) for fields in rows}
    in_memory = {
        _device(fields[2], 10)
        for fields in rows
        if "-" in fields and fields[fields.index("-") + 1] in _MEMORY_FILESYSTEMS
    }
    covered = start
    for first, last, device, inode, name in _mappings(maps):
        if last <= covered or first >= stop:
            continue
        if first > covered:
            break
        number = _device(device, 16)
        kernels = number not in mounted and name.startswith(_KERNEL_NAMES)
        if inode and number not in in_memory and not kernels:
            return f"{name or 'an unnamed file'} on device {device}"
        covered = last
    return "" if covered >= stop else f"nothing at {covered:#x}"


def _device(text: str, base: int) -> tuple[int, int]:
    """Return the numbers of a device, major and minor."""
    major, minor = text.split(":")
    return int(major, base), int(minor, base)


def _mappings(maps: str) -> Iterator[tuple[int, int, str, int, str]]:
    """Yield first and last address, device, inode and name of each mapping."""
    for line in maps.splitlines():
        bounds, _, _, device, inode, *name = line.split(maxsplit=5)
        first, last = (int(each, 16) for each in bounds.split("-"))
        yield first, last, device, int(inode), name[0] if name else ""


def anonymous_mappings() -> bool:
    """Return whether the operating system maps memory without a file."""
    return hasattr(mmap, "MAP_ANONYMOUS")


def _rounded(where: str, size: int) -> int:
    if size < 1:
        raise ArgumentError(f"{where}: the size is {size}; it must be 1 byte or more")
    return -(-size // _SIZE_STEP) * _SIZE_STEP


def _address_of(mapping: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def _sealed_size(descriptor: int) -> int:
    """Return the size of a memfd that nobody can resize, or raise ArgumentError."""
    where = "HostPages.from_descriptor"
    try:
        import fcntl

        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        wanted = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
        size = os.fstat(descriptor).st_size
    except (ImportError, AttributeError, OSError) as error:
        raise ArgumentError(
            f"{where}: {descriptor} is no descriptor of shared pages ({error}); give"
            f" the `descriptor` of HostPages.shared"
        ) from error
    if seals & wanted != wanted or size < 1 or size % _SIZE_STEP:
        raise ArgumentError(
            f"{where}: {descriptor} is no descriptor of shared pages: seals {seals:#x},"
            f" {size} bytes; give the `descriptor` of HostPages.shared"
        )
    return size
