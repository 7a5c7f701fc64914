"""Replay prologues: what is recorded once and used again, and what must not be."""

import struct

import numpy as np
import pytest

from tests.vkbackend.kernels import add_affine, add_indirect, affine, filled, words
from vkbackend import Device, Recording
from vkbackend.command.replay_prologue import MAX_PROLOGUES

COUNT = 500


def tripled(device: Device) -> tuple[Recording, object, object]:
    """Return a recording that writes three times x to y, with x and y."""
    x, y = device.allocate(COUNT * 4), device.allocate(COUNT * 4)
    batch = device.batch()
    add_affine(batch, affine(device), x, y, 3, 0)
    return device.record(batch), x, y


def ramp(start: int) -> np.ndarray:
    return np.arange(start, start + COUNT, dtype=np.uint32)


class Recorded:
    """Counts the command buffers that are begun."""

    def __init__(self, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        begin = device.logical.functions.vkBeginCommandBuffer

        def counted(*arguments: object) -> object:
            self.times += 1
            return begin(*arguments)

        monkeypatch.setattr(device.logical.functions, "vkBeginCommandBuffer", counted)


def test_the_same_copies_are_recorded_once(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, x, y = tripled(device)
    sources = [filled(device, ramp(start)) for start in (1, 5)]
    found = []
    recorded = Recorded(device, monkeypatch)
    for turn in range(8):
        recording.submit([(sources[turn % 2], 0, x, 0, COUNT * 4)])
        device.synchronize()
        if turn == 1:
            first = recorded.times
    assert (first, recorded.times) == (2, 2)
    for source, start in ((1, 5), (0, 1)):
        recording.submit([(sources[source], 0, x, 0, COUNT * 4)])
        found.append((words(device, y) == ramp(start) * 3).all())
    assert all(found)


def test_without_copies_the_recording_goes_alone(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = filled(device, ramp(0))
    batch = device.batch()
    add_affine(batch, affine(device), x, x, 2, 0)
    recording = device.record(batch)
    recorded = Recorded(device, monkeypatch)
    for _ in range(4):
        recording.submit()
    assert recorded.times == 0
    assert (words(device, x) == ramp(0) * 16).all()


def test_other_buffers_at_the_same_place_are_other_copies(device: Device) -> None:
    recording, x, y = tripled(device)
    for start in range(3 * MAX_PROLOGUES):
        source = filled(device, ramp(start))
        recording.submit([(source, 0, x, 0, COUNT * 4)])
        assert (words(device, y) == ramp(start) * 3).all()
        # The next one may have its memory, and its identity.
        del source


def test_arguments_of_many_submissions_in_flight_are_kept_apart(
    device: Device,
) -> None:
    y = device.allocate(256)
    batch = device.batch()
    offset = add_indirect(device, batch, y)
    recording = device.record(batch)
    (start,) = recording.places
    assert start is not None
    kept = []
    for value in range(150):
        struct.pack_into("<I", recording.content, start + offset, value)
        recording.submit(changed=True)
        copied = device.batch()
        kept.append(device.allocate(y.size))
        copied.copy(y, kept[-1])
        copied.submit()
    found = [int(words(device, each)[0]) for each in kept]
    assert found == list(range(found[0], found[0] + 150))
