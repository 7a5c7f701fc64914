"""Dispatch sequences: the same arguments again, from one command buffer."""

import gc
import struct
from typing import Any

import numpy as np
import pytest

from tests.vkbackend.kernels import INDIRECT, affine, filled, words
from vkbackend import ArgumentError, Batch, Buffer, Device, Pipeline
from vkbackend.command.dispatch_sequence import (
    MAX_COMMANDS,
    MAX_RECORDED,
    DispatchSequence,
    SequenceSubmission,
)
from vkbackend.driver.queue import MAX_IN_FLIGHT

COUNT = 100


def ramp() -> np.ndarray:
    return np.arange(COUNT, dtype=np.uint32)


def packed(x: Buffer, y: Buffer, a: int, b: int) -> bytes:
    """Return the arguments of y = a * x + b."""
    return struct.pack("<QQIII4x", x.address, y.address, COUNT, a, b)


def affine_sequence(device: Device, length: int = 1) -> DispatchSequence:
    """Return as many dispatches of y = a * x + b, with barriers between them."""
    commands: list[Any] = []
    for k in range(length):
        commands += [None] * (k > 0)
        place = slice(32 * k, 32 * k + 28)
        commands.append((affine(device), place, -(-COUNT // 64), 1, 1))
    return device.sequence(commands)


def test_arguments_that_come_again_are_recorded(device: Device) -> None:
    sequence = affine_sequence(device, 2)
    x, y = filled(device, ramp()), device.allocate(4 * COUNT)
    arguments = packed(x, y, 2, 1) + packed(y, x, 1, 0)
    kinds = []
    before = device.counters.snapshot()
    for _ in range(5):
        submission = sequence.submission(arguments, [x, y], [x, y])
        kinds.append(type(submission))
        assert submission.submit().wait()
    change = device.counters - before
    assert kinds == [Batch] + [SequenceSubmission] * 4
    assert (change.submits, change.dispatches, change.barriers) == (5, 10, 5)
    assert (words(device, x) == ramp() * 32 + 31).all()


def test_other_arguments_have_their_own_commands(device: Device) -> None:
    """Also more of them than are kept, and by turns."""
    sequence = affine_sequence(device)
    x, y = filled(device, ramp()), device.allocate(4 * COUNT)
    for a in (1, 2, 1, 2, 3, 4, 5, 3, 3, 4, 5, 1, 1, 2, 2):
        sequence.submission(packed(x, y, a, a), [x], [y]).submit()
        assert (words(device, y) == ramp() * a + a).all()
    assert len(sequence._recorded) <= MAX_RECORDED


def test_submissions_in_flight_may_use_one_command_buffer(device: Device) -> None:
    sequence = affine_sequence(device)
    x = filled(device, ramp())
    arguments = packed(x, x, 1, 1)
    rounds = MAX_IN_FLIGHT + 20
    for _ in range(rounds):
        sequence.submission(arguments, [x], [x]).submit()
    assert (words(device, x) == ramp() + rounds).all()


def test_it_is_in_order_with_other_work(device: Device) -> None:
    """And buffers know of it: an upload waits for it, and a read."""
    sequence = affine_sequence(device)
    x, y = filled(device, ramp()), device.allocate(4 * COUNT)
    for start in range(5):
        device.upload(ramp() + np.uint32(start), x)
        sequence.submission(packed(x, y, 3, 0), [x], [y]).submit()
        kept = device.batch()
        result = device.allocate(y.size)
        kept.copy(y, result)
        kept.submit()
        device.upload(bytes(4 * COUNT), y)
        assert (words(device, result) == (ramp() + start) * 3).all()


def test_buffers_have_its_point(device: Device) -> None:
    sequence = affine_sequence(device)
    x, y = filled(device, ramp()), device.allocate(4 * COUNT)
    for _ in range(2):
        submission = sequence.submission(packed(x, y, 1, 0), [x], [y])
        point = submission.submit()
    assert isinstance(submission, SequenceSubmission)
    assert y.last_write == point == submission.point
    assert point in x.last_reads


def test_a_submission_is_made_once(device: Device) -> None:
    sequence = affine_sequence(device)
    x = filled(device, ramp())
    for _ in range(2):
        submission = sequence.submission(packed(x, x, 1, 1), [x], [x])
        submission.submit()
        submission.submit()
    assert (words(device, x) == ramp() + 2).all()


def test_what_is_not_sent_has_no_point(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequence = affine_sequence(device)
    x = filled(device, ramp())
    arguments = packed(x, x, 1, 1)
    for _ in range(2):
        sequence.submission(arguments, [x], [x]).submit()
    submission = sequence.submission(arguments, [x], [x])
    assert isinstance(submission, SequenceSubmission)
    assert submission.point is None

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(device.compute_queue, "resubmit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            submission.submit()
    assert submission.point is None
    submission.submit()
    assert submission.point is not None
    assert (words(device, x) == ramp() + 3).all()


def test_a_profile_measures_what_is_recorded_too(device: Device) -> None:
    if not device.logical.timestamps:
        pytest.skip("the device has no timestamps")
    sequence = affine_sequence(device)
    x = filled(device, ramp())
    with device.profile() as profile:
        for _ in range(3):
            sequence.submission(packed(x, x, 1, 1), [x], [x]).submit()
    assert len(profile.spans) == 3


def indirect_arguments(pipeline: Pipeline, y: Buffer, term: int) -> bytes:
    """Return the arguments of y = 30 * term, which the kernel takes from memory."""
    given = {"y": y, "count": COUNT, **{f"terms[{k}]": term for k in range(30)}}
    return pipeline.packer(tuple(given))(*given.values())


def test_arguments_in_memory_are_kept_with_the_commands(device: Device) -> None:
    pipeline = device.pipeline("indirect", source=INDIRECT, constants={"LOCAL_X": 64})
    y, z = device.allocate(4 * COUNT), device.allocate(4 * COUNT)
    size = len(indirect_arguments(pipeline, y, 1))
    start = -(-size // 16) * 16
    grid = -(-COUNT // 64), 1, 1
    sequence = device.sequence(
        [
            (pipeline, slice(0, size), *grid),
            (pipeline, slice(start, start + size), *grid),
        ]
    )
    kinds = []
    for term in (1, 2, 1, 2, 1, 3, 3, 2, 1):
        first = indirect_arguments(pipeline, y, term)
        second = indirect_arguments(pipeline, z, term + 5)
        arguments = first + bytes(start - size) + second
        submission = sequence.submission(arguments, [], [y, z])
        kinds.append(type(submission))
        submission.submit()
        assert (words(device, y) == 30 * term).all()
        assert (words(device, z) == 30 * (term + 5)).all()
    assert kinds[:5] == [Batch, Batch, *[SequenceSubmission] * 3]


def test_without_memory_for_arguments_nothing_is_recorded(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = device.pipeline("indirect", source=INDIRECT, constants={"LOCAL_X": 64})
    y = device.allocate(4 * COUNT)
    arguments = indirect_arguments(pipeline, y, 1)
    row = (pipeline, slice(0, len(arguments)), -(-COUNT // 64), 1, 1)
    sequence = device.sequence([row])

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(device, "allocate", fail)
    for _ in range(3):
        submission = sequence.submission(arguments, [], [y])
        assert type(submission) is Batch
        submission.submit()
    assert (words(device, y) == 30).all()


def test_long_sequences_are_not_recorded(device: Device) -> None:
    long = affine_sequence(device, MAX_COMMANDS)
    x = filled(device, ramp())
    content = packed(x, x, 1, 1) * MAX_COMMANDS
    for _ in range(3):
        assert type(long.submission(content, [x], [x])) is Batch


def test_a_batch_begins_with_what_is_recorded(device: Device) -> None:
    """In one submission, and before what is added to it."""
    sequence = affine_sequence(device, 2)
    x, y = filled(device, ramp()), device.allocate(4 * COUNT)
    arguments = packed(x, y, 2, 1) + packed(y, x, 1, 0)
    result = ramp()
    resubmits = []
    for _ in range(4):
        before = device.counters.snapshot()
        batch = device.batch()
        sequence.begin(batch, arguments, [x, y], [x, y])
        batch.dispatch(affine(device), (2, 1, 1), packed(x, x, 3, 0)[:28], [x], [x])
        point = batch.submit()
        change = device.counters.snapshot() - before
        assert (change.submits, change.dispatches) == (1, 3)
        resubmits.append(change.resubmits)
        result = (result * 2 + 1) * 3
        assert x.last_write == y.last_write == point
        assert (words(device, x) == result).all()
    assert resubmits == [0, 1, 1, 1]


def test_a_batch_of_what_is_recorded_alone(device: Device) -> None:
    sequence = affine_sequence(device)
    x = filled(device, ramp())
    for _ in range(3):
        batch = device.batch()
        sequence.begin(batch, packed(x, x, 1, 1), [x], [x])
        batch.submit()
        batch.submit()
    assert (words(device, x) == ramp() + 3).all()


def test_command_buffers_of_the_dead_are_used_again(device: Device) -> None:
    x = filled(device, ramp())
    arguments = packed(x, x, 1, 0)
    counts = []
    for _ in range(4):
        sequence = affine_sequence(device)
        for _ in range(3):
            sequence.submission(arguments, [x], [x]).submit()
        device.synchronize()
        del sequence
        gc.collect()
        counts.append(len(device.compute_queue.commands._owned))
    assert counts[-1] == counts[0]


def test_a_closed_device_refuses(device: Device) -> None:
    own = Device(device.physical)
    sequence = affine_sequence(own)
    x = filled(own, ramp())
    for _ in range(2):
        submission = sequence.submission(packed(x, x, 1, 1), [x], [x])
    own.close()
    with pytest.raises(ArgumentError, match="closed"):
        submission.submit()
