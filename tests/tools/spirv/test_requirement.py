import pytest

import vkbackend
from vkbackend.tools.spirv.requirement import (
    DeviceSupport,
    Requirement,
    of_capability,
    of_extension,
)


def test_features_of_the_library() -> None:
    assert of_capability(11, None) == Requirement(
        "Int64", "VkPhysicalDeviceFeatures2.shaderInt64", None
    )
    assert of_capability(1, None).needs == "Vulkan"
    assert of_capability(6022, None).needs.endswith(".cooperativeMatrix")


def test_others() -> None:
    assert of_capability(65, None).needs.endswith(
        "subgroupSupportedOperations: SHUFFLE"
    )
    assert of_capability(54321, None) == Requirement("54321", "", None)
    assert of_extension("SPV_KHR_16bit_storage", None).needs == "Vulkan 1.3"
    assert of_extension("SPV_KHR_bfloat16", None).needs == "VK_KHR_shader_bfloat16"
    assert of_extension("SPV_FOO_bar", None) == Requirement("SPV_FOO_bar", "", None)


@pytest.mark.device
def test_a_device(device: vkbackend.Device) -> None:
    has = DeviceSupport(device.info, device.physical.extensions)
    assert of_capability(1, has).present
    assert of_capability(5347, has).present
    assert of_capability(11, has).present == device.info.shader_int64
    assert of_capability(65, has).present == device.info.subgroup_shuffle
    assert of_capability(54321, has).present is None
    assert of_extension("SPV_KHR_physical_storage_buffer", has).present
    matrices = "VK_KHR_cooperative_matrix" in device.physical.extensions
    assert of_extension("SPV_KHR_cooperative_matrix", has).present == matrices
