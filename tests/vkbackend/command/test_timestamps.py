"""Timestamps: of every command, of batches, repeated."""

import dataclasses

import numpy as np
import pytest

from tests.vkbackend.kernels import SLOW, add_affine, affine, filled, words
from vkbackend import ArgumentError, Device, VulkanError
from vkbackend.command.timestamps import Profile
from vkbackend.driver.physical_device import choose


def test_every_command_has_a_span(device: Device) -> None:
    pipeline = affine(device)
    x = filled(device, np.ones(1000, np.uint32))
    y, z = device.allocate(x.size), device.allocate(x.size)
    with device.profile() as profile:
        for _ in range(2):
            batch = device.batch()
            add_affine(batch, pipeline, x, y, 2, 1)
            add_affine(batch, pipeline, y, z, 1, 5)
            batch.copy(z, y)
            batch.submit()
    assert [span.batch for span in profile.spans] == [0, 0, 0, 1, 1, 1]
    assert [span.name for span in profile.spans[:3]] == [pipeline.name] * 2 + ["copy"]
    assert profile.spans[0].groups is not None
    assert profile.spans[2].groups is None
    assert all(span.seconds >= 0 for span in profile.spans)
    starts = [span.start_seconds for span in profile.spans]
    assert starts == sorted(starts)
    assert (words(device, y) == 8).all()


def test_a_span_is_as_long_as_its_work(device: Device) -> None:
    pipeline = device.pipeline("slow", source=SLOW, constants={"LOCAL_X": 64})
    y = device.allocate(4096)
    times = []
    # The first run of a kernel may compile it.
    for rounds in (1, 100, 20_000):
        with device.profile(each=False) as profile:
            batch = device.batch()
            values = {"y": y, "count": 1024, "value": 7, "rounds": rounds}
            batch.dispatch(pipeline, (16, 1, 1), values, [], [y])
            batch.submit()
        (span,) = profile.spans
        assert span.name == "batch"
        times.append(span.seconds)
    assert 0 < times[1] < times[2] < 30


def test_repeats_run_again(device: Device) -> None:
    pipeline = affine(device)
    x = filled(device, np.zeros(10, np.uint32))
    with device.profile(repeat=5) as profile:
        batch = device.batch()
        add_affine(batch, pipeline, x, x, 1, 1)
        batch.submit()
    assert len(profile.spans) == 5
    assert (words(device, x) == 5).all()


def test_more_commands_than_a_query_pool_holds(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vkbackend.command.timestamps._POOL_SIZE", 40)
    pipeline = affine(device)
    x = filled(device, np.zeros(1, np.uint32))
    with device.profile(repeat=15) as profile:
        for count in (1, 3, 2):
            batch = device.batch()
            for _ in range(count):
                add_affine(batch, pipeline, x, x, 1, 1)
            batch.submit()
    assert len(profile.spans) == 15 * 6
    assert words(device, x)[0] == 15 * 6


@pytest.mark.usefixtures("_no_collector")
def test_without_a_profile_there_are_no_queries(device: Device) -> None:
    before = device.live_objects()
    with device.profile() as profile:
        device.batch().submit()
        assert profile.spans == []
    assert profile.spans == []
    assert device.live_objects() == before


def test_profiles_do_not_nest(device: Device) -> None:
    with device.profile(), pytest.raises(ArgumentError, match="one is open already"):
        with device.profile():
            pass
    with device.profile():
        pass


def test_repeat_must_be_positive(device: Device) -> None:
    with pytest.raises(ArgumentError, match="repeat is 0; it must be at least 1"):
        with device.profile(repeat=0):
            pass


def test_a_queue_without_timestamps(device: Device) -> None:
    @dataclasses.dataclass
    class Without:
        info = device.info
        timestamps = False

    with pytest.raises(ArgumentError, match="no timestamps on its compute queue"):
        Profile(Without(), device.compute_queue, 1, True)  # type: ignore[arg-type]


def test_recordings_outlive_a_profile(device: Device) -> None:
    pipeline = affine(device)
    x = filled(device, np.zeros(10, np.uint32))
    batch = device.batch()
    add_affine(batch, pipeline, x, x, 1, 1)
    with device.profile(repeat=3) as profile:
        recording = device.record(batch)
        recording.submit()
    assert profile.spans == []
    recording.submit()
    assert (words(device, x) == 2).all()


def test_a_batch_that_was_not_submitted_is_left_out(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = device.allocate(400)
    with device.profile() as profile:
        for number in range(3):
            batch = device.batch()
            batch.fill(x, number)
            with monkeypatch.context() as patch:
                if number == 1:
                    functions = device.logical.functions
                    patch.setattr(functions, "vkQueueSubmit2", lambda *_: -1)
                    with pytest.raises(VulkanError, match="VK_ERROR_OUT_OF_HOST"):
                        batch.submit()
                else:
                    batch.submit()
    assert [span.batch for span in profile.spans] == [0, 1]
    assert (words(device, x) == 2).all()


def test_a_device_closed_within_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(choose())
    functions = device.logical.functions
    x = device.allocate(400)
    with device.profile() as profile:
        batch = device.batch()
        batch.fill(x, 1)
        batch.submit()
        device.close()
        assert device.live_objects() == {}
        # From here on there is nothing to ask.
        monkeypatch.setattr(functions, "vkGetQueryPoolResults", None)
    assert [span.name for span in profile.spans] == ["copy"]


def test_a_forked_child_leaves_a_profile_alone() -> None:
    device = Device(choose())
    with device.profile() as profile:
        batch = device.batch()
        batch.fill(device.allocate(400), 1)
        batch.submit()
        # What a child does first.
        closed, device.logical.forked = device.logical.forked, True
        profile.close()
        device.logical.forked = closed
        assert profile.spans == []
    device.close()
    assert device.live_objects() == {}
