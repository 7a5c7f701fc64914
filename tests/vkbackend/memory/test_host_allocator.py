"""Host memory that is lent for as long as somebody looks at it."""

import gc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.interruption import each_interruption
from vkbackend import HostPages, VulkanError
from vkbackend.driver.queue import TimelinePoint
from vkbackend.errors import DeviceLost
from vkbackend.memory import host_allocator
from vkbackend.memory.host_allocator import HostAllocator, HostBlock

MIB = 1 << 20


class FakeQueue:
    """A queue that has got as far as it is told."""

    name = "fake"

    def __init__(self) -> None:
        self.submitted = 0
        self.completed = 0

    def reached(self, value: int) -> bool:
        return value <= self.completed


class FakeMemory:
    """Imports that are only counted; `error` is what they raise."""

    import_alignment = 4096

    def __init__(self) -> None:
        self.imported: list[int] = []
        self.freed = 0
        self.error: Exception | None = None

    def import_pages(self, pages: HostPages, name: str) -> Any:
        if self.error is not None:
            raise self.error
        assert pages.address % 4096 == 0
        assert pages.size % 4096 == 0
        self.imported.append(pages.size)
        return SimpleNamespace(freed=False)

    def finish_frees(self) -> None:
        pass

    def free(self, block: Any) -> None:
        if not block.freed:
            block.freed = True
            self.freed += 1


def make(imports: bool = True) -> tuple[HostAllocator, FakeMemory]:
    memory = FakeMemory()
    return HostAllocator(memory, imports), memory  # type: ignore[arg-type]


def point(queue: FakeQueue, value: int) -> TimelinePoint:
    return TimelinePoint(queue, value)  # type: ignore[arg-type]


def allocate(allocator: HostAllocator, size: int) -> tuple[HostBlock, memoryview]:
    block, view = allocator.allocate(size)
    assert len(view) == size
    assert not view.readonly
    return block, view


def test_a_block_is_lent_until_no_view_of_it_is_left() -> None:
    allocator, _ = make()
    block, view = allocate(allocator, MIB)
    array = np.frombuffer(view, np.uint32)[7:9]
    del view
    gc.collect()
    assert not block.idle()
    assert allocate(allocator, MIB)[0] is not block
    array[0] = 3
    del array
    assert block.idle()
    assert allocate(allocator, MIB)[0] is block


def test_a_block_that_is_still_written_is_not_lent() -> None:
    allocator, _ = make()
    queue = FakeQueue()
    block, view = allocate(allocator, MIB)
    queue.submitted, block.point = 1, point(queue, 1)
    del view
    assert allocate(allocator, MIB)[0] is not block
    queue.completed = 1
    assert allocate(allocator, MIB)[0] is block


@pytest.mark.parametrize("size", [1, 65_536, 65_537, MIB + 1, 5 * MIB - 3, 100 * MIB])
def test_blocks_are_little_larger_than_asked(size: int) -> None:
    allocator, _ = make(imports=False)
    block, _ = allocate(allocator, size)
    assert size <= block.size <= max(size * 9 / 8, 65_536 + size)
    assert allocator.cached_bytes == block.size


def test_idle_blocks_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_allocator, "_MAX_BYTES", 4 * MIB)
    allocator, memory = make()
    held = [allocate(allocator, MIB), allocate(allocator, 2 * MIB)]
    held.pop(0)
    allocate(allocator, 2 * MIB)
    assert memory.freed == 1
    assert allocator.cached_bytes == 4 * MIB


def test_more_than_is_kept_is_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_allocator, "_MAX_BYTES", 4 * MIB)
    allocator, memory = make()
    kept, extra = allocate(allocator, 4 * MIB), allocate(allocator, MIB)
    assert kept[0].imported is not None
    assert extra[0].imported is None
    assert memory.imported == [4 * MIB]
    assert allocator.cached_bytes == 4 * MIB
    extra[1][:] = bytes(MIB)


def test_a_refused_import_is_not_tried_again() -> None:
    allocator, memory = make()
    memory.error = VulkanError("vkAllocateMemory: refused")
    blocks = [allocate(allocator, MIB), allocate(allocator, MIB)]
    assert [block.imported for block, _ in blocks] == [None, None]
    assert not allocator.imports


def test_a_lost_device_is_said() -> None:
    allocator, memory = make()
    memory.error = DeviceLost("vkAllocateMemory: lost")
    with pytest.raises(DeviceLost):
        allocator.allocate(MIB)


def test_blocks_are_found_by_addresses_within() -> None:
    allocator, _ = make()
    block, view = allocate(allocator, MIB)
    address = np.frombuffer(view, np.uint8).ctypes.data
    assert allocator.holding(address, MIB) == (block, 0)
    assert allocator.holding(address + 5, MIB - 5) == (block, 5)
    assert allocator.holding(address - 1, 2) is None
    assert allocator.holding(address + block.size - 1, 2) is None
    plain, other = allocator.allocate(3 * MIB, pinned=False)
    assert allocator.holding(np.frombuffer(other, np.uint8).ctypes.data, 1) is None
    assert plain.imported is None


def test_trim_keeps_what_is_lent() -> None:
    allocator, memory = make()
    _, view = allocate(allocator, MIB)
    allocate(allocator, 2 * MIB)
    allocator.trim()
    assert memory.freed == 1
    assert allocator.cached_bytes == MIB
    allocator.close()
    assert memory.freed == 2
    view[0] = 1


def test_what_the_device_does_not_write_is_not_pinned() -> None:
    allocator, memory = make()
    block, view = allocator.allocate(MIB, pinned=False)
    assert block.imported is None
    del view
    again, _ = allocate(allocator, MIB)
    assert again is block
    assert again.imported is not None
    assert memory.imported == [MIB]


def test_an_interrupt_at_any_line_leaves_it_whole() -> None:
    allocator, memory = make()

    def come_and_go() -> None:
        allocate(allocator, MIB)
        allocate(allocator, 2 * MIB)
        allocator.trim()

    for one in each_interruption(come_and_go):
        block, view = allocate(allocator, MIB)
        assert block.imported is not None, one.where
        assert not block.imported.freed, one.where
        del view
        allocator.trim()
        assert allocator.cached_bytes == 0, one.where
        assert memory.freed == len(memory.imported), one.where
