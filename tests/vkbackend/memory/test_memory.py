"""Memory types for each use, on tables of real devices; blocks; budget."""

import ctypes

import pytest

from vkbackend import Device
from vkbackend.errors import OutOfDeviceMemory
from vkbackend.memory.memory import (
    Memory,
    MemoryType,
    MemoryUsage,
    choose_type,
    gibibytes,
    second_type,
)
from vkbackend.vk import generated as vk

# Heap and property bits: 1 device-local, 2 host-visible, 4 coherent, 8 cached.
TABLES = {
    "NVIDIA H200": ((1, 0x0), (0, 0x1), (1, 0x6), (1, 0xE), (0, 0x7)),
    "NVIDIA, small window": ((1, 0x0), (0, 0x1), (1, 0x6), (1, 0xE), (2, 0x7)),
    "AMD, no window": ((0, 0x1), (1, 0x6), (1, 0xE)),
    "lavapipe": ((0, 0xF),),
    "Intel integrated": ((0, 0x1), (0, 0x7), (0, 0xF)),
}
CHOSEN = {
    "NVIDIA H200": {"DEVICE": 0x7, "ARGUMENTS": 0x7, "UPLOAD": 0x6, "READBACK": 0xE},
    "NVIDIA, small window": {"DEVICE": 0x1, "ARGUMENTS": 0x7, "UPLOAD": 0x6},
    "AMD, no window": {"DEVICE": 0x1, "ARGUMENTS": 0x6, "READBACK": 0xE},
    "lavapipe": {"DEVICE": 0xF, "ARGUMENTS": 0xF, "UPLOAD": 0xF, "READBACK": 0xF},
    "Intel integrated": {"DEVICE": 0xF, "ARGUMENTS": 0x7, "READBACK": 0xF},
}


@pytest.mark.parametrize(
    ("table", "use", "flags"),
    [(name, use, flags) for name, row in CHOSEN.items() for use, flags in row.items()],
)
def test_choose_type(table: str, use: str, flags: int) -> None:
    types = tuple(
        MemoryType(index, heap, bits)
        for index, (heap, bits) in enumerate(TABLES[table])
    )
    assert choose_type(types, MemoryUsage[use], -1).flags == flags


def test_choose_type_respects_the_buffer() -> None:
    types = (MemoryType(0, 0, 0x1), MemoryType(1, 0, 0x1))
    assert choose_type(types, MemoryUsage.DEVICE, 0b10).index == 1


def test_choose_type_fails_with_the_table() -> None:
    with pytest.raises(OutOfDeviceMemory, match=r"no type serves `upload`.*0x1"):
        choose_type((MemoryType(0, 0, 0x1),), MemoryUsage.UPLOAD, -1)


@pytest.mark.parametrize(
    ("table", "use", "flags"),
    [
        ("NVIDIA H200", "DEVICE", 0x1),
        ("NVIDIA H200", "ARGUMENTS", 0x6),
        ("NVIDIA H200", "UPLOAD", None),
        ("NVIDIA, small window", "DEVICE", None),
        ("NVIDIA, small window", "ARGUMENTS", 0x6),
        ("lavapipe", "DEVICE", None),
        ("AMD, no window", "DEVICE", None),
    ],
)
def test_where_there_is_no_more_mapped_memory(
    table: str, use: str, flags: int | None
) -> None:
    rows = enumerate(TABLES[table])
    types = tuple(MemoryType(index, heap, bits) for index, (heap, bits) in rows)
    first = choose_type(types, MemoryUsage[use], -1)
    other = second_type(types, MemoryUsage[use], first, -1)
    assert (other.flags if other else None) == flags


def test_what_is_mapped_no_more_is_allocated_unmapped(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, plain = device.memory, Memory._allocate
    used: list[int] = []
    names = ("unmapped", "none is left")

    def allocate(
        self: Memory, size: int, index: int, name: str, extension: ctypes.Structure
    ) -> int:
        if name in names:  # Other tests' tensors may be made by another thread.
            used.append(index)
        if name in names and len(used) == 1:
            raise OutOfDeviceMemory("vkAllocateMemory: no more is mapped")
        return plain(self, size, index, name, extension)

    types = memory.types
    (chosen,) = [choose_type(types, MemoryUsage.DEVICE, -1)]
    other = MemoryType(chosen.index, chosen.heap, 0x1)
    monkeypatch.setattr(Memory, "_allocate", allocate)
    monkeypatch.setattr("vkbackend.memory.memory.second_type", lambda *_: other)
    block = memory.allocate(1 << 16, MemoryUsage.DEVICE, "unmapped")
    try:
        assert block.mapped is None
        assert used == [chosen.index, other.index]
        monkeypatch.setattr("vkbackend.memory.memory.second_type", lambda *_: None)
        used.clear()
        with pytest.raises(OutOfDeviceMemory, match="no more is mapped"):
            memory.allocate(1 << 16, MemoryUsage.DEVICE, "none is left")
    finally:
        memory.free(block)


@pytest.mark.core
def test_memory_is_dedicated_to_its_buffer(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers map that by larger pages: random reads of many take half as long."""
    found, plain = {}, Memory._allocate

    def allocate(
        self: Memory, size: int, index: int, name: str, extension: ctypes.Structure
    ) -> int:
        found[name] = extension
        return plain(self, size, index, name, extension)

    monkeypatch.setattr(Memory, "_allocate", allocate)
    block = device.memory.allocate(1 << 16, MemoryUsage.DEVICE, "a buffer's own")
    device.memory.free(block)
    extension = found["a buffer's own"]
    assert isinstance(extension, vk.VkMemoryDedicatedAllocateInfo)
    assert extension.buffer == block.buffer
    assert extension.pNext


@pytest.mark.parametrize(
    ("size", "text"),
    [(5, "5 bytes"), (2048, "2.00 KiB"), (3 << 19, "1.50 MiB"), (9 << 30, "9.00 GiB")],
)
def test_gibibytes(size: int, text: str) -> None:
    assert gibibytes(size) == text


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.core
@pytest.mark.parametrize("use", list(MemoryUsage))
def test_blocks(device: Device, use: MemoryUsage) -> None:
    before = device.live_objects()
    block = device.memory.allocate(70_000, use, "a block")
    assert block.size == 70_000
    assert block.address % 256 == 0
    assert block.mapped is not None or use is MemoryUsage.DEVICE
    if block.mapped is not None:
        block.mapped[69_990:] = bytes(range(10))
        assert bytes(block.mapped[69_990:]) == bytes(range(10))
    device.memory.free(block)
    assert device.live_objects() == before


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.device
def test_budget_is_respected(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    before = device.live_objects()
    monkeypatch.setattr(Memory, "available", lambda self, heap: 1 << 20)
    with pytest.raises(
        OutOfDeviceMemory,
        match=r"over budget: asked 2.00 MiB of heap \d; the driver has 1.00 MiB left",
    ):
        device.memory.allocate(2 << 20, MemoryUsage.DEVICE, "")
    assert device.live_objects() == before


@pytest.mark.core
def test_available_is_plausible(device: Device) -> None:
    for index, heap in enumerate(device.info.heaps):
        assert 0 <= device.memory.available(index) <= heap.size
