"""Timeline points: done, waiting, time-outs, and reads that wait for one buffer."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.vkbackend.kernels import (
    SLOW_WORDS,
    add_affine,
    affine,
    filled,
    run_slow,
    words,
)
from vkbackend import Device, TimelinePoint, transfer
from vkbackend.errors import DeviceLost
from vkbackend.timeline import Queue, latest
from vkbackend.vk import generated as vk


@pytest.mark.timing
@pytest.mark.core
def test_wait_and_done(device: Device) -> None:
    point = run_slow(device, device.allocate(SLOW_WORDS * 4), 1)
    assert not point.done()
    assert point.wait(0.0) is False
    assert point.wait(1e-3) is False
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


def read_returns_early(device: Device) -> bool:
    """Read A while slow work on B runs; return whether B was still running after."""
    a = filled(device, np.arange(1000, dtype=np.uint32))
    doubled = device.allocate(a.size)
    b = device.allocate(SLOW_WORDS * 4)
    batch = device.batch()
    add_affine(batch, affine(device), a, doubled, 2)
    batch.submit()
    slow = run_slow(device, b, 5)
    assert (words(device, doubled) == np.arange(1000) * 2).all()
    early = not slow.done()
    assert (words(device, b) == 5).all()
    return early


@pytest.mark.timing
@pytest.mark.core
def test_read_waits_for_its_buffer_only(device: Device) -> None:
    read_returns_early(device)
    assert read_returns_early(device)


@pytest.mark.timing
def test_read_needs_its_own_point(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Queue.wait

    def everything(
        self: Queue, value: int, timeout_seconds: float | None = None
    ) -> bool:
        return one(self, self.submitted, timeout_seconds)

    def all_queues(queue: Queue, points: Sequence[TimelinePoint]) -> dict[Queue, int]:
        others = {point.queue for point in points if point.queue is not queue}
        return {other: other.submitted for other in others}

    monkeypatch.setattr(Queue, "wait", everything)
    monkeypatch.setattr(transfer, "cross_queue_waits", all_queues)
    assert not read_returns_early(device)


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
