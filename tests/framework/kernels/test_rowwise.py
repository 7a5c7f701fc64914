"""Which rows are held in registers, and by how many invocations."""

import dataclasses

import pytest

import vkbackend.framework as fw
from vkbackend import Device, DeviceInfo
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float16, float32, float64
from vkbackend.framework.kernels import rowwise
from vkbackend.framework.kernels.rowwise import (
    FUSED,
    SPLIT,
    least_quads,
    row_composition,
    row_tile,
    row_tiles,
)


@pytest.fixture
def gpu(device: Device) -> DeviceInfo:
    """Return a description of a device like an H200, whatever this one is."""
    return dataclasses.replace(
        device.info,
        kind="discrete",
        subgroup_size=32,
        subgroup_arithmetic=True,
        max_workgroup_invocations=1024,
    )


@pytest.mark.parametrize(
    ("count", "group", "kept"),
    [
        (128, 32, 1),
        (768, 32, 6),
        (4096, 256, 4),
        (8192, 512, 4),
        (16384, 1024, 4),
        (50257, 512, 25),
    ],
)
def test_what_was_measured_to_be_best(
    gpu: DeviceInfo, count: int, group: int, kept: int
) -> None:
    tile = row_tile(gpu, float32, count)
    assert tile is not None
    assert (tile.group, tile.kept) == (group, kept)


@pytest.mark.parametrize(
    ("count", "wide", "narrow"),
    [
        (1024, (128, 2), (32, 8)),
        (4096, (512, 2), (128, 8)),
        (8192, (1024, 2), (128, 16)),
        (16384, (1024, 4), (256, 16)),
    ],
)
def test_rows_of_two_bytes_leave_more_to_each(
    gpu: DeviceInfo, count: int, wide: tuple[int, int], narrow: tuple[int, int]
) -> None:
    for dtype, wanted in ((float32, wide), (float16, narrow)):
        least = least_quads(dtype, count, 2)
        tile = row_tile(gpu, dtype, count, least=least)
        assert tile is not None
        assert (tile.group, tile.kept) == wanted


@pytest.mark.parametrize("count", [128, 129, 131, 257, 1021, 4099, 50257])
@pytest.mark.parametrize("held", [1, 2, 5])
def test_every_element_is_held(gpu: DeviceInfo, count: int, held: int) -> None:
    tile = row_tile(gpu, float16, count, held)
    if tile is None:
        assert count * held > 50_000
        return
    before = 3 if count % 4 else 0
    assert 4 * tile.group * tile.kept >= count + before
    assert (tile.ends == 2) == (count % 4 != 0)
    assert (tile.ends == 0) == (count == 4 * tile.group * tile.kept)
    assert tile.constants["LOCAL_X"] % gpu.subgroup_size == 0
    assert 128 <= tile.constants["LOCAL_X"] <= 1024


def test_what_is_not_held(gpu: DeviceInfo) -> None:
    assert row_tile(gpu, float32, 64) is None
    assert row_tile(gpu, float32, 60_000) is None
    assert row_tile(gpu, float64, 4096) is None
    assert row_tile(dataclasses.replace(gpu, kind="software"), float32, 4096) is None
    without = dataclasses.replace(gpu, subgroup_arithmetic=False)
    assert row_tile(without, float32, 4096) is None


def test_a_small_workgroup_holds_less(gpu: DeviceInfo) -> None:
    small = dataclasses.replace(gpu, max_workgroup_invocations=128)
    tile = row_tile(small, float32, 4096)
    assert tile is not None
    assert tile.group == 128


def test_rows_are_covered(gpu: DeviceInfo) -> None:
    tile = row_tile(gpu, float32, 128)
    assert tile is not None
    assert tile.grid(1001)[0] * tile.per_workgroup >= 1001


@pytest.mark.parametrize("count", [768, 4099, 16384])
@pytest.mark.parametrize("held", [1, 2])
def test_the_usual_tile_is_one_of_those_to_choose_from(
    gpu: DeviceInfo, count: int, held: int
) -> None:
    found = row_tiles(gpu, float32, count, held)
    assert row_tile(gpu, float32, count, held, 4 // held) in found.values()
    assert len(found) > 1
    assert row_tiles(gpu, float64, count) == {}


@pytest.mark.parametrize(
    ("shape", "dim", "eager", "traced"),
    [
        ((1 << 14, 64), -1, "", FUSED),  # short rows, few elements
        ((1 << 16, 64), -1, FUSED, FUSED),
        ((1 << 12, 1024), -1, "", ""),  # rows that registers hold
        ((64, 1 << 15), 1, "", ""),
        ((1, 1 << 16), 1, SPLIT, SPLIT),  # rows that are too long for them
        ((1 << 6, 1 << 16), -1, SPLIT, SPLIT),
        ((256, 1 << 14), 0, "", ""),  # short strided rows
        ((1024, 1 << 12), 0, SPLIT, SPLIT),
    ],
)
def test_composed_rows_of_a_gpu(
    shape: tuple[int, int],
    dim: int,
    eager: str,
    traced: str,
    device: Device,
    gpu: DeviceInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = fw.device("gpu")
    assert isinstance(place, GpuDevice)
    x = fw.empty(shape, device=place)
    software = place.gpu.info.target.prefers_composition
    assert not software or row_composition(x, dim) != SPLIT
    monkeypatch.setattr(place.gpu, "info", gpu)
    assert row_composition(x, dim) == eager
    monkeypatch.setattr(rowwise.trace_hooks, "running", True)
    assert row_composition(x, dim) == traced
