"""Futures of timeline points: order, threads, failures, closing."""

import asyncio
import threading
import time

import pytest

from tests.vkbackend.kernels import SLOW_WORDS, run_slow, words
from vkbackend import Device, TimelinePoint, future_of
from vkbackend.physical import choose
from vkbackend.timeline import Queue


def test_a_point_that_is_reached_needs_no_thread(device: Device) -> None:
    device.synchronize()
    threads = threading.active_count()
    point = TimelinePoint(device.compute_queue, device.compute_queue.submitted)
    assert future_of(point).done()
    assert threading.active_count() == threads


def test_done_when_the_device_is(device: Device) -> None:
    y = device.allocate(4 * SLOW_WORDS)
    points = [run_slow(device, y, value) for value in (1, 2, 3)]
    futures = [future_of(point) for point in points]
    for point, future in zip(points, futures, strict=True):
        assert future.result(timeout=60) is None
        assert point.done()
    assert (words(device, y) == 3).all()


def test_the_event_loop_runs_meanwhile_and_no_thread_is_left(device: Device) -> None:
    y = device.allocate(4 * SLOW_WORDS)

    async def program() -> int:
        points = [run_slow(device, y, value) for value in range(1, 5)]
        waiting = asyncio.gather(
            *(asyncio.wrap_future(future_of(point)) for point in points)
        )
        rounds = 0
        while not waiting.done():
            rounds += 1
            await asyncio.sleep(0.001)
        await waiting
        return rounds

    assert asyncio.run(program()) > 0
    deadline = time.monotonic() + 10
    while any("futures" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.timing
def test_waiting_takes_no_processor_time(device: Device) -> None:
    """The thread sleeps in the driver; a spinning one would use all of the time."""
    if device.info.kind == "software":
        pytest.skip("a software device computes with this process's own threads")
    y = device.allocate(4 * SLOW_WORDS)
    started, used = time.monotonic(), time.process_time()
    future_of(run_slow(device, y, 1)).result(timeout=60)
    assert time.process_time() - used < 0.5 * (time.monotonic() - started) + 0.01


def test_cancelling_one_leaves_the_others(device: Device) -> None:
    y = device.allocate(4 * SLOW_WORDS)
    first, second = (future_of(run_slow(device, y, value)) for value in (1, 2))
    first.cancel()
    assert second.result(timeout=60) is None


def test_what_waiting_raises_is_the_exception(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(queue: Queue, value: int, timeout_seconds: float | None = None) -> bool:
        raise OSError("gone")

    point = TimelinePoint(device.compute_queue, device.compute_queue.submitted + 1)
    with monkeypatch.context() as patch:
        patch.setattr(Queue, "wait", broken)
        future = future_of(point)
        with pytest.raises(OSError, match="gone"):
            future.result(timeout=60)


@pytest.mark.device
def test_closing_a_device_finishes_what_is_awaited() -> None:
    device = Device(choose())
    future = future_of(run_slow(device, device.allocate(4 * SLOW_WORDS), 1))
    device.close()
    assert future.result(timeout=60) is None
