"""Opening and closing: stopped, failing, lost, from many threads, beside a fork."""

import importlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.interruption import each_interruption
from tests.vkbackend.driver.test_instance import run_python
from tests.vkbackend.kernels import add_affine, affine, filled
from vkbackend import ArgumentError, Device, open_device, open_devices
from vkbackend.driver import physical_device
from vkbackend.driver.logical_device import LogicalDevice
from vkbackend.driver.physical_device import choose
from vkbackend.errors import DeviceLost, VulkanError
from vkbackend.vk import generated as vk

module = importlib.import_module("vkbackend.device")


@pytest.mark.device
def test_reopened_after_close(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: dict[object, Device] = {}
    monkeypatch.setattr("vkbackend.open_devices._opened", opened)
    first = open_device()
    first.close()
    second = open_device()
    assert second is not first
    second.close()
    assert opened == {}


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
    for one in each_interruption(lambda: Device(chosen), step=7):
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
    monkeypatch.setattr(open_devices, "_opened", {})
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
    monkeypatch.setattr(open_devices.instance, "close", lambda: closed.append(None))
    functions = other.logical.functions
    wait = functions.vkDeviceWaitIdle
    functions.vkDeviceWaitIdle = lambda *_: vk.VK_ERROR_OUT_OF_HOST_MEMORY  # type: ignore[method-assign]
    with pytest.raises(VulkanError, match="vkDeviceWaitIdle"):
        open_devices.close_all()
    assert closed == []
    functions.vkDeviceWaitIdle = wait  # type: ignore[method-assign]
    open_devices.close_all()
    assert closed == [None]


@pytest.mark.device
def test_a_lost_device_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_devices, "_opened", {})
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
    monkeypatch.setattr(open_devices, "_opened", {})
    monkeypatch.setattr(physical_device, "_found", None)
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
