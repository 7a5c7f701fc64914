"""Uploads and reads, mapped and staged; waiting for what uses a buffer."""

from collections.abc import Iterator
from typing import Any

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
from vkbackend import ArgumentError, Device, transfer
from vkbackend.physical import choose
from vkbackend.timeline import Queue


def disguise(device: Device, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Make the blocks of a device look like those of another kind of memory."""
    add_block = device.pool._add_block

    def add_changed(size: int, dedicated: bool) -> None:
        add_block(size, dedicated)
        for name, value in changes.items():
            setattr(device.pool._regions[-1].block, name, value)

    monkeypatch.setattr(device.pool, "_add_block", add_changed)


def with_transfer_queue(device: Device) -> Device:
    """Give a device a queue of its own for transfers, if it has none."""
    if device.transfer_queue is device.compute_queue:
        family = device.logical.transfer_family
        device.transfer_queue = Queue(device.logical, family, "transfer")
        device._transfer._queue = device.transfer_queue
    return device


@pytest.fixture(params=["unmapped", "uncached"])
def staged(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Device]:
    """Return a device with memory and queues as discrete devices have them."""
    opened = with_transfer_queue(Device(choose()))
    changes = {"mapped": None} if request.param == "unmapped" else {"cached": False}
    disguise(opened, monkeypatch, **changes)
    yield opened
    opened.close()
    assert opened.live_objects() == {}


@pytest.fixture(params=["imported", "copied"])
def results(request: pytest.FixtureRequest, staged: Device) -> Device:
    """Return such a device with result memory that it can reach, and that it cannot."""
    allocator = staged._transfer._results
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


@pytest.mark.timing
@pytest.mark.device
def test_staged_upload_does_not_wait(staged: Device) -> None:
    busy = staged.allocate(SLOW_WORDS * 4)
    run_slow(staged, busy, 3)
    slow = run_slow(staged, busy, 3)
    staged.upload(np.full(SLOW_WORDS, 9, np.uint32), busy)
    assert not slow.done()
    assert (words(staged, busy) == 9).all()
    assert slow.done()


@pytest.mark.core
def test_upload_waits_for_readers(device: Device) -> None:
    x = filled(device, np.ones(SLOW_WORDS, np.uint32))
    y, z = device.allocate(x.size), device.allocate(x.size)
    run_slow(device, z, 1)
    batch = device.batch()
    add_affine(batch, affine(device), x, y, 5)
    batch.submit()
    device.upload(np.full(SLOW_WORDS, 100, np.uint32), x)
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
    assert (results.counters - before).device_allocations <= transfer._READ_PIECES


@pytest.mark.core
def test_results_outlive_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    device = with_transfer_queue(Device(choose()))
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
    device = with_transfer_queue(Device(choose()))
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
