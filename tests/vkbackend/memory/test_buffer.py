"""A buffer's points and byte ranges."""

import weakref

import pytest

from tests.vkbackend.gate import held
from tests.vkbackend.kernels import add_affine, affine, fill
from vkbackend import ArgumentError, Device


@pytest.mark.core
def test_points_follow_use(device: Device) -> None:
    x, y = device.allocate(400), device.allocate(400)
    batch = device.batch()
    add_affine(batch, affine(device), x, y)
    first = batch.submit()
    assert x.last_reads == (first,)
    assert y.last_write == first
    add_affine(batch, affine(device), y, x)
    second = batch.submit()
    assert y.last_reads == (second,)
    assert y.last_write == first
    assert x.last_write == second
    assert len(x.last_reads) == 0
    assert set(y.points()) == {first, second}


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.device
def test_freed_at_once(device: Device) -> None:
    buffer = device.allocate(1 << 20)
    before = device.memory_stats()["in_use"]
    alive = weakref.ref(buffer)
    with held(device.compute_queue) as gate:
        point = fill(device, buffer, 1)
        del buffer
        assert alive() is None
        stats = device.memory_stats()
        assert not point.done()
        assert stats["in_use"] == before - (1 << 20)
        assert stats["deferred"] >= 1 << 20
        gate.open()
        point.wait()
    assert device.memory_stats()["deferred"] == 0


@pytest.mark.device
def test_a_batch_keeps_its_buffers(device: Device) -> None:
    buffer = device.allocate(400)
    alive = weakref.ref(buffer)
    batch = device.batch()
    batch.fill(buffer, 1)
    del buffer
    assert alive() is not None
    batch.submit()
    assert alive() is None


@pytest.mark.device
def test_check_range(device: Device) -> None:
    buffer = device.allocate(10, name="ten")
    buffer.check_range("here", 0, 10)
    buffer.check_range("here", 10, 0)
    with pytest.raises(
        ArgumentError, match=r"here: .* offset 8, size 3; <Buffer 'ten'"
    ):
        buffer.check_range("here", 8, 3)
