"""Physical devices: enumeration, properties and selection.

Required of a device are Vulkan 1.3, `bufferDeviceAddress`, `timelineSemaphore`,
`synchronization2` and a compute queue. One that lacks something is listed all the same
and refused with the reason when it is opened. Everything else is optional and recorded
in `DeviceInfo`.
"""

import ctypes
import sys
import threading
from collections.abc import Sequence
from typing import Any

from vkbackend import config, fork_safety
from vkbackend.errors import ArgumentError, NoVulkanError, VulkanError
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

from . import cards, features
from .device_info import DeviceInfo, FlexibleMatrix, Heap, MatrixShape, QueueFamily
from .instance import Instance, instance, no_driver

_KINDS = {
    vk.VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: "discrete",
    vk.VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: "integrated",
    vk.VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: "virtual",
    vk.VK_PHYSICAL_DEVICE_TYPE_CPU: "software",
    vk.VK_PHYSICAL_DEVICE_TYPE_OTHER: "other",
}
_SCORES = {"discrete": 5, "integrated": 4, "virtual": 3, "other": 2, "software": 1}

_REQUIRED = ("buffer_device_address", "timeline_semaphore", "synchronization2")

_COMPONENTS = {
    vk.VK_COMPONENT_TYPE_FLOAT16_KHR: "float16",
    vk.VK_COMPONENT_TYPE_FLOAT32_KHR: "float32",
    vk.VK_COMPONENT_TYPE_FLOAT64_KHR: "float64",
    vk.VK_COMPONENT_TYPE_SINT8_KHR: "int8",
    vk.VK_COMPONENT_TYPE_SINT16_KHR: "int16",
    vk.VK_COMPONENT_TYPE_SINT32_KHR: "int32",
    vk.VK_COMPONENT_TYPE_SINT64_KHR: "int64",
    vk.VK_COMPONENT_TYPE_UINT8_KHR: "uint8",
    vk.VK_COMPONENT_TYPE_UINT16_KHR: "uint16",
    vk.VK_COMPONENT_TYPE_UINT32_KHR: "uint32",
    vk.VK_COMPONENT_TYPE_UINT64_KHR: "uint64",
    vk.VK_COMPONENT_TYPE_BFLOAT16_KHR: "bfloat16",
}
_SCOPES = {
    vk.VK_SCOPE_SUBGROUP_KHR: "subgroup",
    vk.VK_SCOPE_WORKGROUP_KHR: "workgroup",
    vk.VK_SCOPE_DEVICE_KHR: "device",
}

_FLEXIBLE = "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV"


class PhysicalDevice:
    """Physical device that a driver offers.

    Attributes
    ----------
    handle : int
        The `VkPhysicalDevice`.
    info : DeviceInfo
        Properties, limits and features.
    name : str
        The driver's name of it; with its PCI address, or its number among `devices()`,
        if another device has the same.
    others : tuple of PhysicalDevice
        The same card under other drivers, which `devices()` does not list.
    extensions : frozenset of str
        Device extensions on offer.
    families : tuple of QueueFamily
        Its queue families.
    """

    def __init__(self, owner: Instance, handle: int) -> None:
        self.instance = owner
        self.handle = handle
        functions = owner.functions
        self.extensions = frozenset(
            row.extensionName.decode()
            for row in runtime.enumerate_all(
                functions.vkEnumerateDeviceExtensionProperties,
                handle,
                None,
                struct=vk.VkExtensionProperties,
            )
        )
        self.families = self._read_families()
        self.info = self._read_info()
        self.name = self.info.name
        self.others: tuple[PhysicalDevice, ...] = ()

    def __repr__(self) -> str:
        return f"PhysicalDevice({self.name!r}, {self.info.kind})"

    def missing(self) -> list[str]:
        """Return what the library requires and this device lacks; empty when usable."""
        lacking = []
        if self.info.api_version[:2] < features.VULKAN_VERSION:
            lacking.append("Vulkan 1.3")
        lacking += [flag for flag in _REQUIRED if flag not in self.info.supported]
        if not any(row.flags & vk.VK_QUEUE_COMPUTE_BIT for row in self.families):
            lacking.append("a compute queue")
        return lacking

    def score(self) -> int:
        """Return its place in the choice: 5 discrete to 1 software, 0 not usable."""
        return 0 if self.missing() else _SCORES[self.info.kind]

    def _read_families(self) -> tuple[QueueFamily, ...]:
        rows = runtime.enumerate_all(
            self.instance.functions.vkGetPhysicalDeviceQueueFamilyProperties2,
            self.handle,
            struct=vk.VkQueueFamilyProperties2,
        )
        properties = [row.queueFamilyProperties for row in rows]
        return tuple(
            QueueFamily(index, row.queueFlags, row.queueCount, row.timestampValidBits)
            for index, row in enumerate(properties)
        )

    def _read_info(self) -> DeviceInfo:
        functions = self.instance.functions
        head, by_version = _query_properties(functions, self.handle)
        core = head.properties
        limits = core.limits
        version = _version(core.apiVersion)
        supported = features.supported(functions, self.handle, version, self.extensions)
        v11, v12, v13 = by_version
        return DeviceInfo(
            name=core.deviceName.decode(),
            kind=_KINDS.get(core.deviceType, "other"),
            vendor_id=core.vendorID,
            device_id=core.deviceID,
            driver_name=v12.driverName.decode(),
            driver_info=v12.driverInfo.decode(),
            driver_version=core.driverVersion,
            api_version=version,
            pipeline_cache_uuid=bytes(core.pipelineCacheUUID).hex(),
            max_push_size=limits.maxPushConstantsSize,
            max_shared_memory=limits.maxComputeSharedMemorySize,
            max_workgroup_invocations=limits.maxComputeWorkGroupInvocations,
            max_workgroup_size=_triple(limits.maxComputeWorkGroupSize),
            max_workgroup_count=_triple(limits.maxComputeWorkGroupCount),
            max_allocation_size=v11.maxMemoryAllocationSize,
            max_buffer_size=v13.maxBufferSize or v11.maxMemoryAllocationSize,
            subgroup_size=v11.subgroupSize,
            min_subgroup_size=v13.minSubgroupSize or v11.subgroupSize,
            max_subgroup_size=v13.maxSubgroupSize or v11.subgroupSize,
            timestamp_period=limits.timestampPeriod,
            heaps=self._read_heaps(),
            subgroup_arithmetic=bool(
                v11.subgroupSupportedStages & vk.VK_SHADER_STAGE_COMPUTE_BIT
                and v11.subgroupSupportedOperations
                & vk.VK_SUBGROUP_FEATURE_ARITHMETIC_BIT
            ),
            subgroup_shuffle=bool(
                v11.subgroupSupportedStages & vk.VK_SHADER_STAGE_COMPUTE_BIT
                and v11.subgroupSupportedOperations & vk.VK_SUBGROUP_FEATURE_SHUFFLE_BIT
            ),
            special_value_widths=tuple(
                width
                for width in (16, 32, 64)
                if getattr(v12, f"shaderSignedZeroInfNanPreserveFloat{width}")
            ),
            memory_budget="VK_EXT_memory_budget" in self.extensions,
            cooperative_matrix=self._read_matrices(supported),
            supported=supported,
            flexible_matrix=self._read_flexible(supported),
            rounds_to_float16="shader_float16" in supported
            and bool(v12.shaderRoundingModeRTEFloat16)
            and not v12.shaderRoundingModeRTZFloat16
            and bool(v12.shaderDenormPreserveFloat16)
            and not v12.shaderDenormFlushToZeroFloat16,
            preserves_subnormals=bool(v12.shaderDenormPreserveFloat32),
            subgroup_operations=v11.subgroupSupportedOperations
            if v11.subgroupSupportedStages & vk.VK_SHADER_STAGE_COMPUTE_BIT
            else 0,
            uuid=bytes(v11.deviceUUID).hex(),
            pci_address=self._read_pci_address(),
        )

    def _read_pci_address(self) -> str:
        if vk.VK_EXT_PCI_BUS_INFO_EXTENSION_NAME not in self.extensions:
            return ""
        place = runtime.make(vk.VkPhysicalDevicePCIBusInfoPropertiesEXT)
        head = runtime.make(vk.VkPhysicalDeviceProperties2, pNext=place)
        functions = self.instance.functions
        functions.vkGetPhysicalDeviceProperties2(self.handle, ctypes.byref(head))
        bus = f"{place.pciDomain:04x}:{place.pciBus:02x}:{place.pciDevice:02x}"
        return f"{bus}.{place.pciFunction:x}"

    def _read_heaps(self) -> tuple[Heap, ...]:
        head = runtime.make(vk.VkPhysicalDeviceMemoryProperties2)
        self.instance.functions.vkGetPhysicalDeviceMemoryProperties2(
            self.handle, ctypes.byref(head)
        )
        memory = head.memoryProperties
        return tuple(
            Heap(row.size, bool(row.flags & vk.VK_MEMORY_HEAP_DEVICE_LOCAL_BIT))
            for row in memory.memoryHeaps[: memory.memoryHeapCount]
        )

    def _read_matrices(self, supported: frozenset[str]) -> tuple[MatrixShape, ...]:
        if "cooperative_matrices" not in supported:
            return ()
        rows = runtime.enumerate_all(
            self.instance.functions.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR,
            self.handle,
            struct=vk.VkCooperativeMatrixPropertiesKHR,
        )
        return tuple(
            MatrixShape(
                m=row.MSize,
                n=row.NSize,
                k=row.KSize,
                **_matrix_types(row),
            )
            for row in rows
        )

    def _read_flexible(self, supported: frozenset[str]) -> tuple[FlexibleMatrix, ...]:
        if "matrix_flexible_dimensions" not in supported:
            return ()
        functions = self.instance.functions
        try:
            listed = getattr(functions, _FLEXIBLE)
        except VulkanError:
            return ()  # a loader may be too old to pass the command on
        head = runtime.make(vk.VkPhysicalDeviceProperties2)
        limits = runtime.make(vk.VkPhysicalDeviceCooperativeMatrix2PropertiesNV)
        runtime.chain(head, limits)
        functions.vkGetPhysicalDeviceProperties2(self.handle, ctypes.byref(head))
        struct = vk.VkCooperativeMatrixFlexibleDimensionsPropertiesNV
        rows = runtime.enumerate_all(listed, self.handle, struct=struct)
        return tuple(
            FlexibleMatrix(
                m=row.MGranularity,
                n=row.NGranularity,
                k=row.KGranularity,
                **_matrix_types(row),
                invocations=row.workgroupInvocations,
                largest=limits.cooperativeMatrixFlexibleDimensionsMaxDimension,
            )
            for row in rows
        )


def _matrix_types(row: Any) -> dict[str, Any]:
    """Return what is listed of a product besides its sizes."""
    return {
        "a": _component(row.AType),
        "b": _component(row.BType),
        "c": _component(row.CType),
        "result": _component(row.ResultType),
        "scope": _SCOPES.get(row.scope, f"scope {row.scope}"),
        "saturating": bool(row.saturatingAccumulation),
    }


def _component(number: int) -> str:
    return _COMPONENTS.get(number, f"component {number}")


def _version(packed: int) -> tuple[int, int, int]:
    return packed >> 22 & 0x7F, packed >> 12 & 0x3FF, packed & 0xFFF


def _triple(values: "ctypes.Array[ctypes.c_uint32]") -> tuple[int, int, int]:
    return values[0], values[1], values[2]


def _query_properties(
    functions: runtime.Functions, handle: int
) -> tuple[ctypes.Structure, tuple[ctypes.Structure, ...]]:
    """Return the core properties and those of Vulkan 1.1, 1.2 and 1.3.

    On a device too old for them the latter stay zero.
    """
    plain = runtime.make(vk.VkPhysicalDeviceProperties2)
    functions.vkGetPhysicalDeviceProperties2(handle, ctypes.byref(plain))
    version = _version(plain.properties.apiVersion)
    head = runtime.make(vk.VkPhysicalDeviceProperties2)
    by_version = (
        runtime.make(vk.VkPhysicalDeviceVulkan11Properties),
        runtime.make(vk.VkPhysicalDeviceVulkan12Properties),
        runtime.make(vk.VkPhysicalDeviceVulkan13Properties),
    )
    if version[:2] >= features.VULKAN_VERSION:
        runtime.chain(head, *by_version)
    functions.vkGetPhysicalDeviceProperties2(handle, ctypes.byref(head))
    return head, by_version


_lock = threading.Lock()
fork_safety.renew(sys.modules[__name__], "_lock", threading.Lock)
_found: tuple[Instance, tuple[PhysicalDevice, ...]] | None = None


def devices() -> tuple[PhysicalDevice, ...]:
    """Return the devices of this machine, best first, and each card once.

    Discrete before integrated, virtual and software ones; usable ones before those that
    lack something required. Of the drivers of one card it is the one with the most of
    what the library can use; `VK_DRIVER_FILES` leaves the loader no other.

    Returns
    -------
    tuple of PhysicalDevice
        At least one.

    Raises
    ------
    NoVulkanError
        If there is no Vulkan loader, no driver or no device; says what to install.
    """
    global _found
    owner = instance()
    with _lock:
        # Others compare what they found, so all threads must find the same.
        if _found is None or _found[0] is not owner:
            _found = (owner, enumerate_devices(owner))
        return _found[1]


def forget() -> None:
    """Start afresh in a forked child."""
    global _found
    _found = None


def enumerate_devices(owner: Instance) -> tuple[PhysicalDevice, ...]:
    """Return the devices of an instance, best first, or say that there are none."""
    try:
        handles = runtime.enumerate_all(
            owner.functions.vkEnumeratePhysicalDevices,
            owner.handle,
            struct=ctypes.c_void_p,
        )
    except VulkanError as error:
        # What the loader says when no driver finds its hardware.
        if error.result != vk.VK_ERROR_INITIALIZATION_FAILED:
            raise
        raise no_driver(str(error)) from error
    if not handles:
        raise no_driver("vkEnumeratePhysicalDevices: no device")
    rows = [PhysicalDevice(owner, handle) for handle in handles]
    return list_cards(rows)


def list_cards(rows: Sequence[PhysicalDevice]) -> tuple[PhysicalDevice, ...]:
    """Return one device of each card, best first, with a name of its own."""
    found = cards.group_by_card(rows)
    found.sort(key=lambda card: card[0].score(), reverse=True)
    chosen = [card[0] for card in found]
    names = cards.unique_names([row.info for row in chosen])
    for name, (row, *others) in zip(names, found, strict=True):
        row.name, row.others = name, tuple(others)
    return tuple(chosen)


def choose(selector: str | int | None = None) -> PhysicalDevice:
    """Return the device that a selector means.

    Parameters
    ----------
    selector : str or int, optional
        An index into `devices()`, or part of a name in any case, which has the PCI
        address where several devices have the same. None means
        `VKBACKEND_DEVICE`, or the best device when that is unset.

    Returns
    -------
    PhysicalDevice
        The first that matches.

    Raises
    ------
    ArgumentError
        If the selector is neither a name nor a whole number.
    NoVulkanError
        If none matches, or the one that does lacks something required.
    """
    if selector is None:
        selector = config.DEVICE.read() or 0
    if not hasattr(selector, "__index__") and not isinstance(selector, str):
        raise ArgumentError(
            f"open_device: selector is {selector!r}; it must be part of a device's"
            " name, or its number"
        )
    rows = devices()
    chosen = _match(rows, selector)
    if chosen is None:
        listed = ", ".join(f"{row.name!r} ({i})" for i, row in enumerate(rows))
        there = "is only" if len(rows) == 1 else "are"
        raise NoVulkanError(
            f"open_device: no device matches {selector!r}: there {there} {listed}; give"
            f" part of a name, or the number"
        )
    lacking = chosen.missing()
    if lacking:
        raise NoVulkanError(
            f"open_device: {chosen.name} cannot be used: it lacks"
            f" {', '.join(lacking)}; choose another device or update its driver"
        )
    return chosen


def _match(
    rows: tuple[PhysicalDevice, ...], selector: str | int
) -> PhysicalDevice | None:
    if isinstance(selector, str) and not selector.isdecimal():
        wanted = selector.lower()
        return next((row for row in rows if wanted in row.name.lower()), None)
    index = int(selector)
    return rows[index] if 0 <= index < len(rows) else None
