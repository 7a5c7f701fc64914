"""A device whose own memory is almost used up."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from vkbackend import Device, OutOfDeviceMemory
from vkbackend.memory.memory import Memory

_PIECE = 1 << 20


@contextmanager
def room_for(device: Device, count: int) -> Iterator[None]:
    """Let a device's own memory grow by so many bytes within.

    Gaps of a mebibyte in what the pool has are taken before.
    """
    device.synchronize()
    device.empty_cache()
    most = device.memory_stats()["reserved"]
    without_limit = Memory.available

    def available(memory: Memory, heap: int) -> int:
        if not memory.logical.info.heaps[heap].device_local:
            return without_limit(memory, heap)
        return max(0, most - device.memory_stats()["reserved"])

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Memory, "available", available)
        taken = []
        with suppress(OutOfDeviceMemory):
            while True:
                taken.append(device.allocate(_PIECE))
        most += count
        yield
