import _ctypes
import ctypes
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from vkbackend.config import LOADER
from vkbackend.errors import DeviceLost, NoVulkanError, OutOfDeviceMemory, VulkanError
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

# --- loading


def test_importing_opens_no_library() -> None:
    code = (
        "import ctypes, sys\n"
        "events = []\n"
        "sys.addaudithook(lambda event, _: events.append(event))\n"
        "import vkbackend.vk.runtime\n"
        "assert 'import' in events and 'ctypes.dlopen' not in events\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()


def test_missing_loader_names_switch_and_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(LOADER.name, "/nonexistent/libvulkan.so.1")
    with pytest.raises(NoVulkanError, match="cannot be opened") as caught:
        runtime.load()
    message = str(caught.value)
    assert "/nonexistent/libvulkan.so.1" in message
    assert "correct or unset VKBACKEND_LOADER" in message


@pytest.mark.parametrize(
    ("platform", "package"),
    [("linux", "libvulkan1"), ("darwin", "molten-vk"), ("win32", "graphics driver")],
)
def test_missing_loader_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, platform: str, package: str
) -> None:
    monkeypatch.delenv(LOADER.name, raising=False)
    nowhere = ("vulkan-none",)
    monkeypatch.setattr(runtime, "sys", SimpleNamespace(platform=platform))
    monkeypatch.setattr(runtime, "LINUX_LIBRARIES", nowhere)
    monkeypatch.setattr(runtime, "LIBRARIES", {"darwin": nowhere, "win32": nowhere})
    with pytest.raises(NoVulkanError, match=package):
        runtime.load()


@pytest.mark.device
def test_the_loader_knows_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = runtime.load()
    path = opened.path()
    assert os.path.isfile(path) or path == opened.name
    monkeypatch.setattr(runtime.ctypes, "pythonapi", SimpleNamespace())
    assert opened.path() == opened.name


def test_a_library_that_is_no_loader_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(LOADER.name, _ctypes.__file__)
    with pytest.raises(NoVulkanError, match="vkGetInstanceProcAddr"):
        runtime.load()


# --- commands


def address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@pytest.fixture
def looked_up() -> list[bytes]:
    return []


@pytest.fixture
def functions(looked_up: list[bytes]) -> runtime.Functions:
    """Commands of a device that has vkDeviceWaitIdle and vkCmdDispatch."""
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    wait = prototype(lambda device: -4 if device else 0)
    void = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_uint32] * 3)
    dispatch = void(lambda command_buffer, x, y, z: None)
    known = {b"vkDeviceWaitIdle": wait, b"vkCmdDispatch": dispatch}

    def lookup(name: bytes) -> int | None:
        looked_up.append(name)
        return address(known[name]) if name in known else None

    return runtime.Functions("device", lookup)


def test_commands_are_looked_up_once(
    functions: runtime.Functions, looked_up: list[bytes]
) -> None:
    assert functions.vkDeviceWaitIdle(None) == 0
    assert functions.vkDeviceWaitIdle(1) == vk.VK_ERROR_DEVICE_LOST
    assert functions.vkDeviceWaitIdle.__name__ == "vkDeviceWaitIdle"
    assert looked_up == [b"vkDeviceWaitIdle"]


def test_only_recording_commands_keep_the_interpreter_lock(
    functions: runtime.Functions,
) -> None:
    keeps_lock = 0x4  # FUNCFLAG_PYTHONAPI in CPython's ctypes
    assert functions.vkCmdDispatch(None, 1, 1, 1) is None
    assert vars(type(functions.vkCmdDispatch))["_flags_"] & keeps_lock
    assert not vars(type(functions.vkDeviceWaitIdle))["_flags_"] & keeps_lock


def test_a_command_that_the_device_lacks(functions: runtime.Functions) -> None:
    with pytest.raises(VulkanError, match="vkGetMemoryFdKHR: the device does not have"):
        _ = functions.vkGetMemoryFdKHR
    with pytest.raises(VulkanError, match=r"the device does not .* of level instance"):
        _ = functions.vkCreateDevice


def test_a_command_outside_the_bindings(functions: runtime.Functions) -> None:
    with pytest.raises(AttributeError, match="vkCmdDraw: not in the bindings"):
        _ = functions.vkCmdDraw


# --- results


def test_success_passes() -> None:
    runtime.check("vkQueueSubmit2", vk.VK_SUCCESS)


@pytest.mark.parametrize(
    ("result", "kind", "text"),
    [
        (-2, OutOfDeviceMemory, "VK_ERROR_OUT_OF_DEVICE_MEMORY (-2)"),
        (-4, DeviceLost, "VK_ERROR_DEVICE_LOST (-4)"),
        (-3, VulkanError, "VK_ERROR_INITIALIZATION_FAILED (-3)"),
        (-999, VulkanError, "unknown VkResult (-999)"),
        (vk.VK_TIMEOUT, VulkanError, "VK_TIMEOUT (2)"),
        (vk.VK_NOT_READY, VulkanError, "VK_NOT_READY (1)"),
        (vk.VK_INCOMPLETE, VulkanError, "VK_INCOMPLETE (5)"),
    ],
)
def test_failures_have_a_kind_a_name_and_a_number(
    result: int, kind: type[VulkanError], text: str
) -> None:
    with pytest.raises(VulkanError) as caught:
        runtime.check("vkQueueSubmit2", result)
    assert type(caught.value) is kind
    assert str(caught.value) == f"vkQueueSubmit2: {text}"
    assert caught.value.result == result


def test_failures_carry_the_detail() -> None:
    text = r"^vkAllocateMemory: VK_ERROR_OUT_OF_DEVICE_MEMORY \(-2\): asked 1.50 GiB$"
    with pytest.raises(MemoryError, match=text):
        runtime.check("vkAllocateMemory", -2, "asked 1.50 GiB")


# --- structures


def test_make_fills_the_structure_type() -> None:
    info = runtime.make(vk.VkBufferCreateInfo, size=256)
    assert info.sType == vk.VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO
    assert info.size == 256
    assert info.pNext is None


def test_make_takes_structures_without_a_type() -> None:
    assert runtime.make(vk.VkPushConstantRange, size=128).size == 128


def test_make_refuses_unknown_members() -> None:
    with pytest.raises(TypeError, match="VkBufferCreateInfo: no such member: sise; it"):
        runtime.make(vk.VkBufferCreateInfo, sise=256)


def test_make_takes_strings_bytes_and_sequences() -> None:
    application = runtime.make(vk.VkApplicationInfo, pApplicationName="name")
    assert application.pApplicationName == b"name"
    instance = runtime.make(
        vk.VkInstanceCreateInfo,
        pApplicationInfo=application,
        ppEnabledExtensionNames=["VK_EXT_a", b"VK_EXT_b"],
    )
    assert instance.ppEnabledExtensionNames[1] == b"VK_EXT_b"
    assert instance.pApplicationInfo.contents.pApplicationName == b"name"
    shader = runtime.make(vk.VkShaderModuleCreateInfo, pCode=b"\x03\x02\x23\x07" * 2)
    assert shader.pCode[1] == 0x07230203
    wait = runtime.make(vk.VkSemaphoreWaitInfo, pValues=(7, 2**63))
    assert wait.pValues[1] == 2**63


def test_make_takes_void_pointers() -> None:
    cache = runtime.make(vk.VkPipelineCacheCreateInfo, pInitialData=b"a\0b")
    assert ctypes.string_at(cache.pInitialData, 3) == b"a\0b"
    words = (ctypes.c_uint32 * 2)(1, 2)
    constants = runtime.make(vk.VkSpecializationInfo, pData=words)
    assert constants.pData == ctypes.addressof(words)
    assert runtime.make(vk.VkSpecializationInfo, pData=4096).pData == 4096


def test_made_structures_keep_what_they_point_to() -> None:
    queue = runtime.make(vk.VkDeviceQueueCreateInfo, pQueuePriorities=[0.25, 1.0])
    features = runtime.make(vk.VkPhysicalDeviceVulkan13Features, synchronization2=1)
    device = runtime.make(
        vk.VkDeviceCreateInfo, pNext=features, pQueueCreateInfos=[queue]
    )
    alive = weakref.ref(features)
    del queue, features
    gc.collect()
    fill = [bytearray(64) for _ in range(1000)]  # would reuse memory freed too early
    assert device.pQueueCreateInfos[0].pQueuePriorities[1] == 1.0
    kept = vk.VkPhysicalDeviceVulkan13Features.from_address(device.pNext)
    assert kept.synchronization2 == 1
    assert alive() is not None
    del device, kept, fill
    gc.collect()
    assert alive() is None


def test_chain_links_in_order_and_keeps_all() -> None:
    others = [
        runtime.make(vk.VkPhysicalDeviceVulkan11Features, multiview=1),
        runtime.make(vk.VkPhysicalDeviceVulkan12Features, timelineSemaphore=1),
    ]
    alive = weakref.ref(others[1])
    first = runtime.chain(runtime.make(vk.VkPhysicalDeviceFeatures2), *others)
    del others
    gc.collect()
    second = vk.VkPhysicalDeviceVulkan11Features.from_address(first.pNext)
    third = vk.VkPhysicalDeviceVulkan12Features.from_address(second.pNext)
    assert (second.multiview, third.timelineSemaphore) == (1, 1)
    assert third.pNext is None
    assert alive() is not None


def test_chain_of_one() -> None:
    features = runtime.make(vk.VkPhysicalDeviceFeatures2)
    assert runtime.chain(features) is features
    assert features.pNext is None


# --- enumeration


def listing(values: list[int], results: list[int]) -> Callable[..., int]:
    """Return a command that fills `size` of queue families and gives these results."""

    def vkGetQueueSizes(owner: str, count: Any, array: Any) -> int:
        assert owner == "owner"
        if array is not None:
            for element, value in zip(array, values, strict=False):
                assert element.sType == vk.VK_STRUCTURE_TYPE_QUEUE_FAMILY_PROPERTIES_2
                element.queueFamilyProperties.queueCount = value
        count._obj.value = len(values)
        return results.pop(0)

    return vkGetQueueSizes


def sizes(values: list[int], results: list[int]) -> list[int]:
    found = runtime.enumerate_all(
        listing(values, results), "owner", struct=vk.VkQueueFamilyProperties2
    )
    return [properties.queueFamilyProperties.queueCount for properties in found]


def test_enumerate_asks_for_the_count_first() -> None:
    assert sizes([3, 5], [0, 0]) == [3, 5]
    assert sizes([], [0, 0]) == []


def test_enumerate_asks_again_when_the_list_grew() -> None:
    results = [0, vk.VK_INCOMPLETE, 0, 0]
    assert sizes([3, 5], results) == [3, 5]
    assert results == []


def test_enumerate_names_the_command_that_failed() -> None:
    with pytest.raises(VulkanError, match="vkGetQueueSizes: VK_ERROR_OUT_OF_HOST"):
        sizes([3], [-1])


# --- a real loader and driver


@pytest.mark.device
def test_properties_through_the_loader() -> None:
    commands = runtime.load().functions
    version = ctypes.c_uint32()
    runtime.check("", commands.vkEnumerateInstanceVersion(ctypes.byref(version)))
    assert version.value >= vk.VK_API_VERSION_1_3
    application = runtime.make(
        vk.VkApplicationInfo, apiVersion=vk.VK_API_VERSION_1_3, pApplicationName="test"
    )
    info = runtime.make(vk.VkInstanceCreateInfo, pApplicationInfo=application)
    instance = vk.VkInstance()
    result = commands.vkCreateInstance(info, None, ctypes.byref(instance))
    runtime.check("vkCreateInstance", result)
    functions = runtime.instance_functions(instance)
    try:
        found = runtime.enumerate_all(
            functions.vkEnumeratePhysicalDevices, instance, struct=vk.VkPhysicalDevice
        )
        assert found
        for physical_device in found:
            assert_properties(functions, physical_device)
    finally:
        functions.vkDestroyInstance(instance, None)


def assert_properties(functions: runtime.Functions, physical_device: int) -> None:
    driver = runtime.make(vk.VkPhysicalDeviceVulkan12Properties)
    limits = runtime.make(vk.VkPhysicalDeviceVulkan13Properties)
    properties = runtime.chain(
        runtime.make(vk.VkPhysicalDeviceProperties2), driver, limits
    )
    functions.vkGetPhysicalDeviceProperties2(physical_device, properties)
    assert properties.properties.deviceName
    assert properties.properties.limits.maxPushConstantsSize >= 128
    assert driver.driverName
    assert limits.maxBufferSize > 0
    families = runtime.enumerate_all(
        functions.vkGetPhysicalDeviceQueueFamilyProperties2,
        physical_device,
        struct=vk.VkQueueFamilyProperties2,
    )
    flags = [family.queueFamilyProperties.queueFlags for family in families]
    assert any(value & vk.VK_QUEUE_COMPUTE_BIT for value in flags)
