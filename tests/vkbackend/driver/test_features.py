"""The feature table: names, what is asked, what a shader lacks."""

import pytest

import vkbackend
from vkbackend.driver import features
from vkbackend.driver.features import FEATURES, feature_chain, missing_features
from vkbackend.vk import generated as vk


@pytest.mark.parametrize("row", FEATURES, ids=lambda row: row.flag)
def test_rows_name_real_members(row: features.Feature) -> None:
    struct = getattr(vk, row.struct)
    members = {name for name, *_ in struct._fields_}
    if "features" in members:
        members = {name for name, *_ in vk.VkPhysicalDeviceFeatures._fields_}
    assert row.member in members
    assert not row.extension or row.extension in vk.EXTENSIONS


def test_flags_and_capabilities_are_unique() -> None:
    flags = [row.flag for row in FEATURES]
    assert len(set(flags)) == len(flags)
    capabilities = [row.capability for row in FEATURES if row.capability]
    assert len(set(capabilities)) == len(capabilities)


def test_only_the_asked_is_enabled() -> None:
    chain, extensions = feature_chain(
        {"shader_int64", "float32_atomic_add"},
        (1, 3, 0),
        {"VK_EXT_shader_atomic_float", "VK_EXT_memory_budget", "VK_EXT_other"},
    )
    assert isinstance(chain, vk.VkPhysicalDeviceFeatures2)
    assert chain.features.shaderInt64 == 1
    assert chain.features.shaderFloat64 == 0
    assert extensions == ["VK_EXT_shader_atomic_float", "VK_EXT_memory_budget"]


def test_lacking_names_the_feature() -> None:
    int64, float16, shader = 11, 9, 1
    assert missing_features((shader, int64, float16), {"shader_float16"}) == [
        "shader_int64"
    ]


@pytest.mark.core
def test_required_features_are_supported(device: vkbackend.Device) -> None:
    assert {"buffer_device_address", "timeline_semaphore", "synchronization2"} <= (
        device.info.supported
    )
