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
from vkbackend import Device, transfer
from vkbackend.physical import choose


def disguise(device: Device, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Make the blocks of a device look like those of another kind of memory."""
    add_block = device.pool._add_block

    def add_changed(size: int, dedicated: bool) -> None:
        add_block(size, dedicated)
        for name, value in changes.items():
            setattr(device.pool._regions[-1].block, name, value)

    monkeypatch.setattr(device.pool, "_add_block", add_changed)


@pytest.fixture(params=["unmapped", "uncached"])
def staged(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Device]:
    """Return a device with memory as discrete devices have it."""
    opened = Device(choose())
    changes = {"mapped": None} if request.param == "unmapped" else {"cached": False}
    disguise(opened, monkeypatch, **changes)
    yield opened
    opened.close()
    assert opened.live_objects() == {}


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
def test_staged_pieces(staged: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Data larger than all staging memory goes through in pieces."""
    monkeypatch.setattr(transfer, "_CHUNK_SIZE", 1 << 20)
    data = np.random.default_rng(0).bytes((100 << 20) + 37)
    buffer = staged.allocate(len(data) + 3)
    staged.upload(data, buffer, 3)
    assert bytes(staged.read(buffer, 3)) == data


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
    assert isinstance(content, bytearray)
    assert words(device, buffer)[0] == 0
