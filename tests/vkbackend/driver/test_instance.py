"""The instance: no loader, no driver, validation messages."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

import vkbackend
from vkbackend import config
from vkbackend.driver import instance, physical_device
from vkbackend.driver.instance import Instance, driver_files
from vkbackend.errors import NoVulkanError
from vkbackend.memory.memory import MemoryUsage
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that finds the same modules."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            **environment,
        },
    )


def test_import_opens_no_library() -> None:
    code = "import vkbackend; print('libvulkan' in open('/proc/self/maps').read())"
    if not os.path.exists("/proc/self/maps"):
        pytest.skip("needs /proc")
    assert run_python(code).stdout.strip() == "False"


def test_no_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.LOADER.name, "/nowhere/libvulkan.so.1")
    with pytest.raises(NoVulkanError, match=r"/nowhere/libvulkan.so.1.*libvulkan1"):
        Instance()


@pytest.mark.device
def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VK_DRIVER_FILES", raising=False)
    monkeypatch.setenv("VK_ICD_FILENAMES", "/nowhere/icd.json")
    with pytest.raises(
        NoVulkanError, match=r"/nowhere/icd.json.*mesa-vulkan-drivers for a software"
    ):
        physical_device.enumerate_devices(Instance())


def test_driver_files_are_those_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VK_DRIVER_FILES", os.pathsep.join(("a.json", "b.json")))
    assert driver_files() == ["a.json", "b.json"]


def test_driver_files_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    manifest = tmp_path / "vulkan/icd.d/mine.json"
    manifest.parent.mkdir(parents=True)
    manifest.touch()
    assert str(manifest) in driver_files()


@pytest.mark.device
def test_loader_version_and_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert instance.loader_version() >= instance.OLDEST_LOADER
    assert instance.layer_names() == sorted(instance.layer_names())
    monkeypatch.setattr(instance, "OLDEST_LOADER", (99, 0))
    with pytest.raises(NoVulkanError, match=r"loader is too old: version \(1,"):
        Instance()


def test_no_validation_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.VALIDATION.name, "1")
    monkeypatch.setattr(instance, "VALIDATION_LAYER", "VK_LAYER_NOBODY_has")
    with pytest.raises(NoVulkanError, match="install the package vulkan-validation"):
        Instance()


def _skip_without_layer() -> None:
    try:
        opened = Instance()
    except NoVulkanError as error:
        pytest.skip(str(error))
    opened.close()


@pytest.mark.device
@pytest.mark.parametrize("value", ["1", "sync"])
def test_messages_are_collected(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.VALIDATION.name, value)
    _skip_without_layer()
    opened = Instance()
    device = vkbackend.Device(physical_device.enumerate_devices(opened)[0])
    assert instance.messages() == ()
    broken = runtime.make(vk.VkBufferCreateInfo, size=0, usage=0)
    handle = ctypes.c_uint64()
    device.logical.functions.vkCreateBuffer(
        device.logical.handle, ctypes.byref(broken), None, ctypes.byref(handle)
    )
    assert any("VkBufferCreateInfo" in text for text in instance.messages())
    instance.clear_messages()
    if handle.value:
        device.logical.functions.vkDestroyBuffer(
            device.logical.handle, handle.value, None
        )
    device.close()
    opened.close()
    assert instance.messages() == ()


@pytest.mark.device
def test_messages_name_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.VALIDATION.name, "1")
    _skip_without_layer()
    opened = Instance()
    device = vkbackend.Device(physical_device.enumerate_devices(opened)[0])
    block = device.memory.allocate(1024, MemoryUsage.DEVICE, "a block with a name")
    functions = device.logical.functions
    commands = device.compute_queue.begin()
    functions.vkCmdFillBuffer(commands, block.buffer, 0, 4096, 0)
    assert any("a block with a name" in text for text in instance.messages())
    instance.clear_messages()
    device.compute_queue.abandon(commands)
    device.memory.free(block)
    device.close()
    opened.close()


@pytest.mark.device
def test_sync_finds_a_missing_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.VALIDATION.name, "sync")
    _skip_without_layer()
    opened = Instance()
    device = vkbackend.Device(physical_device.enumerate_devices(opened)[0])
    block = device.memory.allocate(1024, MemoryUsage.DEVICE, "written twice")
    functions = device.logical.functions
    commands = device.compute_queue.begin()
    functions.vkCmdFillBuffer(commands, block.buffer, 0, 1024, 0)
    functions.vkCmdFillBuffer(commands, block.buffer, 0, 1024, 1)
    assert any("WRITE_AFTER_WRITE" in text for text in instance.messages())
    instance.clear_messages()
    device.compute_queue.abandon(commands)
    device.memory.free(block)
    device.close()
    opened.close()


@pytest.mark.device
def test_exit_is_quiet() -> None:
    code = """
import vkbackend
device = vkbackend.open_device()
buffers = [device.allocate(1000) for _ in range(3)]
buffers.append(buffers)
device.upload(b"abcd", buffers[0])
batch = device.batch()
batch.fill(buffers[1], 1)
batch.submit()
batch.fill(buffers[2], 1)
"""
    done = run_python(code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.device
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_is_refused_clearly() -> None:
    code = """
import os, warnings
import vkbackend
warnings.simplefilter("ignore")
device = vkbackend.open_device()
buffer = device.allocate(1000)
device.upload(b"abcd", buffer)
child = os.fork()
if child == 0:
    try:
        device.read(buffer)
    except vkbackend.ArgumentError as error:
        print(error)
    try:
        vkbackend.open_device()
    except vkbackend.NoVulkanError as error:
        print(error, flush=True)
    del buffer
    os._exit(0)
print(os.waitpid(child, 0)[1], bytes(device.read(buffer, 0, 4)))
"""
    done = run_python(code)
    assert "the device is the parent process's" in done.stdout
    assert "cannot be used in a forked child" in done.stdout
    assert "0 b'abcd'" in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fork_while_the_instance_is_made_forbids_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instance, "_current", None)
    monkeypatch.setattr(instance, "_forked", False)
    # Where no fork comes in between, none is forbidden.
    instance.forget()
    assert not instance._forked
    # What a child does first, while another thread of its parent is inside of this.
    monkeypatch.setattr(instance, "Instance", instance.forget)
    instance.instance()
    with pytest.raises(NoVulkanError, match="cannot be used in a forked child"):
        instance.instance()


def test_an_instance_that_failed_forbids_nothing_after_a_fork(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instance, "_current", None)
    monkeypatch.setattr(instance, "_forked", False)
    monkeypatch.setenv(config.LOADER.name, "/nowhere/libvulkan.so.1")
    with pytest.raises(NoVulkanError, match=r"/nowhere/libvulkan.so.1"):
        instance.instance()
    instance.forget()
    assert not instance._forked
