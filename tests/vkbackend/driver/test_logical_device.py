"""Queue families on tables of real devices; counting live objects."""

import sys
import threading
from types import FrameType, SimpleNamespace

import pytest

from tests.interruption import each_interruption
from vkbackend import Device
from vkbackend.driver.device_info import QueueFamily
from vkbackend.driver.logical_device import (
    LogicalDevice,
    compute_family,
    transfer_family,
)
from vkbackend.errors import NoVulkanError, VulkanError
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

# Bits: 1 graphics, 2 compute, 4 transfer, 8 sparse, 0x20 video, 0x100 optical flow.
FAMILIES = {
    "NVIDIA H200": ((0xF, 0xC, 0xE, 0x2C, 0x10C), 2, 1),
    "AMD": ((0xF, 0xE, 0xC), 1, 2),
    "Intel": ((0xF,), 0, 0),
    "lavapipe": ((0x7,), 0, 0),
    "compute only": ((0x1, 0x2), 1, 1),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    flags, compute, transfer = FAMILIES[name]
    rows = tuple(QueueFamily(index, row, 1) for index, row in enumerate(flags))
    assert compute_family(rows) == compute
    assert transfer_family(rows, compute) == transfer


def test_no_compute_family() -> None:
    with pytest.raises(NoVulkanError, match="no queue family computes"):
        compute_family((QueueFamily(0, 0x1, 1),))


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.core
def test_live_objects_are_counted(device: Device) -> None:
    logical = device.logical
    before = logical.live_objects()
    info = runtime.make(vk.VkCommandPoolCreateInfo, queueFamilyIndex=0)
    handle = logical.create("CommandPool", info, "a pool")
    assert logical.live_objects()["CommandPool"] == before["CommandPool"] + 1
    logical.destroy("CommandPool", handle)
    assert logical.live_objects() == before


@pytest.mark.device
def test_failures_name_call_and_object(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        device.logical.functions,
        "vkCreateCommandPool",
        lambda *_: vk.VK_ERROR_OUT_OF_HOST_MEMORY,
        raising=False,
    )
    info = runtime.make(vk.VkCommandPoolCreateInfo)
    with pytest.raises(
        VulkanError,
        match=r"vkCreateCommandPool: VK_ERROR_OUT_OF_HOST_MEMORY \(-1\): a pool",
    ):
        device.logical.create("CommandPool", info, "a pool")


@pytest.mark.device
def test_an_interrupt_at_any_line_leaves_no_object(device: Device) -> None:
    logical = device.logical
    before, handles = logical.live_objects(), set(logical.live["CommandPool"])
    info = runtime.make(vk.VkCommandPoolCreateInfo, queueFamilyIndex=0)
    places = 0
    for one in each_interruption(lambda: logical.create("CommandPool", info, "a pool")):
        places += 1
        assert logical.live_objects() == before, one.where
        assert logical._creating == {}, one.where
    assert places > 5
    # The one that was not interrupted.
    (made,) = logical.live["CommandPool"] - handles
    logical.destroy("CommandPool", made)


class Making(threading.Thread):
    """Another thread that makes a command pool, for now inside of the driver's call."""

    def __init__(self, logical: LogicalDevice) -> None:
        super().__init__()
        self.inside, self.on = threading.Event(), threading.Event()
        self.logical = logical
        self.handle = 0
        self.start()
        assert self.inside.wait(60)

    def run(self) -> None:
        info = runtime.make(vk.VkCommandPoolCreateInfo, queueFamilyIndex=0)
        self.handle = self.logical.create("CommandPool", info, "another's")

    def finish(self) -> None:
        self.on.set()
        self.join()
        assert self.handle, "it failed"
        self.logical.destroy("CommandPool", self.handle)


@pytest.mark.device
def test_an_object_is_made_while_another_is_destroyed(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread begins to make one at each line of `destroy` in turn."""
    logical, functions = device.logical, device.logical.functions
    create = functions.vkCreateCommandPool

    def waits(*arguments: object) -> int:
        maker = threading.current_thread()
        assert isinstance(maker, Making)
        maker.inside.set()
        assert maker.on.wait(60)
        return int(create(*arguments))

    monkeypatch.setattr(functions, "vkCreateCommandPool", waits, raising=False)
    before = logical.live_objects()
    info = runtime.make(vk.VkSemaphoreCreateInfo)
    makers: list[Making] = []
    place = lines = 0

    def begin(frame: FrameType, event: str, argument: object) -> object:
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == place:
                makers.append(Making(logical))
        return begin

    while place <= lines:
        place, lines = place + 1, 0
        semaphore = logical.create("Semaphore", info, "to destroy")
        makers.append(Making(logical))
        tracer = sys.gettrace()
        sys.settrace(begin)
        try:
            logical.destroy("Semaphore", semaphore)
        finally:
            sys.settrace(tracer)
        while makers:
            makers.pop().finish()
        assert logical._creating == {}
    assert place > 5
    assert logical.live_objects() == before


def test_two_queues_copy_where_the_family_has_them() -> None:
    for count, wanted in ((1, 1), (2, 2), (16, 2)):
        logical = LogicalDevice.__new__(LogicalDevice)
        rows = (QueueFamily(0, 2, 8), QueueFamily(1, 4, count))
        logical.physical = SimpleNamespace(families=rows)  # type: ignore[assignment]
        logical.compute_family = 0
        assert (logical.queue_count(0), logical.queue_count(1)) == (1, wanted)
