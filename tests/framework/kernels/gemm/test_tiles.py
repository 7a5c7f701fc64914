"""Tile configurations: their names, their number, and what fits a device."""

import dataclasses

import vkbackend
from vkbackend.framework.kernels.gemm.tiles import (
    SIMT,
    GemmSize,
    TileConfig,
    fits,
    simt_threads,
)
from vkbackend.framework.kernels.gpu_model import SIMT_TILES, SMALL_TILE


def test_names_tell_configurations_apart() -> None:
    assert TileConfig(SIMT_TILES[3], 2).name == (
        "tiles of 32x32x16, 1x1 per subgroup, split-K 2"
    )
    assert TileConfig(SMALL_TILE, 3, True, 4).name == (
        "tiles of 32x64x64, 16x32 per subgroup, 2 stages, split-K of the last 4 3,"
        " wide stores"
    )


def test_a_last_tile_may_be_partial() -> None:
    assert GemmSize(65, 128, 7, batch=3).tiles(SIMT_TILES[1]) == 2 * 3


def test_slices_of_k_have_invocations_of_their_own(
    discrete: vkbackend.DeviceInfo,
) -> None:
    assert simt_threads(SIMT_TILES[7]) == 4 * simt_threads(SIMT_TILES[3])
    assert fits(discrete, SIMT_TILES[3], SIMT)
    few = dataclasses.replace(discrete, max_workgroup_invocations=64)
    assert fits(few, SIMT_TILES[3], SIMT)
    assert not fits(few, SIMT_TILES[7], SIMT)
