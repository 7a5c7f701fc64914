"""Timeline points: done, waiting, time-outs, and reads that wait for one buffer."""

import dataclasses
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.interruption import each_interruption
from tests.vkbackend.gate import held
from tests.vkbackend.kernels import (
    SLOW_WORDS,
    add_affine,
    add_indirect,
    affine,
    fill,
    filled,
    run_slow,
    words,
)
from vkbackend import Batch, Buffer, Device, TimelinePoint, config
from vkbackend.driver.physical_device import choose
from vkbackend.driver.queue import latest, poll_seconds
from vkbackend.errors import DeviceLost, VulkanError
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


class _Beside:
    completed = 0


@pytest.mark.device
def test_latest_keeps_one_for_each_queue(device: Device) -> None:
    queue = device.compute_queue
    device.synchronize()
    pending = [TimelinePoint(queue, queue.submitted + number) for number in (3, 9, 5)]
    assert latest(pending) == (pending[1],)
    assert latest([TimelinePoint(queue, queue.submitted)]) == ()
    done = TimelinePoint(queue, queue.submitted)
    elsewhere = TimelinePoint(_Beside(), 1)  # type: ignore[arg-type]  # as a queue
    for two in (tuple(pending[:2]), tuple(pending[1::-1])):
        assert latest(two) == (pending[1],)
        assert latest((*two[:1], elsewhere)) == (two[0], elsewhere)
    assert latest((done, pending[0])) == (pending[0],)
    assert latest((done, done)) == latest((done,)) == latest(()) == ()


@pytest.fixture
def other() -> Iterator[Device]:
    """Return a device that may be lost."""
    opened = Device(choose())
    yield opened
    opened.close()


@pytest.mark.device
def test_a_lost_device_says_what_to_do_and_then_refuses(
    other: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = other.batch()
    x = filled(other, np.ones(4, np.uint32))
    y = other.allocate(16)
    add_affine(batch, affine(other), x, y)
    recording = other.record(batch)
    with monkeypatch.context() as patch:
        lost = vk.VK_ERROR_DEVICE_LOST
        functions = other.logical.functions
        patch.setattr(functions, "vkQueueSubmit2", lambda *_: lost, raising=False)
        with pytest.raises(
            DeviceLost,
            match=r"vkQueueSubmit2: VK_ERROR_DEVICE_LOST \(-4\): after 'affine"
            r" LOCAL_X=64'; last completed timeline value \d+ of 0 on the compute"
            r" queue; close the device, open it again and load a checkpoint: what its"
            r" memory held is undefined$",
        ) as raised:
            batch.submit()
    assert batch.point is None
    assert not other.usable
    assert "lost" in repr(other)
    calls = (
        batch.submit,
        recording.submit,
        lambda: other.read(x),
        lambda: other.read(y),
        lambda: other.upload(b"1234", x),
        lambda: other.allocate(1),
        lambda: other.pipeline("none"),
        lambda: other.record(batch),
        lambda: y.last_write.wait(),  # type: ignore[union-attr]
        lambda: y.last_write.done(),  # type: ignore[union-attr]
        other.batch,
        other.empty_cache,
        other.synchronize,
    )
    for call in calls:
        with pytest.raises(DeviceLost) as again:
            call()
        assert str(again.value) == str(raised.value)
    other.close()
    assert other.live_objects() == {}


class Submitted:
    """The numbers of the compute queue that the driver has, each once, in order."""

    def __init__(self, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values: list[int] = []
        self.raises: BaseException | None = None
        self.before = False
        self._queue = device.compute_queue.handle
        self._submit = device.logical.functions.vkQueueSubmit2
        monkeypatch.setattr(device.logical.functions, "vkQueueSubmit2", self)

    def __call__(self, queue: int, count: int, infos: object, fence: int) -> int:
        if queue != self._queue:
            copied: int = self._submit(queue, count, infos, fence)
            return copied
        raises, self.raises = self.raises, None
        if raises is not None and self.before:
            raise raises
        value = infos._obj.pSignalSemaphoreInfos[0].value  # type: ignore[attr-defined]
        assert not self.values or value > self.values[-1]
        self.values.append(value)
        result: int = self._submit(queue, count, infos, fence)
        if raises is not None:
            raise raises
        return result


@pytest.fixture
def sent(device: Device, monkeypatch: pytest.MonkeyPatch) -> Submitted:
    device.synchronize()
    return Submitted(device, monkeypatch)


def doubling(device: Device) -> tuple[Batch, Buffer]:
    """Return a batch that writes 2 to each word of a buffer of zeros."""
    x = filled(device, np.ones(100, np.uint32))
    y = filled(device, np.zeros(100, np.uint32))
    batch = device.batch()
    add_affine(batch, affine(device), x, y, 2)
    return batch, y


@pytest.mark.device
@pytest.mark.parametrize("before", [False, True])
def test_an_interrupted_submission_keeps_its_number(
    device: Device, sent: Submitted, before: bool
) -> None:
    slow = device.allocate(SLOW_WORDS * 4)
    run_slow(device, slow, 3)
    batch, y = doubling(device)
    sent.raises, sent.before = KeyboardInterrupt(), before
    with pytest.raises(KeyboardInterrupt):
        batch.submit()
    # Whoever comes next has a number of its own, and is waited for until it is done.
    run_slow(device, slow, 7)
    assert (words(device, slow) == 7).all()
    assert (batch.point is None) == before
    assert (words(device, y) == (0 if before else 2)).all()


@pytest.mark.device
def test_what_a_refused_submission_would_have_written_can_be_read(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, y = doubling(device)
    with monkeypatch.context() as patch:
        functions = device.logical.functions
        refused = vk.VK_ERROR_OUT_OF_HOST_MEMORY
        patch.setattr(functions, "vkQueueSubmit2", lambda *_: refused, raising=False)
        with pytest.raises(VulkanError, match="vkQueueSubmit2"):
            batch.submit()
    assert batch.point is None
    assert (words(device, y) == 0).all()
    assert y.last_write is not None
    assert y.last_write.done()


@pytest.mark.device
def test_another_thread_that_waits_is_not_left_waiting(device: Device) -> None:
    """In a process of its own, without the validation layer, and with a limit.

    A run of all tests hung here once, which did not happen again. Debian's layer
    (1.3.239) reports time-outs of its own where one thread waits for what another
    signals.
    """
    program = Path(__file__).with_name("interrupted_program.py")
    variables = {**os.environ, config.VALIDATION.name: ""}
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=variables,
    )
    assert done.stdout.split() == ["True"] * 3, done.stderr


@pytest.mark.device
def test_a_submission_within_another_comes_before_it(
    device: Device, sent: Submitted
) -> None:
    inner, y = doubling(device)
    outer, z = doubling(device)
    queue = device.compute_queue
    reserve = queue.reserve

    def interrupted() -> TimelinePoint:
        queue.reserve = reserve  # type: ignore[method-assign]
        point = reserve()
        inner.submit()
        return point

    queue.reserve = interrupted  # type: ignore[method-assign]
    before = queue.submitted
    outer.submit()
    # The number that the outer one had first is of no submission.
    assert queue.submitted == before + 3
    assert outer.point is not None
    assert (words(device, y) == 2).all()
    assert (words(device, z) == 2).all()
    del queue.reserve


@pytest.mark.device
def test_a_batch_interrupted_at_any_line_is_done_or_not(
    device: Device, sent: Submitted
) -> None:
    made: list[tuple[Batch, Buffer]] = []

    def submit() -> None:
        made[-1][0].submit()

    made.append(doubling(device))
    for one in each_interruption(submit):
        assert not device.logical.lock._is_owned(), one.where  # type: ignore[attr-defined]
        batch, y = made[-1]
        done = batch.point is not None
        assert (words(device, y) == (2 if done else 0)).all(), one.where
        made[:] = [doubling(device)]
    made[-1][0].submit()
    assert (words(device, made[-1][1]) == 2).all()


@pytest.mark.device
def test_a_replay_interrupted_at_any_line_is_done_or_not(
    device: Device, sent: Submitted
) -> None:
    x, y = (filled(device, np.zeros(64, np.uint32)) for _ in range(2))
    batch = device.batch()
    offset = add_indirect(device, batch, y)
    recording = device.record(batch)
    (start,) = recording.places
    assert start is not None
    # Another source each time, so that a prelude is recorded too.
    source = filled(device, np.zeros(64, np.uint32))

    def submit() -> None:
        recording.submit([(source, 0, x, 0, x.size)], changed=True)

    expected = 0
    for turn, one in enumerate(each_interruption(submit)):
        assert not device.logical.lock._is_owned(), one.where  # type: ignore[attr-defined]
        if recording.point is not None:
            expected = turn
        assert (words(device, y) == expected).all(), one.where
        assert (words(device, x) == expected).all(), one.where
        source = filled(device, np.full(64, turn + 1, np.uint32))
        struct.pack_into("<I", recording.content, start + offset, turn + 1)
    assert (words(device, y) == turn + 1).all()


@pytest.mark.device
def test_a_failed_submission_within_another_lets_it_begin_anew(
    device: Device, sent: Submitted
) -> None:
    inner, y = doubling(device)
    outer, z = doubling(device)
    queue = device.compute_queue
    reserve = queue.reserve

    def interrupted() -> TimelinePoint:
        queue.reserve = reserve  # type: ignore[method-assign]
        point = reserve()
        sent.raises, sent.before = VulkanError("refused"), True
        with pytest.raises(VulkanError, match="refused"):
            inner.submit()
        return point

    queue.reserve = interrupted  # type: ignore[method-assign]
    outer.submit()
    del queue.reserve
    assert inner.point is None
    device.synchronize()
    assert (words(device, y) == 0).all()
    assert (words(device, z) == 2).all()


@pytest.mark.device
def test_waits_poll_longest_beside_a_discrete_device(device: Device) -> None:
    """Others share the processor, or its power."""
    kinds = ("software", "integrated", "discrete")
    found = [
        poll_seconds(dataclasses.replace(device.info, kind=each)) for each in kinds
    ]
    assert found == sorted(set(found))
    assert found[0] == 0


@pytest.mark.device
def test_a_wait_looks_again_before_it_asks_the_driver(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever closes the device meanwhile has waited, and destroys the semaphore."""
    queue, calls = device.compute_queue, []
    # An interrupted call of another test may have left its entry, which waits no more.
    before = set(device.logical.unlocked_calls)
    monkeypatch.setattr(queue, "_poll_seconds", 0.0)
    with held(queue) as gate:
        wait = queue._functions.vkWaitSemaphores

        def runs_out(*arguments: object) -> int:
            calls.append(arguments)
            assert len(calls) == 1
            assert len(device.logical.unlocked_calls - before) == 1
            gate.open()
            wait(*arguments[:2], 10**10)
            queue.completed = queue.submitted
            return vk.VK_TIMEOUT

        with monkeypatch.context() as patch:
            patch.setattr(queue._functions, "vkWaitSemaphores", runs_out)
            waiter = threading.Thread(target=queue.wait, args=(queue.submitted,))
            waiter.start()
            waiter.join()
    assert len(calls) == 1
    assert device.logical.unlocked_calls == before
