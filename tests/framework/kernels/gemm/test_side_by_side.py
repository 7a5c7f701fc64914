"""GEMMs of a batch that shares its left operand, columns side by side."""

from collections.abc import Iterator

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.convolutions import check, on_any_device
from tests.framework.ops.large import relative_error
from tests.hardware import skip_where_it_crashes
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.kernels.conv import pointwise
from vkbackend.framework.kernels.gemm.cost_model import tile_configs
from vkbackend.framework.kernels.gemm.side_by_side import merged_config
from vkbackend.framework.kernels.gemm.tiles import (
    SIMT,
    TENSOR_CORES,
    GemmSize,
    TileConfig,
)

pytestmark = pytest.mark.core

PASSES = ("forward", "input_vjp", "weight_vjp")


@pytest.fixture
def taken(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, list[str]]]:
    skip_where_it_crashes(device.info)
    yield from on_any_device(monkeypatch, pointwise, *PASSES)


def force(monkeypatch: pytest.MonkeyPatch, splits: int, tile: int = 0) -> None:
    """Take such GEMMs wherever the kernel does, with up to so many slices of K."""

    def merged(
        gpu: vkbackend.DeviceInfo, mode: str, sizes: GemmSize
    ) -> tuple[TileConfig, float]:
        whole = GemmSize(sizes.m, sizes.n * sizes.batch, sizes.k)
        found = tile_configs(gpu, mode, whole, max_splits=4)
        tiles = list(dict.fromkeys(config.tile for config in found))
        chosen = tiles[tile % len(tiles)]
        of_tile = [each for each in found if each.tile == chosen]
        most = max(each.splits for each in of_tile if each.splits <= splits)
        return next((each, 0.0) for each in of_tile if each.splits == most)

    def summed(
        gpu: vkbackend.DeviceInfo, mode: str, sizes: GemmSize
    ) -> tuple[TileConfig, float]:
        return merged(gpu, mode, GemmSize(sizes.m, sizes.n, sizes.k * sizes.batch))

    monkeypatch.setattr(pointwise, "merged_config", merged)
    monkeypatch.setattr(pointwise, "summed_config", summed)


# Images whose pixels are no whole tiles, and fewer than a tile; the depth of the last
# is no whole step.
@pytest.mark.parametrize(
    ("images", "channels", "filters", "edges", "tile", "bias"),
    [
        (3, 64, 80, (14, 14), 0, True),
        (16, 64, 80, (6, 6), 1, False),
        (7, 72, 136, (10, 14), 2, True),
    ],
)
def test_result_and_gradients(
    images: int,
    channels: int,
    filters: int,
    edges: tuple[int, int],
    tile: int,
    bias: bool,
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    force(monkeypatch, 1, tile)
    shapes = ((images, channels, *edges), (filters, channels, 1, 1), (filters,))
    check(gpu, shapes[: 2 + bias], {})
    assert all("matmul/gemm_simt" in taken[name] for name in PASSES)


@pytest.mark.wide
def test_slices_of_k(
    gpu: GpuDevice, taken: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, 2)
    check(gpu, ((3, 512, 14, 14), (96, 512, 1, 1)), {})
    assert all("matmul/gemm_simt" in taken[name] for name in PASSES)


def test_what_reads_the_result_is_fused(
    gpu: GpuDevice, taken: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, 1)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (3, 64, 14, 14)).astype(np.float32)
    weight = rng.uniform(-1, 1, (80, 64, 1, 1)).astype(np.float32)
    given = [fw.tensor(each, device=gpu) for each in (x, weight)]
    found = ops.conv2d(*given).relu() * 2
    wanted = np.einsum("bchw,oc->bohw", x.astype(np.float64), weight[:, :, 0, 0])
    assert relative_error(found.numpy(), 2 * np.maximum(wanted, 0)) < 1e-6
    assert "matmul/gemm_simt" in taken["forward"]


def test_when_columns_are_merged(discrete: vkbackend.DeviceInfo) -> None:
    def merges(mode: str, *sizes: int) -> bool:
        return merged_config(discrete, mode, GemmSize(*sizes)) is not None

    # 196 columns fill three quarters of the tiles of a matrix.
    assert merges(SIMT, 256, 196, 256, 64)
    assert not merges(TENSOR_CORES, 256, 196, 256, 64)
    assert not merges(SIMT, 256, 196, 256, 1)
    # Whole tiles are as quick apart; 49 columns are no whole vectors.
    assert not merges(SIMT, 256, 1024, 256, 64)
    assert not merges(SIMT, 256, 49, 256, 64)
