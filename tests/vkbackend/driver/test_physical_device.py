"""Choosing a physical device; what is recorded about it."""

import ctypes
import dataclasses
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

import vkbackend
from vkbackend import config
from vkbackend.driver import physical_device
from vkbackend.driver.device_info import DeviceInfo, FlexibleMatrix
from vkbackend.driver.physical_device import choose, devices
from vkbackend.errors import ArgumentError, NoVulkanError, VulkanError
from vkbackend.vk import generated as vk


class Pretended:
    """A physical device that exists only by name."""

    def __init__(self, info: DeviceInfo, lacking: tuple[str, ...] = ()) -> None:
        self.info = info
        self.name = info.name
        self.lacking = lacking

    def missing(self) -> list[str]:
        return list(self.lacking)


@pytest.fixture
def pretended(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> tuple[Pretended, ...]:
    names = (("Big GPU", ()), ("Small GPU", ()), ("Old GPU", ("timeline_semaphore",)))
    rows = tuple(
        Pretended(dataclasses.replace(device.info, name=name), lacking)
        for name, lacking in names
    )
    monkeypatch.setattr(physical_device, "devices", lambda: rows)
    monkeypatch.delenv(config.DEVICE.name, raising=False)
    return rows


@pytest.mark.parametrize(
    ("selector", "index"),
    [(None, 0), (0, 0), (1, 1), ("1", 1), ("small", 1), ("GPU", 0), ("BIG", 0)],
)
def test_choose(
    pretended: tuple[Pretended, ...], selector: str | int | None, index: int
) -> None:
    assert choose(selector).info is pretended[index].info


def test_choose_by_environment(
    pretended: tuple[Pretended, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(config.DEVICE.name, "small")
    assert choose().info is pretended[1].info


@pytest.mark.parametrize("selector", ["radeon", 3, -1, "7"])
def test_choose_lists_what_is_there(
    pretended: tuple[Pretended, ...], selector: str | int
) -> None:
    with pytest.raises(
        NoVulkanError,
        match=r"there are 'Big GPU' \(0\), 'Small GPU' \(1\), 'Old GPU' \(2\); give",
    ):
        choose(selector)


@pytest.mark.parametrize("selector", [float("inf"), 0.0, [0], b"llvmpipe"])
def test_choose_refuses_what_names_nothing(
    selector: Any, pretended: tuple[Pretended, ...]
) -> None:
    with pytest.raises(ArgumentError, match=r"^open_device: selector is "):
        choose(selector)


def test_choose_takes_no_other_digits(pretended: tuple[Pretended, ...]) -> None:
    with pytest.raises(NoVulkanError, match=r"^open_device: no device matches"):
        choose("\u00b2")


def test_choose_refuses_what_lacks_something(pretended: tuple[Pretended, ...]) -> None:
    with pytest.raises(NoVulkanError, match=r"Old GPU.*lacks timeline_semaphore"):
        choose("old")


@pytest.mark.core
def test_devices_are_usable_first() -> None:
    rows = devices()
    assert rows is devices()
    assert rows[0].missing() == []
    assert [bool(row.missing()) for row in rows] == sorted(
        bool(row.missing()) for row in rows
    )


@pytest.mark.core
def test_info_is_plausible(device: vkbackend.Device) -> None:
    info = device.info
    assert info.name
    assert info.kind in ("discrete", "integrated", "virtual", "software", "other")
    assert info.api_version >= (1, 3, 0)
    assert info.max_push_size >= 128
    assert info.max_shared_memory >= 16384
    assert info.max_workgroup_invocations >= 128
    assert min(info.max_workgroup_count) >= 65535
    assert info.subgroup_size >= 1
    assert info.min_subgroup_size <= info.subgroup_size <= info.max_subgroup_size
    assert any(heap.device_local and heap.size > 0 for heap in info.heaps)
    assert len(info.pipeline_cache_uuid) == len(info.uuid) == 32
    assert all(shape.m and shape.a for shape in info.cooperative_matrix)
    assert info.shader_int64 == ("shader_int64" in info.supported)


@pytest.mark.device
def test_info_never_changes(device: vkbackend.Device) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        device.info.name = "other"  # type: ignore[misc]
    assert hash(device.info) == hash(dataclasses.replace(device.info))


@pytest.mark.core
def test_score_prefers_what_is_usable(device: vkbackend.Device) -> None:
    scores = [row.score() for row in devices()]
    assert scores == sorted(scores, reverse=True)
    assert (device.physical.score() == 1) == (device.info.kind == "software")


@pytest.mark.device
def test_no_hardware_is_no_driver(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = VulkanError("call: failed", vk.VK_ERROR_INITIALIZATION_FAILED)
    monkeypatch.setattr(
        physical_device.runtime, "enumerate_all", Mock(side_effect=failed)
    )
    with pytest.raises(NoVulkanError, match=r"call: failed: .* no driver offers"):
        physical_device.enumerate_devices(device.physical.instance)


def asked_for_flexible(supported: set[str], listed: object) -> tuple[Any, ...]:
    """Return what is recorded of a made-up driver that lists matrices as given."""

    def properties(_: int, head: Any) -> None:
        own = vk.VkPhysicalDeviceCooperativeMatrix2PropertiesNV
        limits = ctypes.cast(head._obj.pNext, ctypes.POINTER(own)).contents
        limits.cooperativeMatrixFlexibleDimensionsMaxDimension = 1024

    functions = SimpleNamespace(vkGetPhysicalDeviceProperties2=properties)
    if listed is not None:
        setattr(functions, physical_device._FLEXIBLE, listed)
    else:

        class Old:
            """A loader that does not pass the command on."""

            def __getattr__(self, name: str) -> object:
                raise VulkanError(f"{name}: the instance does not have this command")

        functions = Old()  # type: ignore[assignment]
    row = SimpleNamespace(handle=1, instance=SimpleNamespace(functions=functions))
    read = physical_device.PhysicalDevice._read_flexible
    return read(row, frozenset(supported))  # type: ignore[arg-type]


def test_matrices_of_sizes_that_a_shader_chooses() -> None:
    def listed(_: int, count: Any, rows: Any) -> int:
        count._obj.value = 1
        if rows is not None:
            row = rows[0]
            row.MGranularity, row.NGranularity, row.KGranularity = 32, 16, 8
            row.AType = row.BType = vk.VK_COMPONENT_TYPE_BFLOAT16_KHR
            row.CType = row.ResultType = vk.VK_COMPONENT_TYPE_FLOAT32_KHR
            row.scope = vk.VK_SCOPE_WORKGROUP_KHR
            row.workgroupInvocations = 256
        return vk.VK_SUCCESS

    flags = {"matrix_flexible_dimensions"}
    types = ("bfloat16", "bfloat16", "float32", "float32")
    wanted = FlexibleMatrix(32, 16, 8, *types, "workgroup", False, 256, 1024)
    assert asked_for_flexible(flags, listed) == (wanted,)
    assert asked_for_flexible(set(), listed) == ()
    assert asked_for_flexible(flags, None) == ()


@pytest.mark.device
def test_only_devices_with_the_feature_list_them(device: vkbackend.Device) -> None:
    info = device.info
    offered = "matrix_flexible_dimensions" in info.supported
    assert offered or info.flexible_matrix == ()
