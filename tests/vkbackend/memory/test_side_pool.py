"""Pools beside a device's own: that of the host's memory."""

import numpy as np
import pytest

from vkbackend import Device
from vkbackend.memory.side_pool import host_pool

pytestmark = pytest.mark.device


def test_the_host_reads_and_writes_it_where_it_is(device: Device) -> None:
    """Nothing is submitted for that; copies and kernels use it as any other memory."""
    pool = host_pool(device)
    assert host_pool(device) is pool
    counted = device.memory_stats()["blocks"]
    small, other = (pool.allocate(64, name="small") for _ in range(2))
    assert small.span.region.block is other.span.region.block
    assert small.span.region.block.cached
    data = np.arange(16, dtype=np.uint32)
    before = device.counters.submits
    device.upload(data, small)
    assert bytes(device.read(small)) == data.tobytes()
    assert device.counters.submits == before
    batch = device.batch()
    batch.copy(small, other)
    batch.submit()
    assert bytes(device.read(other)) == data.tobytes()
    assert device.counters.submits == before + 1
    # It is none of the device's memory.
    assert device.memory_stats()["blocks"] == counted


def test_it_ends_with_the_device(device: Device) -> None:
    own = Device(device.physical)
    kept = host_pool(own).allocate(1)
    own.close()
    assert not own.live_objects()
    del kept
