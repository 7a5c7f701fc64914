"""How products are cut: what was measured stays chosen, and neighbours are near."""

import dataclasses
import itertools

import pytest

import vkbackend
from vkbackend.framework.base.dtype import DType, float16, float32
from vkbackend.framework.base.shape import Layout, ceil_div
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.gemm.select import large_product
from vkbackend.framework.kernels.gemm.tiles import (
    DOTS,
    HALF_SUMS,
    INTEGERS,
    MAX_PARTS,
    MAX_PARTS_WITHOUT_UNITS,
    MIN_PART,
    PAIRS,
    PLAIN,
    PLAIN_MIN_PART,
    PROCESSORS,
    REGISTER_TILES,
    UNITS,
    WORKGROUP,
    Cut,
    Sizes,
    cuts,
    microseconds,
)


def square(size: int, batch: int = 1) -> Sizes:
    return Sizes(size, size, size, batch)


def chosen(gpu: vkbackend.DeviceInfo, mode: str, sizes: Sizes) -> tuple[int, int, int]:
    tile, parts, _, last = cuts(gpu, mode, sizes, apart=True)[0]
    return tile.m, tile.n, 1 if last else parts


# The quickest of those that were measured on an NVIDIA H200, if all rows are alike.
MEASURED = {
    PLAIN: [(64, 128)] * 5,
    UNITS: [(128, 64), (128, 128), (128, 128), (128, 128), (128, 128)],
    HALF_SUMS: [(128, 64), (128, 128), (256, 256), (256, 256), (256, 256)],
    PAIRS: [(128, 64), (128, 128), (128, 128), (128, 128), (128, 128)],
}


@pytest.mark.parametrize("mode", MEASURED)
def test_what_was_measured_is_chosen(discrete: vkbackend.DeviceInfo, mode: str) -> None:
    sizes = [*map(square, (1024, 2048, 4096, 8192)), square(1024, 16)]
    found = [chosen(discrete, mode, each) for each in sizes]
    assert found == [(m, n, 1) for m, n in MEASURED[mode]]


def test_odd_rows_leave_in_wide_parts(discrete: vkbackend.DeviceInfo) -> None:
    found = [chosen(discrete, UNITS, square(n))[:2] for n in (895, 1023, 1024, 1025)]
    assert found == [(64, 128), (64, 128), (128, 64), (128, 128)]


def test_a_second_round_that_is_not_full_has_its_depth_cut(
    discrete: vkbackend.DeviceInfo,
) -> None:
    last = [cuts(discrete, UNITS, square(n), apart=True)[0].last for n in (2304, 2560)]
    assert last == [4, 0]


def test_slices_keep_a_device_busy_that_has_few_workgroups(
    discrete: vkbackend.DeviceInfo,
) -> None:
    def slices(sizes: Sizes) -> int:
        return cuts(discrete, PLAIN, sizes, apart=True)[0].tile.slices

    assert [slices(square(size)) for size in (256, 512, 640)] == [4, 4, 4]
    assert [slices(square(size)) for size in (1024, 2048, 8192)] == [2, 1, 1]


def test_last_rows_have_their_depth_cut_where_rounds_are_few(
    discrete: vkbackend.DeviceInfo,
) -> None:
    for size in (2048, 4096, 8192):
        tile, parts, wide, last = cuts(discrete, PLAIN, square(size), apart=True)[0]
        assert (tile.m, tile.n, wide) == (64, 128, False)
        assert parts > 1
        assert 0 < last * tile.m <= size // 4


def test_small_products_have_small_tiles(discrete: vkbackend.DeviceInfo) -> None:
    assert chosen(discrete, PLAIN, Sizes(128, 512, 784))[:2] == (32, 32)
    assert chosen(discrete, UNITS, square(256)) == (32, 64, 1)
    assert chosen(discrete, UNITS, square(512)) == (32, 64, 1)
    assert chosen(discrete, UNITS, square(640)) == (64, 64, 1)


@pytest.mark.parametrize(
    "sizes",
    [Sizes(2048, 128, 10000), Sizes(128, 10000, 2048), Sizes(10000, 128, 2048)],
)
def test_deep_products_fill_the_device(
    discrete: vkbackend.DeviceInfo, sizes: Sizes
) -> None:
    best = cuts(discrete, PLAIN, sizes)[0]
    assert best.tile.m * best.tile.n >= 64 * 128
    groups = sizes.tiles(best.tile) * best.parts * best.tile.slices
    assert groups >= 1.7 * PROCESSORS


def test_the_depth_is_cut_where_it_is_deep(discrete: vkbackend.DeviceInfo) -> None:
    assert cuts(discrete, UNITS, Sizes(256, 256, 4096))[0].parts == MAX_PARTS
    for mode, least in ((PLAIN, PLAIN_MIN_PART), (UNITS, MIN_PART)):
        assert cuts(discrete, mode, Sizes(256, 256, 4096))[0].parts >= MAX_PARTS
        assert cuts(discrete, mode, Sizes(256, 256, 2 * least - 1))[0].parts == 1
    deep = cuts(discrete, PLAIN, Sizes(256, 256, 16384))
    assert deep[0].parts == MAX_PARTS_WITHOUT_UNITS
    deep = cuts(discrete, PAIRS, Sizes(1024, 1024, 20_000))
    assert {cut.parts for cut in deep} == set(range(3, MAX_PARTS + 1))


def test_sums_of_parts_are_few_enough(discrete: vkbackend.DeviceInfo) -> None:
    def parts(mode: str) -> set[int]:
        return {cut.parts for cut in cuts(discrete, mode, Sizes(6000, 6000, 20_000))}

    assert parts(PLAIN) == {1}  # two have 275 MiB
    assert parts(PAIRS) == {3}  # for exactness


def test_last_rows_are_apart_where_they_fill_little(
    discrete: vkbackend.DeviceInfo,
) -> None:
    for mode in (PLAIN, UNITS, HALF_SUMS, PAIRS, INTEGERS):
        for sizes in (square(2176), square(2177), Sizes(1160, 3000, 2000)):
            assert all(cut.last == 0 for cut in cuts(discrete, mode, sizes))
            found = cuts(discrete, mode, sizes, apart=True)
            assert any(cut.last for cut in found)
            for tile, parts, _, last in found:
                whole = sizes.tiles(tile) - last * -(-sizes.n // tile.n)
                assert last == 0 or (parts > 1 and whole >= PROCESSORS / 2)
                # None of these rows of tiles begins before them.
                assert last != 1 or sizes.m % tile.m == 0
    for mode, sizes in ((DOTS, square(2176)), (UNITS, square(1024, 3))):
        assert not any(cut.last for cut in cuts(discrete, mode, sizes, apart=True))
    deep = cuts(discrete, PAIRS, Sizes(2176, 2176, 9000), apart=True)
    assert not any(cut.last for cut in deep)


def test_sums_of_parts_have_their_price() -> None:
    sizes = Sizes(64 * PROCESSORS, 1024, 8192)  # whole rounds
    one, two = (
        microseconds(Cut(REGISTER_TILES[0], parts), PLAIN, sizes) for parts in (1, 2)
    )
    written_and_read = 2 * 4 * 2 * sizes.m * sizes.n  # bytes, at less than 4.8 TB/s
    assert two - one > written_and_read / 4.8e6


@pytest.mark.parametrize("mode", [PLAIN, UNITS, HALF_SUMS, PAIRS])
def test_no_step_between_neighbours(discrete: vkbackend.DeviceInfo, mode: str) -> None:
    def time(sizes: Sizes) -> float:
        return microseconds(cuts(discrete, mode, sizes, apart=True)[0], mode, sizes)

    sizes = range(256, 4097, 64)
    for shape in ((1, 1, 1), (1, 0, 1), (1, 0, 0), (0, 0, 1)):

        def at(size: int, shape: tuple[int, ...] = shape) -> Sizes:
            m, n, k = (size if free else 1024 for free in shape)
            return Sizes(m, n, k)

        times = [time(at(size)) for size in sizes]
        steps = [after / before for before, after in itertools.pairwise(times)]
        # The worst is a round of workgroups more, of few: 2048 to 2112 on matrix units.
        assert max(steps[4:]) < 1.7
        for size in sizes[4:]:
            assert time(at(size - 1)) < 1.3 * time(at(size))


def test_memory_is_accessed_widely_on_matrix_units(
    discrete: vkbackend.DeviceInfo,
) -> None:
    for mode in (UNITS, HALF_SUMS, PAIRS, INTEGERS):
        assert {cut.wide for cut in cuts(discrete, mode, square(2048))} == {True}
    for mode in (PLAIN, DOTS, WORKGROUP):
        assert {cut.wide for cut in cuts(discrete, mode, square(2048))} == {False}


def test_nothing_fits_a_device_without_shared_memory(
    discrete: vkbackend.DeviceInfo,
) -> None:
    small = dataclasses.replace(discrete, max_shared_memory=2048)
    for mode in MEASURED:
        assert cuts(small, mode, square(1024)) == []


def test_few_invocations_hold_no_slices(discrete: vkbackend.DeviceInfo) -> None:
    least = dataclasses.replace(discrete, max_workgroup_invocations=128)
    found = {cut.tile for cut in cuts(least, PLAIN, square(1024))}
    assert 0 < len(found) < len(REGISTER_TILES)
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
    found = large_product(discrete, a, b, PLAIN if dtype is float32 else UNITS)
    assert found is not None
    product = found[0]
    assert product.constants.get("PLACED", 0) == placed
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
