"""How products are cut: what was measured stays chosen, and neighbours are near."""

import dataclasses
import functools
import itertools

import pytest

import vkbackend
from vkbackend.framework.base.dtype import DType, float16, float32
from vkbackend.framework.base.shape import Layout, ceil_div
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.gemm.cost_model import (
    is_scaling_worthwhile,
    microseconds,
    tile_configs,
)
from vkbackend.framework.kernels.gemm.select import large_tile_gemm
from vkbackend.framework.kernels.gemm.tiles import (
    DP4A,
    FP16_ACCUMULATE,
    INT8_TENSOR_CORES,
    SCALED_FLOAT16,
    SIMT,
    TENSOR_CORES,
    GemmSize,
    TileConfig,
)
from vkbackend.framework.kernels.gpu_model import H200, SIMT_TILES


def square(size: int, batch: int = 1) -> GemmSize:
    return GemmSize(size, size, size, batch)


def chosen(
    gpu: vkbackend.DeviceInfo, mode: str, sizes: GemmSize
) -> tuple[int, int, int]:
    tile, splits, _, tail_rows = tile_configs(gpu, mode, sizes, tail_split=True)[0]
    return tile.m, tile.n, 1 if tail_rows else splits


# The quickest of those that were measured on an NVIDIA H200, if all rows are alike.
MEASURED = {
    SIMT: [(64, 128)] * 5,
    TENSOR_CORES: [(128, 64), (128, 128), (128, 128), (128, 128), (128, 128)],
    FP16_ACCUMULATE: [(128, 64), (128, 128), (256, 256), (256, 256), (256, 256)],
    SCALED_FLOAT16: [(128, 64), (128, 128), (128, 128), (128, 128), (128, 128)],
}


@pytest.mark.parametrize("mode", MEASURED)
def test_what_was_measured_is_chosen(discrete: vkbackend.DeviceInfo, mode: str) -> None:
    sizes = [*map(square, (1024, 2048, 4096, 8192)), square(1024, 16)]
    found = [chosen(discrete, mode, each) for each in sizes]
    assert found == [(m, n, 1) for m, n in MEASURED[mode]]


def test_odd_rows_leave_in_wide_parts(discrete: vkbackend.DeviceInfo) -> None:
    found = [
        chosen(discrete, TENSOR_CORES, square(n))[:2] for n in (895, 1023, 1024, 1025)
    ]
    assert found == [(64, 128), (64, 128), (128, 64), (128, 128)]


def test_a_second_round_that_is_not_full_has_its_depth_cut(
    discrete: vkbackend.DeviceInfo,
) -> None:
    tail_rows = [
        tile_configs(discrete, TENSOR_CORES, square(n), tail_split=True)[0].tail_rows
        for n in (2304, 2560)
    ]
    assert tail_rows == [4, 0]


def test_slices_keep_a_device_busy_that_has_few_workgroups(
    discrete: vkbackend.DeviceInfo,
) -> None:
    def slices(sizes: GemmSize) -> int:
        return tile_configs(discrete, SIMT, sizes, tail_split=True)[0].tile.slices

    assert [slices(square(size)) for size in (256, 512, 640)] == [4, 4, 4]
    assert [slices(square(size)) for size in (1024, 2048, 8192)] == [2, 1, 1]


def test_last_rows_have_their_depth_cut_where_rounds_are_few(
    discrete: vkbackend.DeviceInfo,
) -> None:
    for size in (2048, 4096, 8192):
        tile, splits, wide, tail_rows = tile_configs(
            discrete, SIMT, square(size), tail_split=True
        )[0]
        assert (tile.m, tile.n, wide) == (64, 128, False)
        assert splits > 1
        assert 0 < tail_rows * tile.m <= size // 4


def test_small_products_have_small_tiles(discrete: vkbackend.DeviceInfo) -> None:
    assert chosen(discrete, SIMT, GemmSize(128, 512, 784))[:2] == (32, 32)
    assert chosen(discrete, TENSOR_CORES, square(256)) == (32, 64, 1)
    assert chosen(discrete, TENSOR_CORES, square(512)) == (32, 64, 1)
    assert chosen(discrete, TENSOR_CORES, square(640)) == (64, 64, 1)


@pytest.mark.parametrize(
    "sizes",
    [
        GemmSize(2048, 128, 10000),
        GemmSize(128, 10000, 2048),
        GemmSize(10000, 128, 2048),
    ],
)
def test_deep_products_fill_the_device(
    discrete: vkbackend.DeviceInfo, sizes: GemmSize
) -> None:
    best = tile_configs(discrete, SIMT, sizes)[0]
    assert best.tile.m * best.tile.n >= 64 * 128
    groups = sizes.tiles(best.tile) * best.splits * best.tile.slices
    assert groups >= 1.7 * H200.multiprocessors


@pytest.mark.parametrize("mode", [SIMT, TENSOR_CORES, FP16_ACCUMULATE])
@pytest.mark.parametrize("side", [64, 128])
def test_few_tiles_of_a_long_depth_fill_the_device(
    discrete: vkbackend.DeviceInfo, mode: str, side: int
) -> None:
    sizes = GemmSize(side, side, 1 << 20)
    best = tile_configs(discrete, mode, sizes)[0]
    assert sizes.tiles(best.tile) * best.splits >= 0.9 * H200.multiprocessors
    assert sizes.k // best.splits >= H200.gemm[mode].min_split_depth
    # A caller's limit holds.
    assert all(each.splits == 1 for each in tile_configs(discrete, mode, sizes, 1))


@pytest.mark.parametrize("k", [8192, 16384, 32768])
def test_few_tiles_have_as_many_slices_as_there_are(
    discrete: vkbackend.DeviceInfo, k: int
) -> None:
    sizes = GemmSize(64, 64, k)
    best = tile_configs(discrete, TENSOR_CORES, sizes)[0]
    assert best.splits == k // H200.gemm[TENSOR_CORES].min_split_depth


def test_the_depth_is_cut_where_it_is_deep(discrete: vkbackend.DeviceInfo) -> None:
    assert (
        tile_configs(discrete, TENSOR_CORES, GemmSize(256, 256, 4096))[0].splits
        == H200.gemm[TENSOR_CORES].max_splits
    )
    for mode in (SIMT, TENSOR_CORES):
        least = H200.gemm[mode].min_split_depth
        assert (
            tile_configs(discrete, mode, GemmSize(256, 256, 4096))[0].splits
            >= H200.gemm[TENSOR_CORES].max_splits
        )
        assert (
            tile_configs(discrete, mode, GemmSize(256, 256, 2 * least - 1))[0].splits
            == 1
        )
    deep = tile_configs(discrete, SIMT, GemmSize(256, 256, 16384))
    assert deep[0].splits == H200.gemm[SIMT].max_splits


def test_sums_of_parts_are_few_enough(discrete: vkbackend.DeviceInfo) -> None:
    def splits(mode: str) -> set[int]:
        return {
            config.splits
            for config in tile_configs(discrete, mode, GemmSize(6000, 6000, 20_000))
        }

    assert splits(SIMT) == {1}  # two have 275 MiB


def test_scaling_pays_where_lines_are_loaded_by_many_tiles(
    discrete: vkbackend.DeviceInfo,
) -> None:
    pays = functools.partial(is_scaling_worthwhile, discrete)
    assert pays(GemmSize(12608, 1536, 384))
    assert pays(GemmSize(384, 1536, 12608))
    assert pays(square(4096))
    assert not pays(square(256))
    # Reading both operands twice takes as long as the products.
    assert not pays(GemmSize(1 << 20, 32, 64))
    assert not pays(GemmSize(64, 32, 1 << 20))


def test_last_rows_are_apart_where_they_fill_little(
    discrete: vkbackend.DeviceInfo,
) -> None:
    for mode in (
        SIMT,
        TENSOR_CORES,
        FP16_ACCUMULATE,
        SCALED_FLOAT16,
        INT8_TENSOR_CORES,
    ):
        for sizes in (square(2176), square(2177), GemmSize(1160, 3000, 2000)):
            assert all(
                config.tail_rows == 0 for config in tile_configs(discrete, mode, sizes)
            )
            found = tile_configs(discrete, mode, sizes, tail_split=True)
            assert any(config.tail_rows for config in found)
            for tile, splits, _, tail_rows in found:
                whole = sizes.tiles(tile) - tail_rows * -(-sizes.n // tile.n)
                assert tail_rows == 0 or (
                    splits > 1 and whole >= H200.multiprocessors / 2
                )
                # None of these rows of tiles begins before them.
                assert tail_rows != 1 or sizes.m % tile.m == 0
    for mode, sizes in ((DP4A, square(2176)), (TENSOR_CORES, square(1024, 3))):
        assert not any(
            config.tail_rows
            for config in tile_configs(discrete, mode, sizes, tail_split=True)
        )


def test_sums_of_parts_have_their_price() -> None:
    sizes = GemmSize(64 * H200.multiprocessors, 1024, 8192)  # whole rounds
    one, two = (
        microseconds(H200, TileConfig(SIMT_TILES[0], splits), SIMT, sizes)
        for splits in (1, 2)
    )
    written_and_read = 2 * 4 * 2 * sizes.m * sizes.n  # bytes, at less than 4.8 TB/s
    assert two - one > written_and_read / 4.8e6


@pytest.mark.parametrize("mode", [SIMT, TENSOR_CORES, FP16_ACCUMULATE, SCALED_FLOAT16])
def test_no_step_between_neighbours(discrete: vkbackend.DeviceInfo, mode: str) -> None:
    def time(sizes: GemmSize) -> float:
        return microseconds(
            H200, tile_configs(discrete, mode, sizes, tail_split=True)[0], mode, sizes
        )

    sizes = range(256, 4097, 64)
    for shape in ((1, 1, 1), (1, 0, 1), (1, 0, 0), (0, 0, 1)):

        def at(size: int, shape: tuple[int, ...] = shape) -> GemmSize:
            m, n, k = (size if free else 1024 for free in shape)
            return GemmSize(m, n, k)

        times = [time(at(size)) for size in sizes]
        steps = [after / before for before, after in itertools.pairwise(times)]
        # The worst is a round of workgroups more, of few: 2048 to 2112 on matrix units.
        assert max(steps[4:]) < 1.7
        for size in sizes[4:]:
            assert time(at(size - 1)) < 1.3 * time(at(size))


def test_memory_is_accessed_widely_on_matrix_units(
    discrete: vkbackend.DeviceInfo,
) -> None:
    for mode in (TENSOR_CORES, FP16_ACCUMULATE, SCALED_FLOAT16, INT8_TENSOR_CORES):
        assert {
            config.wide for config in tile_configs(discrete, mode, square(2048))
        } == {True}
    for mode in (SIMT, DP4A):
        assert {
            config.wide for config in tile_configs(discrete, mode, square(2048))
        } == {False}


def test_nothing_fits_a_device_without_shared_memory(
    discrete: vkbackend.DeviceInfo,
) -> None:
    small = dataclasses.replace(discrete, max_shared_memory=2048)
    for mode in MEASURED:
        assert tile_configs(small, mode, square(1024)) == []


def test_few_invocations_hold_no_slices(discrete: vkbackend.DeviceInfo) -> None:
    least = dataclasses.replace(discrete, max_workgroup_invocations=128)
    found = {config.tile for config in tile_configs(least, SIMT, square(1024))}
    assert 0 < len(found) < len(SIMT_TILES)
    assert max(tile.slices * tile.m * tile.n for tile in found) <= 64 * 128


@pytest.mark.parametrize(
    ("dtype", "sizes", "placed"),
    [
        (float32, (1, 256, 256, 256), 1),
        (float32, (1, 256, 256, 4096), 2),
        (float32, (3, 256, 256, 256), 3),
        (float32, (1, 4096, 4096, 4096), 0),  # in strips of rows
        (float16, (1, 512, 512, 512), 1),
        (float16, (1, 256, 256, 4096), 2),
        (float16, (3, 256, 256, 256), 3),
        (float16, (1, 2048, 2048, 2048), 0),
    ],
)
def test_who_says_which_tile(
    discrete: vkbackend.DeviceInfo,
    dtype: DType,
    sizes: tuple[int, int, int, int],
    placed: int,
) -> None:
    batch, m, n, k = sizes
    shapes = (batch, m, k), (batch, k, n)
    a, b = (StridedSpec(shape, dtype, Layout.contiguous(shape)) for shape in shapes)
    found = large_tile_gemm(discrete, a, b, SIMT if dtype is float32 else TENSOR_CORES)
    assert found is not None
    product = found[0]
    assert product.constants.get("GRID_MAPPED", 0) == placed
    down, across = (
        ceil_div(size, int(product.constants[f"BLOCK_{name}"]))
        for size, name in ((int(product.push["m"]), "M"), (n, "N"))  # type: ignore[arg-type]
    )
    x, y, z = product.grid
    if placed:
        assert (x, y) == (across, down)
        assert (z > 1) == (placed > 1)
    else:
        assert x * y >= across * down
