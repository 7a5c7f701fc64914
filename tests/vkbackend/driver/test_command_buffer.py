"""Command buffers: how many there are, and that none is lost."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tests.vkbackend.kernels import add_affine, add_indirect, affine, filled, words
from vkbackend import Batch, Buffer, Device
from vkbackend.errors import VulkanError
from vkbackend.vk import generated as vk

TIMES = 500
FEW = 8


class Allocated:
    """Counts the command buffers that are made."""

    def __init__(self, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        allocate = device.logical.functions.vkAllocateCommandBuffers

        def counted(*arguments: object) -> object:
            self.times += 1
            return allocate(*arguments)

        monkeypatch.setattr(
            device.logical.functions, "vkAllocateCommandBuffers", counted
        )


@pytest.fixture
def allocated(device: Device, monkeypatch: pytest.MonkeyPatch) -> Allocated:
    device.synchronize()
    return Allocated(device, monkeypatch)


@contextmanager
def failing(device: Device, call: str) -> Iterator[None]:
    """Let a command of the device fail."""
    refused = vk.VK_ERROR_OUT_OF_HOST_MEMORY
    with pytest.MonkeyPatch.context() as patch:
        functions = device.logical.functions
        patch.setattr(functions, call, lambda *_: refused, raising=False)
        yield


def prepared(device: Device) -> tuple[Batch, Buffer]:
    """Return a batch with one dispatch, and what it writes."""
    x = filled(device, np.arange(64, dtype=np.uint32))
    y = device.allocate(x.size)
    batch = device.batch()
    add_affine(batch, affine(device), x, y, 2, 1)
    return batch, y


@pytest.mark.parametrize(
    "call", ["vkBeginCommandBuffer", "vkEndCommandBuffer", "vkQueueSubmit2"]
)
def test_failing_submissions_use_the_same_command_buffers(
    device: Device, allocated: Allocated, call: str
) -> None:
    batch, y = prepared(device)
    with failing(device, call):
        for _ in range(TIMES):
            with pytest.raises(VulkanError, match=call):
                batch.submit()
            assert batch.point is None
    assert allocated.times <= FEW
    batch.submit()
    assert (words(device, y) == np.arange(64) * 2 + 1).all()


@pytest.mark.parametrize(
    "call", ["vkBeginCommandBuffer", "vkEndCommandBuffer", "vkQueueSubmit2"]
)
def test_failing_replays_use_the_same_command_buffers(
    device: Device, allocated: Allocated, call: str
) -> None:
    batch, y = prepared(device)
    recording = device.record(batch)
    source = filled(device, np.zeros(64, np.uint32))
    target = device.allocate(source.size)
    copies = [(source, 0, target, 0, source.size)]
    with failing(device, call):
        for _ in range(TIMES):
            with pytest.raises(VulkanError, match=call):
                recording.submit(copies)
            assert recording.point is None
    assert allocated.times <= FEW
    recording.submit(copies)
    assert (words(device, y) == np.arange(64) * 2 + 1).all()
    assert (words(device, target) == 0).all()


def test_recordings_that_fail_leave_nothing(
    device: Device, allocated: Allocated
) -> None:
    batch, _ = prepared(device)
    with failing(device, "vkEndCommandBuffer"):
        for _ in range(TIMES):
            with pytest.raises(VulkanError, match="vkEndCommandBuffer"):
                device.record(batch)
    assert allocated.times <= FEW


def test_a_dropped_recording_gives_its_command_buffers_to_the_next(
    device: Device, allocated: Allocated
) -> None:
    y = device.allocate(256)
    for _ in range(100):
        batch = device.batch()
        add_indirect(device, batch, y, 1)
        recording = device.record(batch)
        recording.submit(changed=True)
        del recording
        device.synchronize()
        device.settle()
    assert allocated.times <= FEW
    assert (words(device, y) == 30).all()
