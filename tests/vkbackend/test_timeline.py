"""Timeline points: done, waiting, time-outs, and reads that wait for one buffer."""

from typing import Any

import numpy as np
import pytest

from tests.vkbackend.gate import held
from tests.vkbackend.kernels import add_affine, affine, fill, filled, words
from vkbackend import Device, TimelinePoint
from vkbackend.errors import DeviceLost
from vkbackend.timeline import latest
from vkbackend.vk import generated as vk


@pytest.mark.core
def test_wait_and_done(device: Device) -> None:
    with held(device.compute_queue) as gate:
        point = fill(device, device.allocate(400), 1)
        assert not point.done()
        assert point.wait(0.0) is False
        assert point.wait(1e-3) is False
        gate.open()
        assert point.wait() is True
        assert point.done()
        assert point.wait(0.0) is True


@pytest.mark.device
def test_points_are_in_order(device: Device) -> None:
    buffer = device.allocate(64)
    points = []
    for value in range(100):  # More than may be in flight at once.
        batch = device.batch()
        batch.fill(buffer, value)
        points.append(batch.submit())
    assert [point.value for point in points] == list(
        range(points[0].value, points[0].value + 100)
    )
    points[-1].wait()
    assert all(point.done() for point in points)
    assert words(device, buffer)[0] == 99


def read_while_b_is_held_back(device: Device) -> None:
    """Read A while work on B cannot finish, which must not be waited for."""
    a = filled(device, np.arange(1000, dtype=np.uint32))
    doubled, b = device.allocate(a.size), device.allocate(4000)
    batch = device.batch()
    add_affine(batch, affine(device), a, doubled, 2)
    batch.submit()
    with held(device.compute_queue) as gate:
        work = fill(device, b, 5)
        assert (words(device, doubled) == np.arange(1000) * 2).all()
        assert not work.done()
        gate.open()
        assert (words(device, b) == 5).all()
        assert work.done()


@pytest.mark.core
def test_read_waits_for_its_buffer_only(device: Device) -> None:
    read_while_b_is_held_back(device)


@pytest.mark.device
def test_read_needs_its_own_point(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above fails where a read waits for all that was submitted."""
    read = Device.read

    def waits(self: Device, *arguments: Any) -> memoryview:
        self.compute_queue.wait(self.compute_queue.submitted)
        return read(self, *arguments)

    monkeypatch.setattr(Device, "read", waits)
    with pytest.raises(AssertionError, match="held back"):
        read_while_b_is_held_back(device)


@pytest.mark.device
def test_latest_keeps_one_for_each_queue(device: Device) -> None:
    queue = device.compute_queue
    device.synchronize()
    pending = [TimelinePoint(queue, queue.submitted + number) for number in (3, 9, 5)]
    assert latest(pending) == (pending[1],)
    assert latest([TimelinePoint(queue, queue.submitted)]) == ()


@pytest.mark.device
def test_lost_device_says_how_far_it_got(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = device.compute_queue
    device.synchronize()
    batch = device.batch()
    x = filled(device, np.ones(4, np.uint32))
    add_affine(batch, affine(device), x, device.allocate(16))
    functions = device.logical.functions
    monkeypatch.setattr(
        functions, "vkQueueSubmit2", lambda *_: vk.VK_ERROR_DEVICE_LOST, raising=False
    )
    done = queue.submitted
    with pytest.raises(
        DeviceLost,
        match=r"vkQueueSubmit2: VK_ERROR_DEVICE_LOST \(-4\): after 'affine LOCAL_X=64'"
        rf"; last completed timeline value \d+ of {done} on the compute queue",
    ):
        batch.submit()
