"""Opening, closing, caching, threads, and what a user sees of a device."""

import gc
import itertools
import json
import operator
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend
from tests.vkbackend.kernels import AFFINE, add_affine, affine, filled, run_slow, words
from vkbackend import ArgumentError, Device, config, open_device
from vkbackend.driver.physical_device import choose

SIZE = {"LOCAL_X": 64}


@pytest.mark.core
def test_open_device_gives_the_same_object(device: Device) -> None:
    assert open_device() is device
    assert open_device(device.name) is device


@pytest.mark.core
def test_nothing_is_left_at_close(device: Device) -> None:
    other = Device(choose())
    buffers = [other.allocate(size) for size in (0, 1, 1000, 1 << 20)]
    other.upload(np.arange(250, dtype=np.uint32), buffers[2])
    batch = other.batch()
    add_affine(batch, affine(other), buffers[2], buffers[3])
    batch.submit()
    other.read(buffers[3])
    run_slow(other, buffers[3], 1)
    assert other.live_objects()["Buffer"] >= 1
    other.close()
    other.close()
    assert other.live_objects() == {}
    del buffers, batch
    gc.collect()


@pytest.mark.device
def test_closed_device_is_refused() -> None:
    other = Device(choose())
    buffer = other.allocate(16)
    batch = other.batch()
    batch.fill(buffer, 1)
    other.close()
    calls = (
        lambda: other.allocate(1),
        lambda: other.upload(b"a", buffer),
        lambda: other.read(buffer),
        lambda: other.pipeline("affine"),
        other.batch,
        batch.submit,
        other.synchronize,
        other.empty_cache,
    )
    for call in calls:
        with pytest.raises(ArgumentError, match="the device is closed"):
            call()
    assert "closed" in repr(other)


@pytest.mark.core
@pytest.mark.parametrize("size", [0, 1, 3, 255, 257, 100_003])
def test_upload_and_read(device: Device, size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    buffer = device.allocate(size, name="data")
    device.upload(data, buffer)
    assert bytes(device.read(buffer)) == data
    assert operator.index(buffer) == buffer.address
    assert buffer.size == size


@pytest.mark.device
def test_upload_takes_arrays(device: Device) -> None:
    for array in (np.float32(3.5), np.ones((3, 5), np.int16), np.ones((0, 4))):
        buffer = device.allocate(array.nbytes)
        device.upload(array, buffer)
        assert bytes(device.read(buffer)) == array.tobytes()


@pytest.mark.device
def test_upload_refuses_strides(device: Device) -> None:
    with pytest.raises(ArgumentError, match=r"not C-contiguous: shape \(3,\)"):
        device.upload(np.ones(6)[::2], device.allocate(100))


STRUCTURED = np.dtype([("O", "f4"), ("at", "O")])


@pytest.mark.device
@pytest.mark.parametrize("dtype", [object, STRUCTURED])
def test_objects_of_python_have_no_bytes(device: Device, dtype: Any) -> None:
    # Read into, such an array would hold pointers to anywhere.
    buffer = device.allocate(64)
    data = np.zeros(2, dtype)
    with pytest.raises(ArgumentError, match="holds Python objects"):
        device.upload(data, buffer)
    with pytest.raises(ArgumentError, match="holds Python objects"):
        device.read(buffer, out=data)
    fine = np.zeros(2, [("O", "f4"), ("at", "i4")])
    device.upload(fine, buffer)
    device.read(buffer, out=fine)


@pytest.mark.device
@pytest.mark.parametrize("data", [None, "text", 5, np.zeros(2, "M8[s]")])
def test_only_bytes_are_uploaded(device: Device, data: Any) -> None:
    with pytest.raises(ArgumentError, match="give bytes, or an array of numbers"):
        device.upload(data, device.allocate(64))


@pytest.mark.device
@pytest.mark.parametrize("size", [1.5, float("nan"), 4096.0, "4", None])
def test_a_size_is_a_whole_number(device: Device, size: Any) -> None:
    # A float spoiled the pool's book-keeping.
    with pytest.raises(ArgumentError, match="the size is no whole number"):
        device.allocate(size)
    assert device.allocate(np.int64(5)).size == 5  # type: ignore[arg-type]


@pytest.mark.device
def test_parts(device: Device) -> None:
    buffer = filled(device, np.arange(10, dtype=np.uint32))
    device.upload(np.array([77, 78], np.uint32), buffer, offset=12)
    assert words(device, buffer).tolist() == [0, 1, 2, 77, 78, 5, 6, 7, 8, 9]
    assert device.read(buffer, 12, 4) == np.uint32(77).tobytes()
    assert device.read(buffer, 40) == b""


@pytest.mark.device
def test_ranges_are_checked(device: Device) -> None:
    buffer = device.allocate(10)
    calls = (
        lambda: device.upload(bytes(11), buffer),
        lambda: device.upload(bytes(2), buffer, 9),
        lambda: device.upload(bytes(2), buffer, -1),
        lambda: device.read(buffer, 5, 6),
        lambda: device.read(buffer, 11),
    )
    for call in calls:
        with pytest.raises(
            ArgumentError, match=r"leaves the buffer: offset .* holds 10"
        ):
            call()
    with pytest.raises(ArgumentError, match="the size is negative: -1"):
        device.allocate(-1)


@pytest.mark.device
def test_buffers_of_another_device_are_refused(device: Device) -> None:
    other = Device(choose())
    buffer = other.allocate(16)
    with pytest.raises(ArgumentError, match="is on another device"):
        device.read(buffer)
    with pytest.raises(ArgumentError, match="is on another device"):
        device.upload(b"a", buffer)
    with pytest.raises(ArgumentError, match="is on another device"):
        device.batch().fill(buffer)
    other.close()


@pytest.mark.device
def test_counters_count(device: Device) -> None:
    pipeline = affine(device)
    x = device.allocate(400)
    before = device.counters.snapshot()
    device.upload(bytes(400), x)
    batch = device.batch()
    y = device.allocate(400)
    add_affine(batch, pipeline, x, y)
    add_affine(batch, pipeline, y, x)
    batch.submit()
    device.read(y, 0, 40)
    affine(device)
    counted = device.counters - before
    assert (counted.dispatches, counted.barriers) == (2, 1)
    assert (counted.uploads, counted.upload_bytes) == (1, 400)
    assert (counted.host_reads, counted.host_read_bytes) == (1, 40)
    assert (counted.pipeline_builds, counted.shader_compiles) == (0, 0)
    assert counted.device_allocations <= 3
    assert 1 <= counted.submits <= 3


@pytest.mark.device
def test_warm_loop_is_quiet(device: Device) -> None:
    pipeline = affine(device)
    x = filled(device, np.ones(1 << 16, np.uint32))
    for step in range(20):
        if step == 10:
            before = device.counters.snapshot()
        batch = device.batch()
        middle, out = device.allocate(x.size), device.allocate(x.size)
        add_affine(batch, pipeline, x, middle)
        add_affine(batch, pipeline, middle, out)
        batch.submit()
    counted = device.counters - before
    assert counted.device_allocations == 0
    assert counted.pipeline_builds == 0
    assert counted.host_reads == 0
    assert counted.dispatches == 20
    assert counted.submits == 10


@pytest.mark.device
def test_threads(device: Device) -> None:
    pipeline = affine(device)
    failures: list[object] = []

    def work(seed: int) -> None:
        values = np.arange(5000, dtype=np.uint32) + seed
        for step in range(20):
            x = filled(device, values)
            y = device.allocate(x.size)
            batch = device.batch()
            add_affine(batch, pipeline, x, y, 3, step)
            batch.submit()
            if (words(device, y) != values * 3 + step).any():
                failures.append((seed, step))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.device
def test_memory_reports(device: Device) -> None:
    buffer = device.allocate(5000, name="for the report")
    dump = json.loads(json.dumps(device.memory_dump()))
    row = {"name": "for the report", "address": buffer.address, "size": 5000}
    assert row in dump["allocations"]
    assert dump["statistics"] == device.memory_stats()
    summary = device.memory_summary()
    assert device.info.name in summary
    assert "peak in use" in summary


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.core
def test_too_much_memory_is_refused(device: Device) -> None:
    most = sum(heap.size for heap in device.info.heaps)
    before = device.memory_stats()["in_use"]
    with pytest.raises(
        vkbackend.OutOfDeviceMemory, match=r"asked .* pool holds .* in use"
    ):
        device.allocate(most + 1)
    assert device.memory_stats()["in_use"] == before


@pytest.mark.device
def test_poison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.POISON.name, "1")
    other = Device(choose())
    buffer = other.allocate(36)
    assert np.isnan(np.frombuffer(other.read(buffer), np.float32)).all()
    other.upload(bytes(36), buffer)
    assert not words(other, buffer).any()
    other.close()


@pytest.mark.core
def test_synchronize(device: Device) -> None:
    point = run_slow(device, device.allocate(4000), 1)
    device.synchronize()
    assert point.done()


@pytest.mark.device
def test_what_the_disk_has_is_not_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(config.CACHE.name, str(tmp_path))
    for compiles in (1, 0):
        device = Device(choose())
        affine(device)
        counted = device.counters.snapshot()
        device.close()
        assert (counted.shader_compiles, counted.pipeline_builds) == (compiles, 1)


def variant(device: Device, number: int) -> vkbackend.Pipeline:
    """Return one of many kernels that do the same."""
    return device.pipeline("affine", source=f"{AFFINE}// {number}\n", constants=SIZE)


@pytest.mark.core
def test_kernels_that_nobody_holds_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkbackend.device._MAX_CACHED_PIPELINES", 2)
    other = Device(choose())
    x, y = filled(other, np.arange(64, dtype=np.uint32)), other.allocate(256)
    held = variant(other, 0)
    for number in range(1, 9):
        batch = other.batch()
        add_affine(batch, variant(other, number), x, y, number)
        for later in range(3):
            # The batch alone holds its kernel.
            variant(other, 100 * number + later)
        batch.submit()
        assert (words(other, y) == np.arange(64) * number).all()
    variant(other, 10)
    # The one held, the two kept, and one that was dropped since the last was built.
    assert other.live_objects()["Pipeline"] <= 4
    assert variant(other, 0) is held
    builds = other.counters.pipeline_builds
    assert variant(other, 10) is variant(other, 10)
    assert other.counters.pipeline_builds == builds
    variant(other, 1)
    assert other.counters.pipeline_builds == builds + 1
    other.close()
    assert other.live_objects() == {}


@pytest.mark.core
def test_a_recording_holds_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkbackend.device._MAX_CACHED_PIPELINES", 1)
    other = Device(choose())
    x, y = filled(other, np.arange(64, dtype=np.uint32)), other.allocate(256)
    batch = other.batch()
    add_affine(batch, variant(other, 0), x, y, 5)
    recording = other.record(batch)
    del batch
    for number in range(1, 5):
        variant(other, number)
        recording.submit()
        assert (words(other, y) == np.arange(64) * 5).all()
    # The recording's, the one kept, and one dropped since.
    assert other.live_objects()["Pipeline"] <= 3
    del recording
    other.synchronize()
    variant(other, 5)
    variant(other, 6)
    assert other.live_objects()["Pipeline"] <= 2
    other.close()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.device
def test_several_buffers_at_once(device: Device) -> None:
    before = device.memory_stats()
    buffers = device.allocate_each([4, 0, 1000, 4])
    assert [buffer.size for buffer in buffers] == [4, 0, 1000, 4]
    places = sorted(buffer.address_range for buffer in buffers)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(places))
    counted = device.memory_stats()
    assert counted["allocations"] == before["allocations"] + 4
    del buffers
    assert device.memory_stats()["in_use"] == before["in_use"]
    assert device.allocate_each([]) == []
