"""Futures of timeline points: order, threads, failures, closing."""

import asyncio
import threading
from typing import Any

import pytest

from tests.vkbackend.gate import held
from tests.vkbackend.kernels import SLOW_WORDS, fill, run_slow, words
from vkbackend import Device, TimelinePoint, future_of
from vkbackend.driver.physical_device import choose
from vkbackend.driver.queue import Queue


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
    for thread in threading.enumerate():
        if "futures" in thread.name:
            thread.join()


def test_waiting_takes_no_processor_time(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread sleeps in the driver, for as long as Ctrl-C may take to be seen."""
    functions, asleep = device.logical.functions, threading.Event()
    wait, slices = functions.vkWaitSemaphores, []

    def counted(handle: Any, info: Any, nanoseconds: int) -> int:
        slices.append(nanoseconds)
        asleep.set()
        return int(wait(handle, info, nanoseconds))

    monkeypatch.setattr(functions, "vkWaitSemaphores", counted, raising=False)
    with held(device.compute_queue) as gate:
        future = future_of(fill(device, device.allocate(400), 1))
        asleep.wait()
        assert not future.done()
        gate.open()
        future.result()
    assert set(slices) == {100_000_000}


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
