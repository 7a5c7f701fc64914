"""Queue families on tables of real devices; counting live objects."""

import pytest

from vkbackend import Device
from vkbackend.errors import NoVulkanError, VulkanError
from vkbackend.info import QueueFamily
from vkbackend.logical import compute_family, transfer_family
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
