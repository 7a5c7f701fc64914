"""Large products: which kernel, which tiles, and that they are right at every edge."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.large import (
    SIZES,
    as_discrete,
    change_costs,
    operands,
    relative_error,
)
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES, DType, float16, float32, float64
from vkbackend.framework.base.shape import Layout, ceil_div
from vkbackend.framework.ir.kernel_call import (
    BufferOffset,
    Dispatch,
    Scratch,
    StridedSpec,
)
from vkbackend.framework.kernels.gemm import candidates, select
from vkbackend.framework.kernels.gemm.cost_model import is_scaling_worthwhile
from vkbackend.framework.kernels.gemm.select import large_tile_gemm, likely_configs
from vkbackend.framework.kernels.gemm.tiles import (
    FP16_ACCUMULATE,
    SCALED_FLOAT16,
    SIMT,
    TENSOR_CORES,
    GemmSize,
    Tile,
    TileConfig,
    fits,
)
from vkbackend.framework.kernels.gpu_model import (
    FP16_ACCUMULATE_TILES,
    H200,
    SIMT_TILES,
    TENSOR_CORE_TILES,
    THIN_TILES,
)
from vkbackend.framework.kernels.tensor_cores import offers, product_mode
from vkbackend.shader import compiler

SIDE = st.integers(17, 400)

# Every tile, and depths in two parts and in three.
CONFIGS = [TileConfig(tile, 1) for tile in SIMT_TILES]
CONFIGS += [TileConfig(SIMT_TILES[2], 2), TileConfig(SIMT_TILES[3], 3)]
CONFIGS += [TileConfig(SIMT_TILES[6], 2), TileConfig(SIMT_TILES[7], 3)]
WHOLE = TileConfig(SIMT_TILES[3], 1)
SLICES = TileConfig(SIMT_TILES[7], 3)
LARGER = TileConfig(SIMT_TILES[6], 1)
# Software compiles a variant of a larger tile for seconds, so that it computes two:
# the edges of a tile, and what lies otherwise in memory and is stored in whole vectors.
# Parts of the depth are no matter of the tile.
TWO = ((SIZES[3], ""), (SIZES[2], "ab"))
QUICK = [
    config
    for config in CONFIGS
    if config.splits == 1 or config.tile.m * config.tile.n == 1024
]
CORE = {(WHOLE, SIZES[1]), (WHOLE, SIZES[2]), (SLICES, SIZES[4])}
CORE |= {(TileConfig(SIMT_TILES[2], 1), sizes) for sizes, _ in TWO}


def name_of(value: object) -> str:
    if not isinstance(value, TileConfig):
        return str(value)
    return f"{value.tile.m}x{value.tile.n}x{value.tile.slices}/{value.splits}"


def products() -> list[Any]:
    """Return every product, with a mark that says where it runs."""
    found = []
    for config, sizes, turned in itertools.product(
        CONFIGS, SIZES, ("", "a", "b", "ab")
    ):
        two = config in QUICK and (sizes, turned) in TWO
        if two or config == WHOLE or (config == SLICES and turned in ("", "ab")):
            marks = (pytest.mark.core,) if (config, sizes) in CORE else ()
            # A larger tile repeats a smaller one for more numbers; one of them stays.
            larger = config.tile.m * config.tile.n > 1024 and config != LARGER
            if not marks and (larger or (turned and config == LARGER)):
                marks = (pytest.mark.wide,)
        else:
            marks = (pytest.mark.gpu,)
        found.append(pytest.param(config, sizes, turned, marks=marks))
    return found


each_cut = pytest.mark.parametrize(
    "config",
    [
        pytest.param(WHOLE, marks=pytest.mark.core),
        SLICES,
        *(
            pytest.param(config, marks=pytest.mark.gpu)
            for config in CONFIGS
            if config not in (WHOLE, SLICES)
        ),
    ],
    ids=name_of,
)


@pytest.fixture
def kernels(
    config: TileConfig, device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    skip_where_it_crashes(device.info)
    if not fits(device.info, config.tile, SIMT):
        pytest.skip(f"the tile needs more shared memory than {device.info.name} has")
    change_costs(monkeypatch, smallest=1, packed_smallest=1)
    # What is read wherever it lies is in test_pack.py.
    change_costs(monkeypatch, (SIMT,), unaligned_most=0)

    def rule(
        gpu: vkbackend.DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str
    ) -> list[Dispatch] | None:
        return large_tile_gemm(gpu, a, b, mode, config)

    yield from as_discrete(monkeypatch, "large_tile_gemm", rule)


def placed(
    dtype: DType, batch: int, rows: int, columns: int, turned: bool
) -> StridedSpec:
    shape = (batch, columns, rows) if turned else (batch, rows, columns)
    layout = Layout.contiguous(shape)
    if turned:
        layout = layout.permute([0, 2, 1])
    return StridedSpec(layout.shape, dtype, layout)


@pytest.mark.parametrize(("config", "sizes", "turned"), products(), ids=name_of)
def test_against_numpy(
    gpu: Device,
    config: TileConfig,
    kernels: list[str],
    sizes: tuple[int, int, int, int],
    turned: str,
) -> None:
    a, b, want = operands(gpu, sizes, turned, "float32")
    assert relative_error((a @ b).numpy(), want) < 1e-6
    assert "matmul/gemm_simt" in kernels
    summed = {"reduce/reduce", "matmul/sum_slices"} & set(kernels)
    assert bool(summed) == (config.splits > 1 and sizes[3] > config.tile.k)


@each_cut
@pytest.mark.parametrize("sizes", [(1, 300, 64, 1100), (2, 128, 96, 48)])
def test_views_and_repeated_batches(
    gpu: Device, kernels: list[str], sizes: tuple[int, int, int, int]
) -> None:
    a, b, want = operands(gpu, sizes, "", "float32")
    got = a[:, 1:, 3:] @ b[:1, 3:, 2:].expand(sizes[0], sizes[3] - 3, sizes[2] - 2)
    left = a.numpy().astype("float64")[:, 1:, 3:]
    want = left @ b.numpy()[:1, 3:, 2:]
    assert relative_error(got.numpy(), want) < 1e-6
    assert "matmul/pack" in kernels


@each_cut
def test_sizes_compiled_in_are_right_and_few(
    gpu: Device, kernels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    change_costs(monkeypatch, specialized_smallest=1)
    monkeypatch.setattr(select, "MAX_RECURRING", len(select._recurring) + 1)
    for k in (64, 80):
        a, b, want = operands(gpu, (1, 128, 64, k), "", "float32")
        assert relative_error((a @ b).numpy(), want) < 1e-6
    assert len(select._recurring) <= select.MAX_RECURRING


def dispatch_of(found: list[Dispatch] | None, kernel: str) -> Dispatch:
    assert found is not None
    return next(row for row in found if row.kernel == kernel)


def test_a_depth_of_whole_vectors_needs_no_packing(
    discrete: vkbackend.DeviceInfo,
) -> None:
    def kernels(m: int, n: int, k: int, turned: bool = True) -> list[str]:
        a, b = placed(float16, 1, m, k, False), placed(float16, 1, k, n, turned)
        found = large_tile_gemm(discrete, a, b, TENSOR_CORES)
        assert found is not None
        return [row.kernel.split("/")[1] for row in found]

    assert kernels(2048, 2048, 3000) == ["gemm_coopmat"]
    assert kernels(2048, 2048, 3000, False) == ["gemm_coopmat"]
    # Rows of 3004 elements start where no vector does.
    assert kernels(2048, 2048, 3004) == ["pack", "pack", "gemm_coopmat"]
    assert kernels(2048, 2047, 3000, False) == ["pack", "gemm_coopmat"]
    # A depth of one step has no second one to begin whole.
    assert kernels(4096, 4096, 56) == ["pack", "pack", "gemm_coopmat"]


def test_small_odd_products_are_read_wherever_they_lie(
    discrete: vkbackend.DeviceInfo,
) -> None:
    def tile(m: int, n: int, k: int) -> tuple[object, object] | None:
        a, b = placed(float16, 1, m, k, False), placed(float16, 1, k, n, False)
        found = large_tile_gemm(discrete, a, b, TENSOR_CORES)
        for row in found or ():
            if row.kernel == "matmul/gemm_coopmat_unaligned":
                return row.constants["BLOCK_M"], row.constants["BLOCK_N"]
        return None

    assert tile(511, 511, 511) == (32, 64)
    # As many tiles as processors at most, of whichever size.
    assert tile(513, 513, 513) == (64, 64)
    assert tile(703, 703, 703) == (64, 64)
    assert tile(705, 705, 705) is None
    # Deep ones are packed and cut, if that is worth it.
    assert tile(255, 255, 1537) is None
    assert tile(65, 65, 1537) == (32, 64)


@given(SIDE, SIDE, st.integers(1, 3000), st.booleans(), st.booleans())
@pytest.mark.parametrize("mode", [TENSOR_CORES, FP16_ACCUMULATE, SCALED_FLOAT16])
def test_tiles_on_matrix_units_stay_inside(
    discrete: vkbackend.DeviceInfo,
    mode: str,
    m: int,
    n: int,
    k: int,
    turned_a: bool,
    turned_b: bool,
) -> None:
    dtype = float32 if mode == SCALED_FLOAT16 else float16
    a, b = placed(dtype, 2, m, k, turned_a), placed(dtype, 2, k, n, turned_b)
    found = large_tile_gemm(discrete, a, b, mode)
    size = GemmSize(m, n, k, 2)
    if mode == SCALED_FLOAT16 and not is_scaling_worthwhile(discrete, size):
        return
    if found is None:
        assert 2 * m * n * k < H200.gemm[SIMT].packed_smallest
        return
    product = next(row for row in found if row.kernel.startswith("matmul/gemm_coop"))
    constants, push = product.constants, product.push
    step = int(constants["BLOCK_K"])
    split_steps, total = int(push["k"]), int(push["total"])  # type: ignore[arg-type]
    assert split_steps % step == 0
    unaligned = product.kernel == "matmul/gemm_coopmat_unaligned"
    if constants.get("K_TAIL"):
        # The first step begins before the depth, by less than a step.
        assert total == k
        assert unaligned or k % 8 == 0
        assert split_steps > step
    else:
        assert total % step == 0
    splits = product.grid[2] // 2
    assert total >= k
    whole = ceil_div(total, step) * step
    assert (splits - 1) * split_steps < whole <= splits * split_steps
    assert (whole == splits * split_steps) == (constants["UNEVEN_SPLITS"] == 0)
    for side, size, along in (("row", m, not turned_a), ("column", n, turned_b)):
        block = int(constants["BLOCK_M" if side == "row" else "BLOCK_N"])
        last = int(push[f"last_{side}"])  # type: ignore[arg-type]
        name = "a" if side == "row" else "b"
        assert last >= 0
        assert size - block <= last < size - block + 8 or last == 0
        assert along or last % 8 == 0 or unaligned
        memory = push[name]
        if isinstance(memory, Scratch):
            assert memory.size == 2 * (last + block) * total * 2
        else:
            assert last + block == size
            assert k == total


def test_a_depth_in_parts_needs_no_packing(discrete: vkbackend.DeviceInfo) -> None:
    a, b = placed(float32, 1, 2048, 10000, False), placed(float32, 1, 10000, 128, False)
    found = large_tile_gemm(discrete, a, b, SIMT)
    assert found is not None
    product, added = found
    splits, step = product.grid[2], 16
    assert (product.kernel, added.kernel) == ("matmul/gemm_simt", "matmul/sum_slices")
    split_steps, total = int(product.push["k"]), int(product.push["total"])  # type: ignore[arg-type]
    assert split_steps % step == 0
    assert total == 10000
    assert product.constants["UNEVEN_SPLITS"] == 1
    assert (splits - 1) * split_steps < total < splits * split_steps


@pytest.mark.parametrize("turned", [False, True])
def test_last_rows_of_tiles_are_apart(
    discrete: vkbackend.DeviceInfo, turned: bool
) -> None:
    a, b = placed(float16, 1, 2176, 512, turned), placed(float16, 1, 512, 2176, False)
    found = large_tile_gemm(
        discrete, a, b, TENSOR_CORES, TileConfig(TENSOR_CORE_TILES[0], 3, True, 2)
    )
    assert found is not None
    first, last, added = found
    rows = 15 * 128
    assert [first.grid, last.grid] == [(15 * 17, 1, 1), (2 * 17, 1, 3)]
    assert [first.push["m"], last.push["m"]] == [rows, 256]
    assert [first.push["last_row"], last.push["last_row"]] == [rows - 128, 128]
    assert first.push["a"] == "a"
    assert last.push["a"] == BufferOffset("a", 2 * rows * (1 if turned else 512))
    assert first.push["out_"] == "out"
    assert last.push["out_"] == Scratch("partial", 4 * 3 * 256 * 2176)
    assert added.push["out_"] == BufferOffset("out", 2 * rows * 2176)


@pytest.mark.gpu
@pytest.mark.parametrize("turned", ["", "a", "b"])
@pytest.mark.parametrize("sizes", [(1, 640, 512, 512), (1, 600, 392, 1000)])
def test_last_rows_in_parts(
    gpu: GpuDevice,
    turned: str,
    sizes: tuple[int, int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not offers(gpu.gpu.info, float16, TENSOR_CORES):
        pytest.skip("the device has no such matrix units")
    product_mode(gpu, float16)  # tried before its kernels are others
    a, b, want = operands(gpu, sizes, turned, "float16")
    for tile, splits, last in (
        (TENSOR_CORE_TILES[0], 3, 2),
        (TENSOR_CORE_TILES[3], 2, 4),
    ):
        config = TileConfig(tile, splits, True, last)
        monkeypatch.setattr(
            candidates,
            "large_tile_gemm",
            lambda info, a, b, _, config=config: large_tile_gemm(
                info, a, b, TENSOR_CORES, config
            ),
        )
        gpu.plans.clear()
        assert relative_error((a @ b).numpy(), want) < 3e-4
    gpu.plans.clear()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("turned", "n"), [("", 72), ("a", 70), ("b", 72)])
def test_last_rows_in_parts_without_units(
    gpu: GpuDevice, turned: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    change_costs(monkeypatch, smallest=1, packed_smallest=1)
    a, b, want = operands(gpu, (1, 150, n, 400), turned, "float32")
    info = dataclasses.replace(gpu.gpu.info, kind="discrete")
    tile_configs = [
        TileConfig(SIMT_TILES[3], 3, tail_rows=2),
        TileConfig(SIMT_TILES[7], 2, tail_rows=2),
    ]
    found: list[Dispatch] = []

    def rule(_: object, a: StridedSpec, b: StridedSpec, __: str) -> list[Dispatch]:
        found[:] = large_tile_gemm(info, a, b, SIMT, tile_configs[-1]) or ()
        return found

    monkeypatch.setattr(candidates, "large_tile_gemm", rule)
    while tile_configs:
        gpu.plans.clear()
        assert relative_error((a @ b).numpy(), want) < 1e-6
        # Rows of whole vectors are stored as such in both parts of the result.
        assert [row.constants["DIRECT_STORE"] for row in found[-3:-1]] == [
            int(n == 72)
        ] * 2
        tile_configs.pop()
    gpu.plans.clear()


def test_slices_know_when_their_steps_are_unlike(
    discrete: vkbackend.DeviceInfo,
) -> None:
    def k_tail(k: int, config: TileConfig) -> object:
        a, b = placed(float32, 1, 512, k, False), placed(float32, 1, k, 512, False)
        found = large_tile_gemm(discrete, a, b, SIMT, config)
        return dispatch_of(found, "matmul/gemm_simt").constants["UNEVEN_SLICES"]

    four = SIMT_TILES[7]
    assert four.slices == 4
    assert [k_tail(k, TileConfig(four, 1)) for k in (1024, 1008, 976)] == [0, 1, 1]
    assert [k_tail(k, TileConfig(four, 2)) for k in (1024, 1088, 896, 960)] == [
        0,
        1,
        0,
        1,
    ]
    assert k_tail(1008, TileConfig(SIMT_TILES[2], 1)) == 0


def test_what_is_left_to_other_kernels(discrete: vkbackend.DeviceInfo) -> None:
    software = dataclasses.replace(discrete, kind="software")
    small = dataclasses.replace(discrete, max_shared_memory=2048)
    big = placed(float32, 1, 512, 512, False)
    wide = placed(float64, 1, 512, 512, False)
    thin = placed(float32, 1, 16, 4096, False)
    assert large_tile_gemm(discrete, big, big, SIMT) is not None
    assert large_tile_gemm(software, big, big, SIMT) is None
    assert large_tile_gemm(small, big, big, SIMT) is None
    assert large_tile_gemm(discrete, wide, wide, SIMT) is None
    tall = placed(float32, 1, 4096, 512, False)
    assert large_tile_gemm(discrete, thin, tall, SIMT) is None
    tail_split = StridedSpec(
        (1, 129, 129), float32, Layout((1, 129, 129), (33282, 258, 2))
    )
    assert large_tile_gemm(discrete, tail_split, tail_split, SIMT) is None


def test_few_rows_or_columns_have_thin_tiles(
    discrete: vkbackend.DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(m: int, n: int, k: int) -> list[Dispatch] | None:
        a, b = placed(float16, 1, m, k, False), placed(float16, 1, k, n, False)
        return large_tile_gemm(discrete, a, b, TENSOR_CORES)

    def sizes(m: int, n: int, k: int) -> tuple[object, object]:
        constants = dispatch_of(found(m, n, k), "matmul/gemm_coopmat").constants
        return constants["BLOCK_M"], constants["BLOCK_N"]

    assert sizes(16, 4096, 4096)[0] == 16
    assert sizes(12, 4096, 4096)[0] == 16
    assert sizes(4096, 16, 4096)[1] == 16
    assert sizes(1 << 20, 16, 16) == (128, 16)
    assert sizes(1 << 20, 32, 16) == (128, 32)
    assert sizes(16, 1 << 20, 16) == (16, 128)
    assert sizes(64, 4096, 4096)[0] > 16
    kernels = [row.kernel for row in found(16, 4096, 4096) or ()]
    assert kernels == ["matmul/gemm_coopmat", "matmul/sum_slices"]
    # The longer operand is not packed, nor are fewer rows theirs.
    assert found(16, 4095, 4096) is None
    assert found(1 << 20, 16, 12) is None
    assert found(8, 4096, 4096) is None
    change_costs(monkeypatch, thin_tiles=())
    assert found(16, 4096, 4096) is None


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize(
    "sizes",
    [
        (1, 256, 384, 128),
        (3, 131, 257, 77),
        (1, 64, 64, 4096),
        (2, 40, 700, 96),
        (2, 256, 384, 456),
    ],
)
def test_16_bit_floats(
    gpu: Device, dtype: str, turned: str, sizes: tuple[int, int, int, int]
) -> None:
    a, b, want = operands(gpu, sizes, turned, dtype)
    bound = 3e-4 if dtype == "float16" else 2.4e-3  # of rounding the result
    assert relative_error((a @ b).numpy(), want) < bound


@pytest.mark.gpu
@pytest.mark.parametrize(("scale", "k"), [(1e-30, 8192), (1.0, 20000), (1e15, 1024)])
def test_scaled_products_are_exact_in_any_range(
    gpu: Device, scale: float, k: int
) -> None:
    a, b, want = operands(gpu, (1, 512, 520, k), "b", "float32")
    fw.set_float32_matmul_precision("high")
    try:
        got = ((a * scale) @ b).numpy()
    finally:
        fw.set_float32_matmul_precision("highest")
    assert relative_error(got, want * scale) < 4e-4


@pytest.mark.parametrize("mode", [SIMT, TENSOR_CORES, FP16_ACCUMULATE, SCALED_FLOAT16])
def test_the_usual_cut_is_a_likely_one(
    discrete: vkbackend.DeviceInfo, mode: str
) -> None:
    dtype = float32 if mode in (SIMT, SCALED_FLOAT16) else float16
    shapes = [(128, 128, 256), (1024, 1024, 1024), (256, 256, 8192), (3072,) * 3]
    for m, n, k in shapes:
        a, b = placed(dtype, 1, m, k, False), placed(dtype, 1, k, n, False)
        found = likely_configs(discrete, a, b, mode)
        assert 1 < len(found) <= select.LIKELY_CONFIGS
        assert (
            sum(config.tail_rows > 0 for config in found.values())
            <= select.LIKELY_TAIL_SPLITS
        )
        ways = [
            large_tile_gemm(discrete, a, b, mode, config) for config in found.values()
        ]
        assert large_tile_gemm(discrete, a, b, mode) in ways


CUTS_ON_UNITS = [
    (mode, tile, splits)
    for mode, tiles in (
        (TENSOR_CORES, TENSOR_CORE_TILES),
        (FP16_ACCUMULATE, FP16_ACCUMULATE_TILES),
        (SCALED_FLOAT16, TENSOR_CORE_TILES),
    )
    for tile in tiles
    for splits in (1, 3)
]
CUTS_ON_UNITS += [
    (TENSOR_CORES, tile, splits) for tile in THIN_TILES for splits in (1, 3)
]


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(("mode", "tile", "splits"), CUTS_ON_UNITS)
def test_cuts_on_matrix_units(
    gpu: GpuDevice,
    dtype: str,
    mode: str,
    tile: Tile,
    splits: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every tile, with the depth whole and in uneven parts; stores wide or not."""
    dtypes = {TENSOR_CORES: ("float16", "bfloat16"), FP16_ACCUMULATE: ("float16",)}
    if dtype not in dtypes.get(mode, ("float32",)):
        pytest.skip("the mode takes other dtypes")
    if not offers(gpu.gpu.info, DTYPES[dtype], mode):
        pytest.skip("the device has no such matrix units")
    product_mode(gpu, DTYPES[dtype])  # tried before its kernels are others
    change_costs(monkeypatch, smallest=1, packed_smallest=1, simt_below=0)
    bound = {"float32": 4e-4, "float16": 3e-4, "bfloat16": 2.4e-3}[dtype]
    monkeypatch.setattr(select, "is_scaling_worthwhile", lambda *_: True)
    for sizes in ((1, 512, 384, 448), (2, 331, 460, 600), (2, 300, 264, 1001)):
        a, b, want = operands(gpu, sizes, "b", dtype)
        found = []
        for wide in (False, True):
            config = TileConfig(tile, splits, wide)
            monkeypatch.setattr(
                candidates,
                "large_tile_gemm",
                lambda info, a, b, _, config=config: large_tile_gemm(
                    info, a, b, mode, config
                ),
            )
            gpu.plans.clear()
            found.append((a @ b).numpy())
        assert relative_error(found[0], want) < (
            4e-3 if mode == FP16_ACCUMULATE else bound
        )
        # The device rounds to float16 as lib/float16.glsl does.
        np.testing.assert_array_equal(found[1], found[0])
    gpu.plans.clear()


@pytest.mark.parametrize("sums", [{}, {"OUT_ACC": "1"}, {"FLOAT16_ACCUMULATE": "1"}])
@pytest.mark.parametrize("dtype", ["FLOAT32", "FLOAT16", "BFLOAT16"])
def test_wide_stores_are_valid(dtype: str, sums: dict[str, str]) -> None:
    if "FLOAT16_ACCUMULATE" in sums and dtype != "FLOAT16":
        pytest.skip("sums in float16 are for float16")
    source, _ = compiler.load_kernel_source("matmul/gemm_coopmat")
    defines = {"DTYPE": f"DTYPE_{dtype}", "WIDE_STORES": "1", **sums}
    if dtype == "FLOAT16":
        defines["DEVICE_ROUNDING"] = "1"
    words = compiler.compile_glsl(source, name="gemm_coopmat.comp", defines=defines)
    assert compiler.validate_spirv(words) is None


def test_wide_stores_are_for_rows_of_whole_vectors(
    discrete: vkbackend.DeviceInfo,
) -> None:
    def wide(n: int, splits: int) -> bool:
        a, b = placed(float16, 1, 512, 1024, False), placed(float16, 1, 1024, n, True)
        found = large_tile_gemm(
            discrete, a, b, TENSOR_CORES, TileConfig(TENSOR_CORE_TILES[0], splits, True)
        )
        return "WIDE_STORES" in dispatch_of(found, "matmul/gemm_coopmat").defines

    # Sums of parts are float32, of which four are 16 bytes.
    assert [wide(n, 1) for n in (512, 516, 520)] == [True, False, True]
    assert [wide(n, 2) for n in (512, 516, 518)] == [True, True, False]
