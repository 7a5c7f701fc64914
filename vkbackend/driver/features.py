"""Optional device features: one table for querying, recording and enabling them.

Each row of `FEATURES` names the `DeviceInfo` flag, the Vulkan structure and member that
carry it, and the extension that brings it. What is supported and listed is enabled;
nothing else is.
"""

import ctypes
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from vkbackend.vk import generated as vk
from vkbackend.vk import runtime

VULKAN_VERSION = (1, 3)
"""The version that the library is written against, and the oldest it accepts."""


@dataclass(frozen=True)
class Feature:
    """Feature bit of a device.

    Parameters
    ----------
    flag : str
        Name under which `DeviceInfo` and error messages know it.
    struct : str
        The feature structure, with Vulkan's name.
    member : str
        The member of the structure.
    extension : str, default ""
        Extension that brings the structure; empty means Vulkan 1.3 itself.
    capability : int, default 0
        The SPIR-V capability of shaders that need the feature.
    """

    flag: str
    struct: str
    member: str
    extension: str = ""
    capability: int = 0

    def exists(self, version: tuple[int, ...], extensions: Collection[str]) -> bool:
        """Return whether a device may be asked about it."""
        if self.extension:
            return self.extension in extensions
        return version[:2] >= VULKAN_VERSION


_CORE = "VkPhysicalDeviceFeatures2"
_V11 = "VkPhysicalDeviceVulkan11Features"
_V12 = "VkPhysicalDeviceVulkan12Features"
_V13 = "VkPhysicalDeviceVulkan13Features"
_ATOMIC = "VkPhysicalDeviceShaderAtomicFloatFeaturesEXT"
_MATRIX = "VkPhysicalDeviceCooperativeMatrixFeaturesKHR"
_MATRIX2 = "VkPhysicalDeviceCooperativeMatrix2FeaturesNV"
_BFLOAT16 = "VkPhysicalDeviceShaderBfloat16FeaturesKHR"

_STATISTICS = "VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR"

_EXT_ATOMIC = "VK_EXT_shader_atomic_float"
_EXT_MATRIX = "VK_KHR_cooperative_matrix"
_EXT_MATRIX2 = "VK_NV_cooperative_matrix2"
_EXT_BFLOAT16 = "VK_KHR_shader_bfloat16"
_EXT_STATISTICS = "VK_KHR_pipeline_executable_properties"

FEATURES = (
    Feature("buffer_device_address", _V12, "bufferDeviceAddress", capability=5347),
    Feature("timeline_semaphore", _V12, "timelineSemaphore"),
    Feature("synchronization2", _V13, "synchronization2"),
    Feature("shader_int64", _CORE, "shaderInt64", capability=11),
    Feature("shader_int16", _CORE, "shaderInt16", capability=22),
    Feature("shader_float64", _CORE, "shaderFloat64", capability=10),
    Feature("storage_16bit", _V11, "storageBuffer16BitAccess", capability=4433),
    Feature("storage_8bit", _V12, "storageBuffer8BitAccess", capability=4448),
    Feature("shader_float16", _V12, "shaderFloat16", capability=9),
    Feature("shader_int8", _V12, "shaderInt8", capability=39),
    Feature("push_constant_16bit", _V11, "storagePushConstant16", capability=4435),
    Feature("push_constant_8bit", _V12, "storagePushConstant8", capability=4450),
    Feature("buffer_int64_atomics", _V12, "shaderBufferInt64Atomics", capability=12),
    Feature("scalar_block_layout", _V12, "scalarBlockLayout"),
    Feature("vulkan_memory_model", _V12, "vulkanMemoryModel", capability=5345),
    Feature(
        "device_scope_memory_model",
        _V12,
        "vulkanMemoryModelDeviceScope",
        capability=5346,
    ),
    Feature("subgroup_extended_types", _V12, "shaderSubgroupExtendedTypes"),
    Feature("host_query_reset", _V12, "hostQueryReset"),
    Feature("subgroup_size_control", _V13, "subgroupSizeControl"),
    Feature("full_subgroups", _V13, "computeFullSubgroups"),
    Feature("integer_dot_product", _V13, "shaderIntegerDotProduct", capability=6019),
    Feature("maintenance4", _V13, "maintenance4"),
    # Costs nothing until a pipeline is built to be looked into, as vkspirv does.
    Feature(
        "pipeline_statistics", _STATISTICS, "pipelineExecutableInfo", _EXT_STATISTICS
    ),
    Feature(
        "float32_atomic_add",
        _ATOMIC,
        "shaderBufferFloat32AtomicAdd",
        _EXT_ATOMIC,
        capability=6033,
    ),
    Feature(
        "shared_float32_atomic_add",
        _ATOMIC,
        "shaderSharedFloat32AtomicAdd",
        _EXT_ATOMIC,
    ),
    Feature(
        "bfloat16",
        _BFLOAT16,
        "shaderBFloat16Type",
        _EXT_BFLOAT16,
        capability=5116,
    ),
    Feature(
        "bfloat16_cooperative_matrix",
        _BFLOAT16,
        "shaderBFloat16CooperativeMatrix",
        _EXT_BFLOAT16,
        capability=5118,
    ),
    Feature(
        "cooperative_matrices",
        _MATRIX,
        "cooperativeMatrix",
        _EXT_MATRIX,
        capability=6022,
    ),
    Feature(
        "matrix_workgroup_scope",
        _MATRIX2,
        "cooperativeMatrixWorkgroupScope",
        _EXT_MATRIX2,
    ),
    Feature(
        "matrix_flexible_dimensions",
        _MATRIX2,
        "cooperativeMatrixFlexibleDimensions",
        _EXT_MATRIX2,
    ),
    Feature(
        "matrix_reductions",
        _MATRIX2,
        "cooperativeMatrixReductions",
        _EXT_MATRIX2,
        capability=5430,
    ),
    Feature(
        "matrix_conversions",
        _MATRIX2,
        "cooperativeMatrixConversions",
        _EXT_MATRIX2,
        capability=5431,
    ),
    Feature(
        "matrix_per_element",
        _MATRIX2,
        "cooperativeMatrixPerElementOperations",
        _EXT_MATRIX2,
        capability=5432,
    ),
    Feature(
        "matrix_tensor_addressing",
        _MATRIX2,
        "cooperativeMatrixTensorAddressing",
        _EXT_MATRIX2,
        capability=5433,
    ),
    Feature(
        "matrix_block_loads",
        _MATRIX2,
        "cooperativeMatrixBlockLoads",
        _EXT_MATRIX2,
        capability=5434,
    ),
)

# SPIR-V's Matrix, Shader and what Vulkan 1.3 has without a feature: images, which no
# kernel can reach, DeviceGroup, and controls that a driver may ignore (float controls).
_WITHOUT_FEATURE = frozenset(
    {0, 1, 40, 43, 44, 46, 47, 50, 51, 4437, *range(4464, 4469)}
)

# Capabilities beside the one that a row of `FEATURES` names.
_SAME_FEATURE = {6016: 6019, 6017: 6019, 6018: 6019, 5439: 5433}

# GroupNonUniform and its kinds, in the order of the bits of `VkSubgroupFeatureFlags`.
_SUBGROUP = {
    61: "basic",
    62: "vote",
    63: "arithmetic",
    64: "ballot",
    65: "shuffle",
    66: "shuffle_relative",
    67: "clustered",
    68: "quad",
}

# Extensions without a feature bit that are enabled wherever they are offered.
PLAIN_EXTENSIONS = (
    "VK_EXT_memory_budget",
    "VK_EXT_external_memory_host",
    "VK_KHR_external_memory_fd",
    "VK_KHR_portability_subset",
)


def _known(version: tuple[int, ...], extensions: Collection[str]) -> list[Feature]:
    return [row for row in FEATURES if row.exists(version, extensions)]


def _structs(rows: list[Feature]) -> dict[str, ctypes.Structure]:
    """Return one linked feature structure for each name that occurs in `rows`."""
    names = dict.fromkeys([_CORE, *(row.struct for row in rows)])
    structs = {name: runtime.make(getattr(vk, name)) for name in names}
    runtime.chain(*structs.values())
    return structs


def _member_struct(
    structs: Mapping[str, ctypes.Structure], row: Feature
) -> ctypes.Structure:
    struct = structs[row.struct]
    return struct.features if row.struct == _CORE else struct


def supported(
    functions: runtime.Functions,
    physical: int,
    version: tuple[int, ...],
    extensions: Collection[str],
) -> frozenset[str]:
    """Return the flags of `FEATURES` that a physical device supports."""
    rows = _known(version, extensions)
    structs = _structs(rows)
    functions.vkGetPhysicalDeviceFeatures2(physical, ctypes.byref(structs[_CORE]))
    return frozenset(
        row.flag for row in rows if getattr(_member_struct(structs, row), row.member)
    )


def feature_chain(
    flags: Collection[str], version: tuple[int, ...], extensions: Collection[str]
) -> tuple[ctypes.Structure, list[str]]:
    """Return what `vkCreateDevice` takes to enable the features `flags`.

    Returns
    -------
    tuple of Structure and list of str
        The feature chain for `pNext`, and the device extensions to enable.
    """
    rows = [row for row in _known(version, extensions) if row.flag in flags]
    structs = _structs(rows)
    for row in rows:
        setattr(_member_struct(structs, row), row.member, vk.VK_TRUE)
    names = dict.fromkeys(row.extension for row in rows if row.extension)
    names.update(dict.fromkeys(name for name in PLAIN_EXTENSIONS if name in extensions))
    return structs[_CORE], list(names)


def missing_features(
    capabilities: Collection[int],
    flags: Collection[str],
    subgroup_operations: int = ~0,
) -> list[str]:
    """Return the features that a shader needs and a device with `flags` lacks.

    Parameters
    ----------
    capabilities : collection of int
        SPIR-V capabilities that the shader declares.
    flags : collection of str
        What the device supports.
    subgroup_operations : int, default all
        `VkSubgroupFeatureFlags` of the device.

    Returns
    -------
    list of str
        Names of features; capabilities that no feature of the library enables by their
        number.
    """
    rows = {row.capability: row.flag for row in FEATURES if row.capability}
    found = []
    for capability in dict.fromkeys(_SAME_FEATURE.get(n, n) for n in capabilities):
        if capability in _SUBGROUP:
            if not subgroup_operations >> list(_SUBGROUP).index(capability) & 1:
                found.append(f"subgroup_{_SUBGROUP[capability]}")
        elif capability in rows:
            if rows[capability] not in flags:
                found.append(rows[capability])
        elif capability not in _WITHOUT_FEATURE:
            found.append(f"SPIR-V capability {capability}")
    return found
