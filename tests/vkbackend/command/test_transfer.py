"""Uploads and reads, mapped and staged; waiting for what uses a buffer."""

import contextlib
import ctypes
import dataclasses
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

from tests.interruption import each_interruption
from tests.vkbackend.gate import held
from tests.vkbackend.kernels import add_affine, affine, fill, filled, words
from vkbackend import ArgumentError, Buffer, Device, VulkanError
from vkbackend.command import transfer
from vkbackend.driver.physical_device import choose
from vkbackend.driver.queue import Queue
from vkbackend.driver.target import Staging
from vkbackend.memory.memory import Block, MemoryUsage
from vkbackend.vk import generated as vk

READ_CHUNKS = Staging().read_chunks


def disguise(device: Device, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Make the blocks of a device look like those of another kind of memory."""
    allocate = device.memory.allocate

    def allocated(size: int, use: MemoryUsage, name: str) -> Block:
        block = allocate(size, use, name)
        if use is MemoryUsage.DEVICE:
            for attribute, value in changes.items():
                setattr(block, attribute, value)
        return block

    monkeypatch.setattr(device.memory, "allocate", allocated)


def with_transfer_queues(device: Device) -> Device:
    """Give a device queues of their own for copies each way, if it has none.

    They may have one queue of Vulkan's, but each has a timeline, so they are told to
    wait for each other as if they ran at once.
    """
    queues, family = device.queues, device.logical.transfer_family
    if queues.transfer is queues.compute:
        queues.transfer = Queue(device.logical, family, "transfer")
        queues.readback = Queue(device.logical, family, "readback")
        queues.collect()
        device.pool._queues = queues.all
    return device


@pytest.fixture(params=["unmapped", "uncached"])
def staged(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Device]:
    """Return a device with memory and queues as discrete devices have them."""
    opened = with_transfer_queues(Device(choose()))
    changes = {"mapped": None} if request.param == "unmapped" else {"cached": False}
    disguise(opened, monkeypatch, **changes)
    yield opened
    opened.close()
    assert opened.live_objects() == {}


@pytest.fixture(params=["imported", "copied"])
def results(request: pytest.FixtureRequest, staged: Device) -> Device:
    """Return such a device with result memory that it can reach, and that it cannot."""
    allocator = staged.transfer._results
    if request.param == "copied":
        allocator.imports = False
    elif not allocator.imports:
        pytest.skip("the driver imports no host memory")
    return staged


@pytest.mark.device
def test_idle_buffers_are_written_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(choose())
    disguise(device, monkeypatch, cached=False)
    buffer = device.allocate(400)
    before = device.counters.snapshot()
    device.upload(bytes(range(200)), buffer, 100)
    assert bytes(device.read(buffer, 100, 200)) == bytes(range(200))
    mapped = buffer.span.region.block.mapped is not None
    assert (device.counters - before).submits == (0 if mapped else 2)
    device.close()


@pytest.mark.device
def test_large_uploads_may_go_through_staging(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(choose())
    disguise(device, monkeypatch, cached=False)
    device.transfer.restage(dataclasses.replace(device.transfer.staging, most_mapped=8))
    buffer = device.allocate(400)
    mapped = buffer.span.region.block.mapped is not None
    for size in (8, 9):
        before = device.counters.snapshot()
        device.upload(bytes(range(size)), buffer)
        direct = mapped and size == 8
        assert (device.counters - before).submits == (0 if direct else 1)
        device.synchronize()
        assert bytes(device.read(buffer, 0, size)) == bytes(range(size))
    device.close()


@pytest.mark.core
@pytest.mark.parametrize("size", [1, 5, 4096, 100_003])
def test_staged_round_trip(staged: Device, size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    buffer = staged.allocate(size)
    staged.upload(data, buffer)
    assert bytes(staged.read(buffer)) == data
    assert bytes(staged.read(buffer, size // 2)) == data[size // 2 :]


@pytest.mark.device
def test_staged_pieces(staged: Device) -> None:
    """Data larger than all staging memory goes through in pieces."""
    data = np.random.default_rng(0).bytes((50 << 20) + 37)
    buffer = staged.allocate(len(data) + 3)
    staged.upload(data, buffer, 3)
    assert bytes(staged.read(buffer, 3)) == data
    out = bytearray(len(data))
    staged.read(buffer, 3, out=out)
    assert out == data


@pytest.mark.device
def test_a_small_read_that_comes_next_needs_no_semaphore(
    staged: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It follows what was submitted last; others go beside the kernels."""
    sent, send, told = [], Queue._send, threading.Event()

    def noted(self: Queue, *given: Any) -> None:
        sent.append((self.name, [each.name for each in given[2]]))
        send(self, *given)
        told.set()

    monkeypatch.setattr(Queue, "_send", noted)
    large, small = staged.allocate(200_000), staged.allocate(4000)
    for buffer, more, wanted in (
        (small, False, ("compute", [])),
        (small, True, ("readback", ["compute"])),
        (large, False, ("readback", ["compute"])),
    ):
        with held(staged.compute_queue) as gate:
            batch = staged.batch()
            batch.fill(buffer, 7)
            batch.submit()
            if more:
                batch.fill(large, 3)
                batch.submit()
            sent.clear()
            told.clear()
            reader = threading.Thread(target=staged.read, args=(buffer,))
            reader.start()
            assert told.wait(60)
            gate.open()
            reader.join()
        assert sent == [wanted]


@pytest.mark.core
def test_staged_uploads_are_ordered_with_kernels(staged: Device) -> None:
    pipeline = affine(staged)
    x, y = staged.allocate(4000), staged.allocate(4000)
    for value in range(30):
        staged.upload(np.full(1000, value, np.uint32), x)
        batch = staged.batch()
        add_affine(batch, pipeline, x, y, 2, 1)
        batch.submit()
        if value % 7 == 0:
            assert (words(staged, y) == 2 * value + 1).all()
    assert (words(staged, y) == 59).all()


@pytest.mark.device
def test_staged_upload_does_not_wait(staged: Device) -> None:
    busy = staged.allocate(4000)
    with held(staged.compute_queue) as gate:
        work = fill(staged, busy, 3)
        staged.upload(np.full(1000, 9, np.uint32), busy)
        assert not work.done()
        gate.open()
        assert (words(staged, busy) == 9).all()
        assert work.done()


@pytest.mark.core
def test_upload_waits_for_readers(device: Device) -> None:
    x = filled(device, np.ones(1000, np.uint32))
    y = device.allocate(x.size)
    with held(device.compute_queue) as gate:
        batch = device.batch()
        add_affine(batch, affine(device), x, y, 5)
        batch.submit()
        waits = x.span.region.block.cached
        refused = pytest.raises(AssertionError, match="held back")
        with refused if waits else contextlib.nullcontext():
            device.upload(np.full(1000, 100, np.uint32), x)
        gate.open()
        device.upload(np.full(1000, 100, np.uint32), x)
    assert (words(device, y) == 5).all()


@pytest.mark.core
def test_upload_copies_at_once(device: Device) -> None:
    data = np.arange(1000, dtype=np.uint32)
    buffer = filled(device, data)
    data[:] = 0
    assert (words(device, buffer) == np.arange(1000)).all()


@pytest.mark.device
def test_read_gives_writable_bytes(device: Device) -> None:
    buffer = filled(device, np.arange(4, dtype=np.uint32))
    content = device.read(buffer)
    content[0] = 9
    assert isinstance(content, memoryview)
    assert words(device, buffer)[0] == 0


MANY = (1 << 20) + 12
"""Bytes above what a small read is, and no multiple of a page."""


@pytest.mark.core
def test_results_stay_while_they_are_held(results: Device) -> None:
    x = filled(results, np.arange(MANY // 4, dtype=np.uint32))
    y = filled(results, np.arange(MANY // 4, dtype=np.uint32) + 7)
    first = words(results, x)[10:20]
    second = words(results, y)
    assert (first == np.arange(10, 20)).all()
    assert (second == np.arange(7, 7 + MANY // 4)).all()
    first[:] = 1
    assert (second == np.arange(7, 7 + MANY // 4)).all()


@pytest.mark.core
def test_memory_of_dropped_results_is_used_again(results: Device) -> None:
    x = filled(results, np.arange(MANY // 4, dtype=np.uint32))
    held = words(results, x)
    places = {held.ctypes.data}
    del held
    before = results.counters.snapshot()
    for _ in range(5):
        places.add(words(results, x).ctypes.data)
    assert len(places) == 1
    assert (results.counters - before).device_allocations <= READ_CHUNKS


@pytest.mark.core
def test_pinned_memory_is_copied_by_the_device(
    results: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results of reads, and what is asked for; a part of it, and as it is then."""
    engine, copied = results.transfer, []
    stage, copy = engine._stage_upload, engine._copy_from_host

    def note(inner: Callable[..., None]) -> Callable[..., None]:
        def noted(*arguments: Any) -> None:
            copied.append(inner.__name__)
            inner(*arguments)

        return noted

    monkeypatch.setattr(engine, "_stage_upload", note(stage))
    monkeypatch.setattr(engine, "_copy_from_host", note(copy))
    x = filled(results, np.arange(MANY // 2, dtype=np.uint32))
    y, few = results.allocate(2 * MANY), results.allocate(64)
    asked = np.frombuffer(engine.pinned(2 * MANY), np.uint32)
    asked[:] = np.arange(MANY // 2)
    for source in (words(results, x), asked):
        assert engine.is_pinned(memoryview(source).cast("B")) is engine._results.imports
        for first in (0, 5):
            copied.clear()
            part = source[first : first + MANY // 4]
            results.upload(part, y, 4 * first)
            expected = part.copy()
            part[:] = 0
            assert bool(copied) is not engine._results.imports
            assert (words(results, y)[first:][: len(part)] == expected).all()
        copied.clear()
        results.upload(source[:16], few)
        assert copied
    own = np.ones(MANY // 4, np.uint32)
    assert not engine.is_pinned(memoryview(own).cast("B"))
    copied.clear()
    results.upload(own, y)
    assert copied


@pytest.mark.device
def test_an_upload_from_pinned_memory_does_not_wait_for_kernels(
    staged: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes go through staging memory where the buffer is in use."""
    source = np.frombuffer(staged.transfer.pinned(MANY), np.uint32)
    source[:] = 5
    y = staged.allocate(MANY)
    with held(staged.compute_queue) as gate:
        batch = staged.batch()
        batch.fill(y, 1)
        batch.submit()
        staged.upload(source, y)
        source[:] = 6
        gate.open()
    assert (words(staged, y) == 5).all()


@pytest.mark.core
def test_results_outlive_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    device = with_transfer_queues(Device(choose()))
    disguise(device, monkeypatch, mapped=None)
    x = filled(device, np.arange(MANY // 4, dtype=np.uint32))
    held = words(device, x)
    del x
    device.close()
    assert device.live_objects() == {}
    held += 1
    assert (held == np.arange(1, 1 + MANY // 4)).all()


@pytest.mark.core
@pytest.mark.parametrize("kind", ["cached", "uncached", "unmapped"])
@pytest.mark.parametrize("size", [1, 300, 4099, MANY, (9 << 20) + 1])
def test_read_into(kind: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    device = with_transfer_queues(Device(choose()))
    if kind != "cached":
        unlike = {"mapped": None} if kind == "unmapped" else {"cached": False}
        disguise(device, monkeypatch, **unlike)
    data = np.random.default_rng(size).bytes(size + 8)
    buffer = device.allocate(size + 8)
    device.upload(data, buffer)
    out = np.zeros(size + 2, np.uint8)
    given = device.read(buffer, 5, out=out[1:-1])
    assert out[1:-1].tobytes() == data[5:-3]
    assert out[0] == out[-1] == 0
    given[0] = out[1] ^ 1
    assert out[1] == data[5] ^ 1
    device.close()


@pytest.mark.device
def test_read_into_what_does_not_fit(device: Device) -> None:
    buffer = device.allocate(100)
    for out, message in (
        (bytes(4), r"`out` does not fit: 4 bytes, read-only, for 4;"),
        (bytearray(5), r"`out` does not fit: 5 bytes, writable, for 4;"),
        (np.zeros((4, 4), np.uint8)[:, 0], r"read: the data is not C-contiguous"),
    ):
        with pytest.raises(ArgumentError, match=message):
            device.read(buffer, 0, 4, out=out)
    with pytest.raises(ArgumentError, match="the byte range leaves the buffer"):
        device.read(buffer, 1, out=bytearray(100))


@pytest.mark.core
def test_pieces_are_in_flight(staged: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next pieces are asked for before the host waits for one."""
    before = staged.live_objects()
    staging = dataclasses.replace(staged.transfer.staging, chunk_size=64 << 10)
    staged.transfer.restage(staging)
    assert staged.live_objects() == before
    count = 3 * READ_CHUNKS + 1
    buffer = staged.allocate(count * (64 << 10) - 5)
    data = np.random.default_rng(3).bytes(buffer.size)
    staged.upload(data, buffer)
    events: list[str] = []
    engine = staged.transfer
    fetch, receive = engine._submit_readback, engine._copy_out

    def fetched(*arguments: Any) -> None:
        events.append("fetch")
        fetch(*arguments)

    def received(*arguments: Any) -> None:
        events.append("receive")
        receive(*arguments)

    monkeypatch.setattr(engine, "_submit_readback", fetched)
    monkeypatch.setattr(engine, "_copy_out", received)
    out = bytearray(buffer.size)
    staged.read(buffer, out=out)
    assert out == data
    ahead = READ_CHUNKS
    turns = ["receive", "fetch"] * (count - ahead)
    assert events == ["fetch"] * ahead + turns + ["receive"] * ahead
    assert len(engine._chunks) == ahead


@pytest.mark.core
def test_an_interrupted_read_keeps_its_memory(
    results: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the device still writes is nobody else's, and is free again afterwards."""
    x, y = (filled(results, np.full(MANY // 4, n, np.uint32)) for n in (1, 2))
    engine, queue = results.transfer, results.queues.readback
    results.read(x)

    with held(queue) as gate:

        def interrupted(value: int, timeout_seconds: float | None = None) -> bool:
            if value > gate.point.value:
                raise KeyboardInterrupt
            return True

        with monkeypatch.context() as patch:
            patch.setattr(queue, "wait", interrupted)
            for _ in range(3):
                with pytest.raises(KeyboardInterrupt):
                    results.read(x)
        written = [*engine._chunks, *engine._results._all()]
        points = [each.point for each in written if each.point is not None]
        asked = [point for point in points if point.value > gate.point.value]
        assert len(asked) == queue.submitted - gate.point.value > 2
        gate.open()
        assert (words(results, y) == 2).all()
    results.synchronize()
    before = len(engine._chunks), engine._results.cached_bytes
    for _ in range(10):
        assert (words(results, x) == 1).all()
    assert (len(engine._chunks), engine._results.cached_bytes) == before


@pytest.mark.parametrize("size", [500, MANY])
@pytest.mark.core
def test_an_interrupt_anywhere_loses_nothing(results: Device, size: int) -> None:
    x = results.allocate(size)
    engine = results.transfer
    value = 0

    def transfers() -> None:
        results.upload(np.full(size // 4, value, np.uint32), x)
        assert (words(results, x) == value).all()

    transfers()
    for interruption in each_interruption(transfers, step=3):
        value += 1
        results.upload(np.full(size // 4, value, np.uint32), x)
        assert (words(results, x) == value).all(), interruption.where
    results.synchronize()
    assert len(engine._chunks) <= READ_CHUNKS
    assert len(list(engine._results._all())) <= 3
    assert all(block.idle() for block in engine._results._all())


@pytest.mark.core
@pytest.mark.parametrize("size", [500, MANY])
def test_a_copy_that_cannot_be_recorded_changes_nothing(
    results: Device, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = filled(results, np.full(size // 4, 7, np.uint32))
    fill(results, x, 7)
    words(results, x)
    engine, functions = results.transfer, results.logical.functions
    allocate, allocated = functions.vkAllocateCommandBuffers, []

    def counted(*arguments: Any) -> int:
        allocated.append(arguments)
        return int(allocate(*arguments))

    def fails(*_: Any) -> None:
        raise OSError("not recorded")

    before = x.points(), [each.submitted for each in results.queues.beside_compute]
    with monkeypatch.context() as patch:
        patch.setattr(functions, "vkAllocateCommandBuffers", counted)
        patch.setattr(engine._copier, "_function", fails)
        for _ in range(100):
            with pytest.raises(OSError, match="not recorded"):
                results.read(x)
            fill(results, x, 7)
            with pytest.raises(OSError, match="not recorded"):
                results.upload(np.zeros(size // 4, np.uint32), x)
    assert x.last_reads == ()
    assert [each.submitted for each in results.queues.beside_compute] == before[1]
    assert len([row for row in allocated if row]) <= 70  # of fills, in flight
    assert (words(results, x) == 7).all()


@pytest.mark.core
def test_a_copy_that_the_driver_refuses_keeps_the_device_usable(
    results: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = filled(results, np.full(MANY // 4, 7, np.uint32))
    words(results, x)
    functions, submit = results.logical.functions, "vkQueueSubmit2"
    refused = vk.VK_ERROR_OUT_OF_HOST_MEMORY
    with monkeypatch.context() as patch:
        patch.setattr(functions, submit, lambda *_: refused, raising=False)
        for _ in range(20):
            with pytest.raises(VulkanError, match=submit):
                results.read(x)
    assert (words(results, x) == 7).all()
    results.upload(np.full(MANY // 4, 8, np.uint32), x)
    assert (words(results, x) == 8).all()
    assert len(results.transfer._chunks) <= READ_CHUNKS + 1


@pytest.mark.device
def test_reads_of_mapped_memory_pin_nothing(device: Device) -> None:
    buffer = device.allocate(MANY)
    if not buffer.span.region.block.cached:
        pytest.skip("the device's memory is not cached")
    before = device.counters.snapshot()
    device.read(buffer)
    assert (device.counters - before).device_allocations == 0


CLOSED = "the device is closed"


@pytest.mark.device
@pytest.mark.parametrize("kind", ["cached", "uncached", "unmapped"])
def test_what_finds_the_device_closed_says_so(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread closes it once they have begun."""
    operations: list[Callable[[Device, Buffer], object]] = [
        lambda device, buffer: device.read(buffer),
        lambda device, buffer: device.read(buffer, 0, 1000),
        lambda device, buffer: device.read(buffer, out=bytearray(buffer.size)),
        lambda device, buffer: device.upload(bytes(1000), buffer),
    ]
    for operation in operations:
        device = with_transfer_queues(Device(choose()))
        if kind != "cached":
            unlike = {"mapped": None} if kind == "unmapped" else {"cached": False}
            disguise(device, monkeypatch, **unlike)
        buffer = device.allocate(MANY)
        monkeypatch.setattr(device, "settle", device.close)
        with pytest.raises(ArgumentError, match=CLOSED):
            operation(device, buffer)


@pytest.mark.device
def test_close_waits_for_a_copy_of_another_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = Device(choose())
    buffer = device.allocate(MANY)
    if buffer.span.region.block.mapped is None:
        pytest.skip("the device's memory is not mapped")
    block = buffer.span.region.block
    block.cached = True
    copying, freed = threading.Event(), threading.Event()
    unmapped = []
    move, free = ctypes.memmove, device.memory.free

    def moves(*arguments: Any) -> int:
        copying.set()
        # Not as long as this lasts, if it is waited for.
        freed.wait(0.05)
        unmapped.append(block.mapped is None)
        return 1 if block.mapped is None else int(move(*arguments))

    def frees(block: Block) -> None:
        free(block)
        freed.set()

    monkeypatch.setattr(transfer.ctypes, "memmove", moves)
    monkeypatch.setattr(device.memory, "free", frees)

    def reads() -> None:
        # A copy that threads share ends early, and says so.
        with contextlib.suppress(ArgumentError):
            device.read(buffer)

    reader = threading.Thread(target=reads)
    reader.start()
    assert copying.wait(60)
    device.close()
    reader.join()
    assert unmapped
    assert not any(unmapped)
    assert device.logical.unlocked_calls == set()


@pytest.mark.device
def test_a_copy_whose_own_thread_closes_the_device() -> None:
    """As a signal handler does, at each line of it: no deadlock, and no crash."""
    place = lines = 0
    said: list[str] = []

    def close(frame: FrameType, event: str, argument: object) -> object:
        nonlocal lines
        if frame.f_code is not transfer.Transfer._copy_unlocked.__code__:
            return None
        if event == "line":
            lines += 1
            if lines == place:
                device.close()
        return close

    while place <= lines:
        place, lines = place + 1, 0
        device = Device(choose())
        buffer = device.allocate(MANY)
        if not buffer.span.region.block.cached:
            device.close()
            pytest.skip("the device's memory is not cached")
        before = sys.gettrace()
        sys.settrace(close)
        try:
            device.read(buffer)
            said.append("")
        except ArgumentError as error:
            said.append(str(error))
        finally:
            sys.settrace(before)
            device.close()
    refused = [text for text in said if text]
    assert len(refused) > 3
    assert all(CLOSED in text for text in refused)
    assert said[-1] == ""


def test_copies_between_buffers(device: Device) -> None:
    """Each after what wrote its source, and beside the bytes of others."""
    first, second = device.allocate(64), device.allocate(64)
    batch = device.batch()
    batch.fill(first, 0x01010101)
    batch.fill(second, 0x02020202)
    batch.submit()
    device.settle()
    point = device.transfer.copy((first, 4), (second, 13), 7)
    assert first.last_reads == (point,)
    assert second.last_write == point
    found = bytes(device.read(second))
    assert found == b"\2" * 13 + b"\1" * 7 + b"\2" * 44
    with pytest.raises(ArgumentError, match="leaves the buffer"):
        device.transfer.copy((first, 60), (second, 0), 8)
