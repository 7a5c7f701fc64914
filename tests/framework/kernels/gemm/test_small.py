"""How products are cut into tiles: every tile is covered, and fits the device."""

import dataclasses
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.driver.target import LOOP_LIMIT
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float32, float64
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.kernels.gemm.small import (
    LARGE_MATRIX,
    WIDE_SUBGROUP_CONFIGS,
    TiledGemm,
    small_tile_configs,
    tile_count,
    tiled_gemm_dispatch,
    uses_subgroup_tiles,
)
from vkbackend.framework.kernels.gemm.tiles import SIMT, fits
from vkbackend.framework.kernels.gpu_model import SIMT_TILES

NAMES = ("matmul/gemm_tiled", "matmul/gemm_subgroup")
SIZES = st.integers(1, 300)


@pytest.fixture(scope="module")
def software(device: vkbackend.Device) -> vkbackend.DeviceInfo:
    return dataclasses.replace(
        device.info, kind="software", subgroup_shuffle=True, subgroup_size=8
    )


@pytest.fixture(scope="module")
def discrete(device: vkbackend.Device) -> vkbackend.DeviceInfo:
    return dataclasses.replace(device.info, kind="discrete")


@pytest.mark.core
def test_software_devices_use_subgroups(
    software: vkbackend.DeviceInfo, discrete: vkbackend.DeviceInfo
) -> None:
    assert uses_subgroup_tiles(software)
    assert not uses_subgroup_tiles(discrete)
    assert not uses_subgroup_tiles(
        dataclasses.replace(software, subgroup_shuffle=False)
    )


@pytest.mark.core
@given(SIZES, SIZES, SIZES)
def test_tiles_cover_the_result(
    software: vkbackend.DeviceInfo,
    discrete: vkbackend.DeviceInfo,
    m: int,
    n: int,
    k: int,
) -> None:
    for info in (software, discrete):
        product = TiledGemm(m, n, k, float32)
        found = tiled_gemm_dispatch(info, NAMES, product, 3, {"m": m}, {})
        x, y, z = found.grid
        tiles = tile_count(info, product)
        assert z == 3
        assert tiles <= x * y < tiles + x
        constants = found.constants
        if info is software:
            rows = constants["ROWS"]
            columns = constants["COLUMNS"] * constants["LOCAL_X"]
        else:
            rows, columns = constants["BLOCK_M"], constants["BLOCK_N"]
            assert constants["LOCAL_X"] <= info.max_workgroup_invocations
        assert tiles == -(-m // int(rows)) * -(-n // int(columns))


@pytest.mark.core
def test_large_products_of_software_devices_have_the_largest_tiles(
    software: vkbackend.DeviceInfo,
) -> None:
    for m, n, k, columns in (
        (512, 512, 512, 8),
        (32, 8192, 144, 8),
        (32, 8192, 64, 4),
        (1 << 20, 32, 8, 4),
    ):
        found = tiled_gemm_dispatch(
            software, NAMES, TiledGemm(m, n, k, float32), 1, {}, {}
        )
        assert (found.constants["ROWS"], found.constants["COLUMNS"]) == (32, columns)


@pytest.mark.core
def test_one_row_has_tiles_of_its_own(
    gpu: GpuDevice, software: vkbackend.DeviceInfo
) -> None:
    """Where the matrix is large; with the bits that it has among others."""
    rng = np.random.default_rng(0)
    columns = LARGE_MATRIX // 512
    for n, rows in ((columns, 1), (columns - 1, 8)):
        product = TiledGemm(1, n, 512, float32)
        found = tiled_gemm_dispatch(software, NAMES, product, 1, {}, {})
        assert found.constants["ROWS"] == rows
    a = fw.tensor(rng.standard_normal((2, 512), np.float32), device=gpu)
    b = fw.tensor(rng.standard_normal((512, columns), np.float32), device=gpu)
    one, both = a[:1] @ b, a @ b
    np.testing.assert_allclose(
        one.numpy(), a.numpy()[:1] @ b.numpy(), rtol=1e-4, atol=1e-4
    )
    if gpu.gpu.info.target.broadcasts_registers:
        np.testing.assert_array_equal(one.numpy(), both.numpy()[:1])


@pytest.mark.core
def test_few_tiles_are_smaller(discrete: vkbackend.DeviceInfo) -> None:
    for batch, block in ((1, 32), (64, 64)):
        product = TiledGemm(64, 64, 64, float32, batch=batch)
        found = tiled_gemm_dispatch(discrete, NAMES, product, batch, {}, {})
        assert found.constants["BLOCK_M"] == block


@pytest.mark.core
def test_too_deep_for_a_software_device(
    software: vkbackend.DeviceInfo, discrete: vkbackend.DeviceInfo
) -> None:
    product = TiledGemm(1, 1, LOOP_LIMIT + 1, float32)
    tiled_gemm_dispatch(discrete, NAMES, product, 1, {}, {})
    tiled_gemm_dispatch(software, NAMES, product, 1, {}, {}, depth=100)
    with pytest.raises(
        ShapeError, match=r"^matmul/gemm_tiled: one result would take 32769 "
    ):
        tiled_gemm_dispatch(software, NAMES, product, 1, {}, {})


@pytest.mark.core
@given(SIZES, SIZES)
def test_the_usual_cut_is_one_of_those_to_choose_from(
    software: vkbackend.DeviceInfo, discrete: vkbackend.DeviceInfo, m: int, n: int
) -> None:
    for info in (software, discrete):
        for dtype in (float32, float64):
            product = TiledGemm(m, n, 64, dtype)
            ways = [
                tiled_gemm_dispatch(info, NAMES, product, 1, {}, {}, config=config)
                for config in small_tile_configs(info, dtype)
            ]
            assert tiled_gemm_dispatch(info, NAMES, product, 1, {}, {}) in ways
            assert len({tuple(sorted(row.constants.items())) for row in ways}) > 1


@pytest.mark.core
@pytest.mark.parametrize(("m", "n", "k"), [(70, 45, 19), (7, 9, 33)])
def test_tiles_of_wide_subgroups(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, m: int, n: int, k: int
) -> None:
    info = dataclasses.replace(gpu.gpu.info, kind="discrete", min_subgroup_size=64)
    assert small_tile_configs(info, float32) == WIDE_SUBGROUP_CONFIGS
    assert not any(fits(info, tile, SIMT) for tile in SIMT_TILES)
    product = TiledGemm(m, n, k, float32)
    found = tiled_gemm_dispatch(info, NAMES, product, 1, {}, {}).constants
    assert found["BLOCK_K"] == (8 if m > 16 else 16)
    monkeypatch.setattr(gpu.gpu, "info", info)
    monkeypatch.setattr(gpu, "plans", OrderedDict())
    draws = np.random.default_rng(k)
    a, b = (draws.standard_normal(shape).astype("f4") for shape in ((m, k), (k, n)))
    x, y = fw.tensor(a, device=gpu), fw.tensor(b, device=gpu)
    assert_close((x @ y), a @ b)
    assert_close((y.mT @ x.mT), (a @ b).T)
