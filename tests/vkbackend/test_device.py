"""Opening, closing, caching, threads, and what a user sees of a device."""

import gc
import importlib
import itertools
import json
import operator
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import vkbackend
from tests.interruption import each_interruption
from tests.vkbackend.kernels import (
    AFFINE,
    add_affine,
    affine,
    filled,
    run_slow,
    words,
)
from tests.vkbackend.test_instance import run_python
from vkbackend import ArgumentError, Device, config, open_device, physical
from vkbackend.errors import DeviceLost, VulkanError
from vkbackend.logical import LogicalDevice
from vkbackend.physical import choose
from vkbackend.vk import generated as vk

module = importlib.import_module("vkbackend.device")

SIZE = {"LOCAL_X": 64}


@pytest.mark.core
def test_open_device_gives_the_same_object(device: Device) -> None:
    assert open_device() is device
    assert open_device(device.info.name) is device


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


@pytest.mark.device
def test_reopened_after_close(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: dict[object, Device] = {}
    monkeypatch.setattr("vkbackend.device._opened", opened)
    first = open_device()
    first.close()
    second = open_device()
    assert second is not first
    second.close()
    assert opened == {}


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
    monkeypatch.setattr("vkbackend.device._KEPT", 2)
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
    monkeypatch.setattr("vkbackend.device._KEPT", 1)
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
    places = sorted(buffer.whole for buffer in buffers)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(places))
    counted = device.memory_stats()
    assert counted["allocations"] == before["allocations"] + 4
    del buffers
    assert device.memory_stats()["in_use"] == before["in_use"]
    assert device.allocate_each([]) == []


def used(device: Device) -> None:
    """Have memory, a kernel, a recording and work of a device."""
    x, y = filled(device, np.ones(4, np.uint32)), device.allocate(16)
    batch = device.batch()
    add_affine(batch, affine(device), x, y)
    device.record(batch).submit()
    batch.submit()


@pytest.mark.device
def test_a_close_interrupted_at_any_line_is_finished_by_the_next() -> None:
    made = [Device(choose())]
    used(made[0])
    for one in each_interruption(lambda: made[0].close(), step=5):
        (other,) = made
        assert one.where
        if not other.usable:
            with pytest.raises(ArgumentError, match="the device is closed"):
                other.allocate(1)
        other.close()
        assert other.live_objects() == {}
        assert other not in module._devices
        made[:] = [Device(choose())]
        used(made[0])
    assert made[0].live_objects() == {}


@pytest.mark.device
def test_an_opening_interrupted_at_any_line_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = choose()
    made: list[LogicalDevice] = []
    create = LogicalDevice.open

    def opened(self: LogicalDevice) -> None:
        made.append(self)
        create(self)

    monkeypatch.setattr(LogicalDevice, "open", opened)
    before = list(module._devices)
    for one in each_interruption(lambda: Device(chosen), step=3):
        assert module._devices == before, one.where
        for each in made:
            assert each.live_objects() == {}, one.where
            assert each._closed or each._cell.value is None, one.where
        made.clear()
    module._devices[-1].close()


@pytest.mark.device
@pytest.mark.parametrize(
    "call",
    [
        "vkCreateSemaphore",
        "vkCreateCommandPool",
        "vkCreatePipelineCache",
        "vkCreatePipelineLayout",
    ],
)
def test_an_opening_that_fails_leaves_nothing(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[LogicalDevice] = []
    opened = LogicalDevice.open

    def failing(self: LogicalDevice) -> None:
        opened(self)
        made.append(self)
        setattr(self.functions, call, lambda *_: vk.VK_ERROR_OUT_OF_HOST_MEMORY)

    monkeypatch.setattr(LogicalDevice, "open", failing)
    before = list(module._devices)
    with pytest.raises(VulkanError, match=call):
        Device(choose())
    assert made[0].live_objects() == {}
    assert made[0]._closed
    assert module._devices == before


@pytest.mark.device
def test_a_close_that_fails_is_finished_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_opened", {})
    first = open_device()
    used(first)
    functions = first.logical.functions
    wait = functions.vkDeviceWaitIdle
    functions.vkDeviceWaitIdle = lambda *_: vk.VK_ERROR_OUT_OF_HOST_MEMORY  # type: ignore[method-assign]
    with pytest.raises(VulkanError, match="vkDeviceWaitIdle"):
        first.close()
    second = open_device()
    assert second is not first
    functions.vkDeviceWaitIdle = wait  # type: ignore[method-assign]
    first.close()
    assert first.live_objects() == {}
    second.close()


@pytest.mark.device
def test_the_instance_stays_where_a_device_cannot_be_closed(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Device(choose())
    monkeypatch.setattr(module, "_devices", [other])
    closed: list[None] = []
    monkeypatch.setattr(module.instance, "close", lambda: closed.append(None))
    functions = other.logical.functions
    wait = functions.vkDeviceWaitIdle
    functions.vkDeviceWaitIdle = lambda *_: vk.VK_ERROR_OUT_OF_HOST_MEMORY  # type: ignore[method-assign]
    with pytest.raises(VulkanError, match="vkDeviceWaitIdle"):
        module.close_all()
    assert closed == []
    functions.vkDeviceWaitIdle = wait  # type: ignore[method-assign]
    module.close_all()
    assert closed == [None]


@pytest.mark.device
def test_a_lost_device_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_opened", {})
    first = open_device()
    with pytest.raises(DeviceLost):
        first.logical.check("vkQueueSubmit2", vk.VK_ERROR_DEVICE_LOST)
    second = open_device()
    assert second is not first
    assert open_device() is second
    used(second)
    with pytest.raises(DeviceLost):
        first.allocate(1)
    first.close()
    assert open_device() is second
    second.close()


@pytest.mark.device
def test_threads_open_one_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_opened", {})
    monkeypatch.setattr(physical, "_found", None)
    together = threading.Barrier(16)

    def opened(_: int) -> Device:
        together.wait()
        return open_device()

    with ThreadPoolExecutor(16) as threads:
        found = set(threads.map(opened, range(16)))
    assert len(found) == 1
    found.pop().close()


FORKS = """
import os, sys, threading, warnings
import vkbackend
warnings.simplefilter("ignore")
device = vkbackend.open_device()
buffer = device.allocate(1000)
device.upload(b"abcd", buffer)
point = device.batch()
point.fill(buffer, 1)
point = point.submit()
stop = False

def busy():
    while not stop:
        batch = device.batch()
        batch.fill(buffer, 1)
        batch.submit()
        device.read(buffer)
        with device._building, device.logical.lock:
            pass

threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
calls = (
    lambda: device.read(buffer),
    lambda: device.allocate(1),
    lambda: device.pipeline("none"),
    device.synchronize,
    device.settle,
    device.close,
    vkbackend.open_device,
)
failed = 0
for _ in range(CHILDREN):
    child = os.fork()
    if child == 0:
        refused = 0
        for call in calls:
            try:
                call()
            except (vkbackend.ArgumentError, vkbackend.NoVulkanError):
                refused += 1
        os._exit(0 if refused == len(calls) - 2 else 1)
    failed += os.waitpid(child, 0)[1] != 0
stop = True
for thread in threads:
    thread.join()
print(failed)
"""


@pytest.mark.device
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_beside_busy_threads_is_refused_at_once() -> None:
    done = run_python(FORKS.replace("CHILDREN", "40"))
    assert (done.stdout, done.stderr, done.returncode) == ("0\n", "", 0)
