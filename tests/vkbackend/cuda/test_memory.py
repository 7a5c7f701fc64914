"""Memory that CUDA makes, by a driver over memory that Vulkan exports."""

import os
from collections.abc import Iterator

import numpy as np
import pytest

from tests.fake_cuda import GRANULARITY, FakeCuda, install
from vkbackend import Device
from vkbackend.cuda.memory import (
    CudaMemory,
    device_of,
    obstacle_among,
    why_not,
)
from vkbackend.errors import CudaError


@pytest.fixture
def cuda(device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    """Return the driver; all that was made by it is gone in the end."""
    if device.info.kind != "software" or not device.memory.descriptors:
        pytest.skip("the driver's place is taken on software devices")
    yield install(monkeypatch, device)
    device.release_imports()


@pytest.mark.usefixtures("_no_collector")
def test_a_pull(device: Device, cuda: FakeCuda) -> None:
    device.release_imports()
    before = set(os.listdir("/proc/self/fd"))
    memory = CudaMemory(device)
    (own, descriptor), (inbox, other) = memory.allocate(1000), memory.allocate(1)
    opened = memory.open(descriptor, own.size)
    os.close(descriptor)
    os.close(other)
    assert own.size == GRANULARITY
    data = np.arange(256, dtype=np.uint8)
    device.upload(data, own.vulkan, 100)
    copy = memory.pull(opened, 110, inbox, 7, 20)
    assert not copy.wait(0)
    assert copy.wait(60)
    again = memory.pull(opened, 100, inbox, 0, 3)
    assert again.wait(60)
    assert cuda.live["event"] == 1
    found = bytes(device.read(inbox.vulkan, 0, 30))
    assert found == bytes([0, 1, 2, 0, 0, 0, 0, *range(10, 30), 0, 0, 0])
    memory.close()
    assert not +cuda.live
    device.release_imports()
    # What other tests have left may be closed by now.
    assert set(os.listdir("/proc/self/fd")) <= before


def test_why_a_card_cannot(device: Device, cuda: FakeCuda) -> None:
    info = device.info
    assert device_of(info) == 0
    assert why_not(info, [info.uuid]) == ""
    assert why_not(info, ["12ab"]) == "CUDA does not see the card 12ab"
    assert obstacle_among([info]) == ""
    assert obstacle_among([]) == "Vulkan has no card with NVIDIA's driver"
    cuda.fails = "cuDeviceGetAttribute"
    assert obstacle_among([info]).startswith("cuDeviceGetAttribute: CUDA_ERROR")
    assert why_not(info, []).startswith("cuDeviceGetAttribute: CUDA_ERROR")
    cuda.fails = "cuDeviceGetUuid"
    with pytest.raises(CudaError, match="cuDeviceGetUuid: CUDA_ERROR_INVALID_VALUE"):
        device_of(info)
