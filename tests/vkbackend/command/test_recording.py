"""Recordings: the same commands again, with other content and other arguments."""

import gc
import struct

import numpy as np
import pytest

from tests.vkbackend.kernels import (
    SLOW_WORDS,
    add_affine,
    add_indirect,
    affine,
    filled,
    run_slow,
    words,
)
from vkbackend import ArgumentError, Device, Recording

COUNT = 1000


def ramp(start: int = 0) -> np.ndarray:
    return np.arange(start, start + COUNT, dtype=np.uint32)


def test_an_empty_batch_is_refused(device: Device) -> None:
    with pytest.raises(ArgumentError, match="the batch is empty"):
        device.record(device.batch())


def test_commands_run_each_time_in_one_submission(device: Device) -> None:
    x = filled(device, ramp())
    y = device.allocate(x.size)
    batch = device.batch()
    add_affine(batch, affine(device), x, y, 2, 1)
    add_affine(batch, affine(device), y, x, 1, 0)
    recording = device.record(batch)
    before = device.counters.snapshot()
    for _ in range(5):
        recording.submit()
    change = device.counters - before
    assert (change.submits, change.dispatches, change.barriers) == (5, 10, 5)
    assert change.device_allocations == change.host_reads == 0
    assert (words(device, x) == ramp() * 32 + 31).all()


def test_inputs_are_copied_in_order_with_earlier_work(device: Device) -> None:
    x, y = device.allocate(COUNT * 4), device.allocate(COUNT * 4)
    total = filled(device, np.zeros(COUNT, np.uint32))
    batch = device.batch()
    add_affine(batch, affine(device), x, y, 3, 0)
    recording = device.record(batch)
    results = []
    for start in range(20):
        recording.submit([(filled(device, ramp(start)), 0, x, 0, x.size)])
        kept = device.batch()
        results.append(device.allocate(y.size))
        kept.copy(y, results[-1])
        kept.submit()
    for start, result in enumerate(results):
        assert (words(device, result) == ramp(start) * 3).all()
    assert (words(device, total) == 0).all()


def test_arguments_in_memory_change(device: Device) -> None:
    y = device.allocate(256)
    batch = device.batch()
    offset = add_indirect(device, batch, y)
    recording = device.record(batch)
    (start,) = recording.places
    assert start is not None
    found = []
    for value in (7, 9, 11):
        struct.pack_into("<I", recording.content, start + offset, value)
        recording.submit(changed=True)
        kept = device.batch()
        found.append(device.allocate(y.size))
        kept.copy(y, found[-1])
        kept.submit()
    assert [int(words(device, each)[0]) for each in found] == [7, 9, 11]


def test_direct_arguments_have_no_place(device: Device) -> None:
    x = filled(device, ramp())
    batch = device.batch()
    add_affine(batch, affine(device), x, x)
    recording = device.record(batch)
    assert recording.places == (None,)
    assert recording.content == b""


def test_a_read_waits_for_the_last_submission(device: Device) -> None:
    x, y = device.allocate(SLOW_WORDS * 4), device.allocate(SLOW_WORDS * 4)
    batch = device.batch()
    add_affine(batch, affine(device), x, y, 1, 1)
    recording = device.record(batch)
    run_slow(device, x, 5)
    recording.submit()
    assert (words(device, y) == 6).all()


def test_reads_and_copies_out_of_range_are_refused(device: Device) -> None:
    x = filled(device, ramp())
    batch = device.batch()
    add_affine(batch, affine(device), x, x)
    recording = device.record(batch)
    with pytest.raises(ArgumentError, match="leaves the buffer"):
        recording.submit([(x, 4, device.allocate(x.size), 0, x.size)])
    recording.submit()
    assert (words(device, x) == ramp()).all()


def test_a_recording_keeps_its_buffers_and_can_be_dropped(device: Device) -> None:
    x = filled(device, ramp())
    y = device.allocate(x.size)

    def made() -> Recording:
        scratch = device.allocate(x.size)
        batch = device.batch()
        add_affine(batch, affine(device), x, scratch, 1, 1)
        add_affine(batch, affine(device), scratch, y, 1, 1)
        return device.record(batch)

    for _ in range(3):
        recording = made()
        others = [filled(device, ramp()) for _ in range(3)]
        recording.submit()
        del recording
        gc.collect()
        others += [filled(device, ramp()) for _ in range(3)]
        assert (words(device, y) == ramp() + 2).all()
        assert all((words(device, other) == ramp()).all() for other in others)
