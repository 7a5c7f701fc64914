"""Pages that a device may import, and what must never be taken for such."""

import gc
import mmap
import os
import sys
import weakref
from pathlib import Path

import pytest

from vkbackend import ArgumentError, HostPages
from vkbackend.memory.host_pages import file_behind, window_pages

PAGE = mmap.PAGESIZE
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="sealed memfds and /proc are Linux's"
)

MAPS = """\
10000-20000 rw-p 00000000 00:00 0
20000-30000 rw-s 00000000 00:01 1024 /memfd:vkbackend (deleted)
30000-40000 rw-s 00000000 00:19 7 /dev/shm/window with blanks
40000-50000 rw-s 00000000 08:01 99 /tmp/ompi.host/window
60000-70000 rw-s 00000000 00:2f 12 /memfd:a file of this name
"""
MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:25 / /dev/shm rw,nosuid - tmpfs tmpfs rw
24 22 0:47 / /mnt rw - overlay overlay rw
"""


@pytest.mark.parametrize(
    ("start", "stop", "behind"),
    [
        (0x10000, 0x40000, ""),
        (0x1F000, 0x31000, ""),
        (0x3F000, 0x41000, "/tmp/ompi.host/window on device 08:01"),
        (0x60000, 0x61000, "/memfd:a file of this name on device 00:2f"),
        (0x50000, 0x51000, "nothing at 0x50000"),
        (0x8000, 0x12000, "nothing at 0x8000"),
        (0x70000, 0x71000, "nothing at 0x70000"),
    ],
)
def test_what_lies_behind_an_address(start: int, stop: int, behind: str) -> None:
    assert file_behind(MAPS, MOUNTS, start, stop) == behind


@pytest.mark.parametrize("kind", ["anonymous", pytest.param("shared", marks=linux)])
def test_pages_are_zeroed_aligned_and_live_with_their_view(kind: str) -> None:
    pages = getattr(HostPages, kind)(70_001)
    assert pages.size == 131_072
    assert pages.address % PAGE == 0
    view = pages.view()
    dead = weakref.ref(pages)
    del pages
    gc.collect()
    assert dead() is None
    assert bytes(view) == bytes(131_072)
    view[131_071] = 3
    assert view[131_071] == 3


@linux
def test_shared_pages_are_those_of_their_descriptor() -> None:
    pages = HostPages.shared(1)
    assert pages.descriptor is not None
    again = HostPages.from_descriptor(pages.descriptor)
    assert again.address != pages.address
    assert again.descriptor != pages.descriptor
    pages.view()[5] = 9
    assert again.view()[5] == 9
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(pages.descriptor, 0)
    descriptor = pages.descriptor
    del pages
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    assert again.view()[5] == 9


@linux
def test_other_descriptors_are_refused(tmp_path: Path) -> None:
    message = r"from_descriptor: \d+ is no descriptor of shared pages"
    with open(tmp_path / "file", "w+b") as file:
        file.truncate(65_536)
        with pytest.raises(ArgumentError, match=message):
            HostPages.from_descriptor(file.fileno())
    unsealed = os.memfd_create("other")
    os.ftruncate(unsealed, 65_536)
    with pytest.raises(ArgumentError, match=rf"{message}: seals 0x1, 65536 bytes"):
        HostPages.from_descriptor(unsealed)
    os.close(unsealed)
    with pytest.raises(ArgumentError, match="Bad file descriptor"):
        HostPages.from_descriptor(unsealed)


@pytest.mark.parametrize("size", [0, -1])
def test_sizes_are_positive(size: int) -> None:
    with pytest.raises(ArgumentError, match=f"the size is {size}; it must be 1 byte"):
        HostPages.anonymous(size)


@linux
def test_a_window_gives_its_whole_pages() -> None:
    owner = HostPages.shared(4 * PAGE)
    pages = window_pages(owner, owner.address + 264, 3 * PAGE)
    assert (pages.address, pages.size) == (owner.address + PAGE, 2 * PAGE)
    owner.view()[PAGE] = 4
    view, alive = pages.view(), weakref.ref(owner)
    del owner, pages
    gc.collect()
    assert alive() is not None
    assert view[0] == 4


@linux
def test_a_window_is_memory_alone(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="holds no whole page: 4000 bytes at 0x108"):
        window_pages(None, 264, 4000)
    with pytest.raises(ArgumentError, match="not memory alone: nothing at 0x10000"):
        window_pages(None, 0x10000, PAGE)
    (tmp_path / "file").write_bytes(bytes(PAGE))
    maps = Path("/proc/self/maps").read_text()
    line = next(each for each in maps.splitlines() if "python" in each)
    first = int(line.partition("-")[0], 16)
    with pytest.raises(ArgumentError, match=r"not memory alone: /.*python.* on device"):
        window_pages(None, first, PAGE)
