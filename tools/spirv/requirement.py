"""Device requirements of SPIR-V capabilities and extensions.

Which SPIR-V capability needs which feature is in Vulkan's appendix "Vulkan Environment
for SPIR-V"; those that the library uses are in `vkbackend.driver.features`.
"""

from dataclasses import dataclass

from vkbackend.driver.device_info import DeviceInfo
from vkbackend.driver.features import FEATURES

from . import instruction

_OPERATIONS = "VkPhysicalDeviceVulkan11Properties.subgroupSupportedOperations"
_V11 = "VkPhysicalDeviceVulkan11Features"
_V12 = "VkPhysicalDeviceVulkan12Features"
_CORE = "VkPhysicalDeviceFeatures"

# Capabilities that every Vulkan 1.3 device has.
_ALWAYS = ("Shader", "Matrix", "GroupNonUniform", "ImageQuery", "Sampled1D")

# Those that no row of `features.FEATURES` tells.
_NEEDS = {
    "GroupNonUniformVote": f"{_OPERATIONS}: VOTE",
    "GroupNonUniformArithmetic": f"{_OPERATIONS}: ARITHMETIC",
    "GroupNonUniformBallot": f"{_OPERATIONS}: BALLOT",
    "GroupNonUniformShuffle": f"{_OPERATIONS}: SHUFFLE",
    "GroupNonUniformShuffleRelative": f"{_OPERATIONS}: SHUFFLE_RELATIVE",
    "GroupNonUniformClustered": f"{_OPERATIONS}: CLUSTERED",
    "GroupNonUniformQuad": f"{_OPERATIONS}: QUAD",
    "GroupNonUniformRotateKHR": "VK_KHR_shader_subgroup_rotate",
    "UniformAndStorageBuffer16BitAccess": (
        f"{_V11}.uniformAndStorageBuffer16BitAccess"
    ),
    "StoragePushConstant16": f"{_V11}.storagePushConstant16",
    "UniformAndStorageBuffer8BitAccess": f"{_V12}.uniformAndStorageBuffer8BitAccess",
    "StoragePushConstant8": f"{_V12}.storagePushConstant8",
    "VariablePointers": f"{_V11}.variablePointers",
    "VariablePointersStorageBuffer": f"{_V11}.variablePointersStorageBuffer",
    "Int64Atomics": f"{_V12}.shaderBufferInt64Atomics",
    "RuntimeDescriptorArray": f"{_V12}.runtimeDescriptorArray",
    "AtomicFloat64AddEXT": "VK_EXT_shader_atomic_float",
    "AtomicFloat16AddEXT": "VK_EXT_shader_atomic_float2",
    "AtomicFloat32MinMaxEXT": "VK_EXT_shader_atomic_float2",
    "DotProductInput4x8Bit": "Vulkan 1.3: shaderIntegerDotProduct",
    "DotProductInput4x8BitPacked": "Vulkan 1.3: shaderIntegerDotProduct",
    "DotProductInputAll": "Vulkan 1.3: shaderIntegerDotProduct",
    "ShaderClockKHR": "VK_KHR_shader_clock",
    "ShaderNonUniform": f"{_V12}.shader*ArrayNonUniformIndexing",
    "DenormFlushToZero": "VkPhysicalDeviceVulkan12Properties.shaderDenormFlushToZero*",
    "DenormPreserve": "VkPhysicalDeviceVulkan12Properties.shaderDenormPreserve*",
    "RoundingModeRTE": "VkPhysicalDeviceVulkan12Properties.shaderRoundingModeRTE*",
    "SignedZeroInfNanPreserve": (
        "VkPhysicalDeviceVulkan12Properties.shaderSignedZeroInfNanPreserve*"
    ),
    "WorkgroupMemoryExplicitLayoutKHR": "VK_KHR_workgroup_memory_explicit_layout",
    "CooperativeVectorNV": "VK_NV_cooperative_vector",
    "TensorAddressingNV": "VK_NV_cooperative_matrix2",
    "StorageImageExtendedFormats": f"{_CORE}.shaderStorageImageExtendedFormats",
}
# Flags of `DeviceInfo` that answer for a group of subgroup operations.
_SUBGROUP_FLAGS = {
    "GroupNonUniformArithmetic": "subgroup_arithmetic",
    "GroupNonUniformShuffle": "subgroup_shuffle",
}

# SPIR-V extensions that are part of Vulkan 1.3, and the device extensions of others.
_PART_OF_VULKAN = (
    *("SPV_KHR_physical_storage_buffer", "SPV_KHR_vulkan_memory_model"),
    *("SPV_KHR_16bit_storage", "SPV_KHR_8bit_storage", "SPV_KHR_float_controls"),
    *("SPV_KHR_non_semantic_info", "SPV_KHR_integer_dot_product"),
    *("SPV_KHR_storage_buffer_storage_class", "SPV_EXT_descriptor_indexing"),
    *("SPV_KHR_variable_pointers", "SPV_KHR_terminate_invocation"),
    *("SPV_KHR_shader_ballot", "SPV_KHR_subgroup_vote"),
)
_DEVICE_EXTENSIONS = {
    "SPV_KHR_cooperative_matrix": "VK_KHR_cooperative_matrix",
    "SPV_NV_cooperative_matrix": "VK_NV_cooperative_matrix",
    "SPV_NV_cooperative_matrix2": "VK_NV_cooperative_matrix2",
    "SPV_NV_cooperative_vector": "VK_NV_cooperative_vector",
    "SPV_NV_tensor_addressing": "VK_NV_cooperative_matrix2",
    "SPV_KHR_bfloat16": "VK_KHR_shader_bfloat16",
    "SPV_EXT_float8": "VK_EXT_shader_float8",
    "SPV_EXT_shader_atomic_float_add": "VK_EXT_shader_atomic_float",
    "SPV_EXT_shader_atomic_float_min_max": "VK_EXT_shader_atomic_float2",
    "SPV_EXT_shader_atomic_float16_add": "VK_EXT_shader_atomic_float2",
    "SPV_KHR_shader_clock": "VK_KHR_shader_clock",
    "SPV_KHR_subgroup_rotate": "VK_KHR_shader_subgroup_rotate",
    "SPV_KHR_expect_assume": "VK_KHR_shader_expect_assume",
    "SPV_KHR_maximal_reconvergence": "VK_KHR_shader_maximal_reconvergence",
    "SPV_KHR_workgroup_memory_explicit_layout": (
        "VK_KHR_workgroup_memory_explicit_layout"
    ),
}


@dataclass(frozen=True)
class Requirement:
    """Requirement of one declaration.

    Attributes
    ----------
    name : str
        The capability, or the SPIR-V extension.
    needs : str
        The Vulkan feature, property or extension; empty if it is not known here.
    present : bool or None
        Whether the device has it; None without a device, or if it cannot be told.
    """

    name: str
    needs: str
    present: bool | None


@dataclass(frozen=True)
class DeviceSupport:
    """Features and extensions of a device."""

    info: DeviceInfo
    extensions: frozenset[str]


def of_capability(number: int, has: DeviceSupport | None) -> Requirement:
    """Return what a capability asks for."""
    name = instruction.enumerant("Capability", number)
    for row in FEATURES:
        if row.capability == number:
            present = None if has is None else row.flag in has.info.supported
            return Requirement(name, f"{row.struct}.{row.member}", present)
    if name in _ALWAYS:
        return Requirement(name, "Vulkan", None if has is None else True)
    needs = _NEEDS.get(name, "")
    if has is None:
        return Requirement(name, needs, None)
    if name in _SUBGROUP_FLAGS:
        return Requirement(name, needs, bool(getattr(has.info, _SUBGROUP_FLAGS[name])))
    present = needs in has.extensions if needs.startswith("VK_") else None
    return Requirement(name, needs, present)


def of_extension(name: str, has: DeviceSupport | None) -> Requirement:
    """Return what a SPIR-V extension asks for."""
    if name in _PART_OF_VULKAN:
        return Requirement(name, "Vulkan 1.3", None if has is None else True)
    needs = _DEVICE_EXTENSIONS.get(name, "")
    present = None if has is None or not needs else needs in has.extensions
    return Requirement(name, needs, present)
