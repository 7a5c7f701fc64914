"""Operands in vectors: what is read where it is, and what is copied first."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.large import (
    change_costs,
    change_model,
    operands,
    relative_error,
)
from tests.hardware import skip_where_it_crashes
from tests.kernel_run import division, linear, run
from vkbackend import Device, DeviceInfo
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES, float16
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import Dispatch, Scratch, StridedSpec
from vkbackend.framework.kernels.gemm import candidates, select
from vkbackend.framework.kernels.gemm.pack import (
    GemmOperand,
    vector_operand,
)
from vkbackend.framework.kernels.gemm.select import large_tile_gemm
from vkbackend.framework.kernels.gemm.tiles import (
    SIMT,
    TENSOR_CORES,
    Tile,
    TileConfig,
)
from vkbackend.framework.kernels.gpu_model import SIMT_TILES, THIN_TILES


def side(*shape: int, strides: tuple[int, ...] = (), offset: int = 0) -> GemmOperand:
    layout = Layout(shape, strides or Layout.contiguous(shape).strides, offset)
    return GemmOperand("a", StridedSpec(shape, float16, layout), 1, 2)


def test_what_fits_is_read_in_place() -> None:
    found = vector_operand(side(2, 128, 64), 8, 128, 64)
    assert found == ("a", True, 8, 1024, 128, (), None)
    turned = side(2, 128, 64, strides=(8192, 1, 128))
    assert vector_operand(turned, 8, 128, 64) == ("a", False, 16, 1024, 128, (), None)
    repeated = side(2, 128, 64, strides=(0, 64, 1))
    assert vector_operand(repeated, 8, 64, 64).batch == 0


@pytest.mark.parametrize(
    "x",
    [
        side(2, 128, 60),
        side(2, 100, 64),
        side(2, 128, 64, strides=(8192, 65, 1)),
        side(2, 128, 64, strides=(8193, 64, 1)),
        side(2, 128, 64, strides=(8192, 64, 1), offset=4),
        side(2, 128, 64, strides=(16384, 128, 2)),
        side(2, 132, 64, strides=(8448, 1, 132)),
    ],
)
def test_what_does_not_fit_is_packed(x: GemmOperand) -> None:
    found = vector_operand(x, 8, 128, 64)
    assert isinstance(found.memory, Scratch)
    assert found.memory.size == 2 * found.padded * 64 * 2
    assert found.padded % 8 == 0 or found.along_k
    assert found.last(128) >= 0
    (dispatch,) = found.packing
    assert dispatch.grid[2] == 2


def test_what_a_batch_repeats_is_packed_once() -> None:
    found = vector_operand(side(7, 100, 60, strides=(0, 60, 1)), 8, 128, 64)
    assert isinstance(found.memory, Scratch)
    assert found.memory.size == 128 * 64 * 2
    assert (found.batch, found.packing[0].grid[2]) == (0, 1)


@pytest.mark.core
def test_kernel(device: Device) -> None:
    x = np.random.default_rng(0).standard_normal((3, 37, 50)).astype(np.float32)
    x[0, 0, :2] = np.inf, 1e-30
    lines, elements = 64, 64
    arguments = {
        "x": x,
        **dict(zip(("lines", "elements", "line_stride"), (37, 50, 50), strict=True)),
        **{"element_stride": 1, "batch_stride": 37 * 50, "padded_lines": lines},
        "padded_vectors": elements // 4,
        **division("inner", elements // 4),
    }
    (packed,) = run(
        device,
        "matmul/pack",
        linear(-(-lines * elements // 4 // 64), 3),
        {"vectors": ((3, lines * elements), np.float32)},
        {"LOCAL_X": 64},
        arguments,
    )
    want = np.zeros((3, lines, elements), np.float32)
    want[:, :37, :50] = x
    np.testing.assert_array_equal(packed.reshape(want.shape), want)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32"])
@pytest.mark.parametrize("along_k", [True, False])
@pytest.mark.parametrize("offset", [0, 1, 2, 7])
def test_wide_loads(gpu: GpuDevice, dtype: str, along_k: bool, offset: int) -> None:
    """Lines that start anywhere, in a batch, with a tail; nothing else is read."""
    info = gpu.gpu.info
    skip_where_it_crashes(info)
    kind = DTYPES[dtype]
    shape, line = (3, 37, 50), 53
    count = offset + 2 * 37 * line + 36 * line + 50
    rng = np.random.default_rng(offset)
    data = rng.integers(-100, 100, count).astype(kind.numpy)
    layout = Layout(shape, (37 * line, line, 1), offset)
    x = StridedSpec(shape, kind, layout)
    width = 16 // kind.itemsize
    turned = GemmOperand("x", x, 1, 2) if along_k else GemmOperand("x", x, 2, 1)
    depth = 64 if along_k else 48
    found = vector_operand(turned, width, 64, depth, wide=True)
    (dispatch,) = found.packing
    assert dispatch.defines["WIDE_LOADS"] == "1"
    lines, elements = (64, 64) if along_k else (48, 64)
    held = gpu.gpu.allocate(data.nbytes)
    gpu.gpu.upload(data, held)
    out = gpu.gpu.allocate(3 * lines * elements * kind.itemsize)
    pipeline = gpu.gpu.pipeline(
        "matmul/pack", constants=dispatch.constants, defines=dispatch.defines
    )
    start = held.address + offset * kind.itemsize
    arguments = {**dispatch.push, "x": start, "vectors": out}
    batch = gpu.gpu.batch()
    batch.dispatch(pipeline, dispatch.grid, arguments, [held], [out])
    batch.submit()
    packed = np.frombuffer(gpu.gpu.read(out), kind.numpy).reshape(3, lines, elements)
    want = np.zeros((3, lines, elements), kind.numpy)
    want[:, :37, :50] = np.lib.stride_tricks.as_strided(
        data[offset:], shape, [kind.itemsize * step for step in layout.strides]
    )
    np.testing.assert_array_equal(packed, want)


def test_what_is_not_side_by_side_is_not_read_wide() -> None:
    steps = side(2, 128, 60, strides=(16384, 128, 2))
    for found in (
        vector_operand(steps, 8, 128, 64, wide=True),
        vector_operand(
            side(2, 60, 128, strides=(8192, 1, 64)), 8, 64, 64, along_k=True
        ),
    ):
        assert "WIDE_LOADS" not in found.packing[0].defines


@pytest.mark.parametrize(("lines", "block"), [(37, 64), (70, 64), (32, 32)])
@pytest.mark.parametrize("offset", [0, 4])
def test_lines_in_quads(gpu: GpuDevice, lines: int, block: int, offset: int) -> None:
    """Bytes of lines that lie side by side, turned; nothing past the last is kept."""
    skip_where_it_crashes(gpu.gpu.info)
    pitch, k, depth = 72, 50, 80
    shape = (2, lines, k)
    layout = Layout(shape, (k * pitch, 1, pitch), offset)
    rng = np.random.default_rng(lines)
    data = rng.integers(-100, 100, offset + 2 * k * pitch).astype(np.int8)
    x = StridedSpec(shape, DTYPES["int8"], layout)
    found = vector_operand(GemmOperand("x", x, 1, 2), 16, block, depth, along_k=True)
    (dispatch,) = found.packing
    assert dispatch.defines["QUADS"] == "1"
    padded = max(lines, block)
    held = gpu.gpu.allocate(data.nbytes)
    gpu.gpu.upload(data, held)
    out = gpu.gpu.allocate(2 * padded * depth)
    pipeline = gpu.gpu.pipeline(
        "matmul/pack", constants=dispatch.constants, defines=dispatch.defines
    )
    arguments = {**dispatch.push, "x": held.address + offset, "vectors": out}
    batch = gpu.gpu.batch()
    batch.dispatch(pipeline, dispatch.grid, arguments, [held], [out])
    batch.submit()
    packed = np.frombuffer(gpu.gpu.read(out), np.int8).reshape(2, padded, depth)
    want = np.lib.stride_tricks.as_strided(data[offset:], shape, layout.strides)
    np.testing.assert_array_equal(packed[:, :lines, :k], want)
    assert not packed[:, :lines, k:].any()


def test_what_lies_off_words_is_turned_byte_by_byte() -> None:
    for strides in ((6000, 1, 50), (6001, 1, 60), (6000, 2, 60)):
        x = StridedSpec((2, 50, 100), DTYPES["int8"], Layout((2, 50, 100), strides, 0))
        found = vector_operand(GemmOperand("x", x, 1, 2), 16, 64, 128, along_k=True)
        assert "QUADS" not in found.packing[0].defines


@pytest.fixture
def emulated(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Dispatch]]:
    """Let products use matrix units that shaders emulate; yield what is dispatched."""
    yield from emulate(gpu, monkeypatch, TENSOR_CORES, {"BFLOAT16_BITS": "1"})


def emulate(
    gpu: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    further: dict[str, str],
) -> Iterator[list[Dispatch]]:
    skip_where_it_crashes(gpu.gpu.info)
    discrete = dataclasses.replace(
        gpu.gpu.info,
        kind="discrete",
        subgroup_size=32,
        max_workgroup_invocations=1024,
        # 128 invocations pass elements of emulated matrices through this much.
        max_shared_memory=gpu.gpu.info.max_shared_memory - 128 * 16 * 4,
    )
    found: list[Dispatch] = []
    defines = {"EMULATED": "1", **further}

    def rule(_: DeviceInfo, a: StridedSpec, b: StridedSpec, __: str) -> list[Dispatch]:
        dispatches = large_tile_gemm(discrete, a, b, mode)
        assert dispatches is not None
        found[:] = [
            dataclasses.replace(each, defines={**each.defines, **defines})
            if each.kernel.startswith("matmul/gemm_coopmat")
            else each
            for each in dispatches
        ]
        return found

    monkeypatch.setattr(candidates, "large_tile_gemm", rule)
    change_costs(monkeypatch, smallest=1, packed_smallest=1)
    gpu.plans.clear()
    yield found
    fw.eval()
    gpu.plans.clear()


def is_unaligned(product: Dispatch) -> bool:
    """Return whether a GEMM reads operands that start anywhere."""
    return product.kernel.endswith("_unaligned")


ODD_SIZES = {
    "whole": (1, 64, 64, 128),
    "odd": (2, 70, 91, 97),
    "odd columns": (1, 65, 71, 200),
    "whole columns": (1, 64, 72, 130),
    "few rows": (2, 20, 91, 97),
    "one step": (1, 70, 91, 60),
}


# Each is another kernel, which software compiles for a second, but that "odd columns"
# have those of "odd". The rest are combinations of what is in these.
ON_SOFTWARE = {
    *(("odd", turned, "float16") for turned in ("", "a", "b", "ab")),
    *(("odd columns", turned, "float16") for turned in ("", "a", "b", "ab")),
    *(("odd", turned, "bfloat16") for turned in ("", "ab")),
    *(("whole columns", turned, "float16") for turned in ("", "a")),
    *(("whole", turned, "float16") for turned in ("a", "b")),
    ("few rows", "ab", "float16"),
    ("one step", "", "float16"),
    ("one step", "ab", "bfloat16"),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("sizes", "turned", "dtype"),
    [
        pytest.param(*each, marks=() if each in ON_SOFTWARE else pytest.mark.gpu)
        for each in itertools.product(
            ODD_SIZES, ("", "a", "b", "ab"), ("float16", "bfloat16")
        )
    ],
)
def test_sizes_that_are_not_of_vectors(
    gpu: GpuDevice, emulated: list[Dispatch], dtype: str, turned: str, sizes: str
) -> None:
    a, b, want = operands(gpu, ODD_SIZES[sizes], turned, dtype)
    bound = 3e-4 if dtype == "float16" else 2.4e-3  # of rounding the result
    assert relative_error((a @ b).numpy(), want) < bound
    packs = sizes in ("few rows", "one step")
    assert [each.kernel for each in emulated[:-1]] == ["matmul/pack"] * 2 * packs
    product = emulated[-1]
    if sizes in ("odd", "whole columns"):
        assert is_unaligned(product)
    touches = not is_unaligned(product) and not packs
    assert (product.constants.get("L2_PREFETCHES", 0) > 0) == touches


@pytest.mark.parametrize(
    "turned",
    ["", *(pytest.param(each, marks=pytest.mark.wide) for each in ("a", "b")), "ab"],
)
def test_larger_tiles_of_sizes_that_are_not_of_vectors(
    gpu: GpuDevice,
    emulated: list[Dispatch],
    turned: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where there are more of the smaller ones than processors."""
    change_model(monkeypatch, multiprocessors=8)
    a, b, want = operands(gpu, ODD_SIZES["odd"], turned, "float16")
    assert relative_error((a @ b).numpy(), want) < 3e-4
    (product,) = emulated
    assert is_unaligned(product)
    assert product.constants["BLOCK_M"] == 64


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("tile", "splits", "sizes", "turned"),
    [
        (THIN_TILES[0], 2, (1, 16, 264, 256), ""),
        (THIN_TILES[0], 1, (2, 11, 136, 72), "b"),
        (THIN_TILES[2], 2, (1, 304, 16, 136), "ab"),
        (THIN_TILES[3], 1, (2, 520, 16, 16), ""),
        (THIN_TILES[3], 1, (1, 333, 13, 40), "b"),
        (THIN_TILES[4], 1, (1, 16, 200, 24), ""),
        (THIN_TILES[5], 1, (1, 140, 32, 16), "b"),
    ],
)
def test_thin_tiles(
    gpu: GpuDevice,
    emulated: list[Dispatch],
    tile: Tile,
    splits: int,
    sizes: tuple[int, int, int, int],
    turned: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of few rows or columns; only the shorter operand is packed."""
    config = TileConfig(tile, splits, True)
    monkeypatch.setattr(select, "_ranked_configs", lambda *_: [config])
    a, b, want = operands(gpu, sizes, turned, "float16")
    assert relative_error((a @ b).numpy(), want) < 3e-4
    kernels = [each.kernel for each in emulated]
    packed = min(sizes[1:3]) < 16
    assert kernels == (
        ["matmul/pack"] * packed
        + ["matmul/gemm_coopmat"]
        + ["matmul/sum_slices"] * (splits > 1)
    )


def test_views_that_start_anywhere(gpu: GpuDevice, emulated: list[Dispatch]) -> None:
    a, b, _ = operands(gpu, (2, 70, 150, 140), "b", "float16")
    for i in range(1, 8):
        left, right = a[:, i % 3 :, i:], b[1:, i:, i : i + 80]
        got = (left @ right).numpy()
        assert is_unaligned(emulated[-1])
        exact = left.numpy().astype(np.float64) @ right.numpy().astype(np.float64)
        assert relative_error(got, exact) < 3e-4


def test_a_first_step_takes_nothing_from_before(
    gpu: GpuDevice, emulated: list[Dispatch]
) -> None:
    x = np.ones((80, 101), np.float32)
    x[:, 0] = x[:, -1] = np.nan  # beside each line
    a, b = (fw.tensor(x, "float16", gpu)[:, 1:-1] for _ in range(2))
    assert (a @ b.mT).numpy().tolist() == [[99.0] * 80] * 80
    assert is_unaligned(emulated[-1])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("sizes", "turned", "splits"),
    [
        ((1, 64, 64, 160), "", 1),
        ((1, 64, 64, 32), "ab", 1),
        ((1, 64, 64, 200), "a", 2),
        ((1, 65, 71, 181), "b", 1),
        ((1, 65, 71, 200), "a", 1),
    ],
)
def test_steps_in_two_stages(
    gpu: GpuDevice,
    emulated: list[Dispatch],
    monkeypatch: pytest.MonkeyPatch,
    sizes: tuple[int, int, int, int],
    turned: str,
    splits: int,
) -> None:
    """Steps are odd or even in number, or one; the first leaves out what is missing."""
    tile = Tile(32, 64, 32, 16, 32, 1.0, (1.0,), stages=2)
    monkeypatch.setattr(
        select, "tile_configs", lambda *_, **__: [TileConfig(tile, splits, True)]
    )
    unaligned = (tile._replace(unaligned=True),)
    change_costs(monkeypatch, (TENSOR_CORES,), unaligned_tiles=unaligned)
    a, b, want = operands(gpu, sizes, turned, "float16")
    assert relative_error((a @ b).numpy(), want) < 3e-4
    product = next(each for each in emulated if each.kernel.startswith("matmul/gemm_c"))
    assert product.constants["PIPELINE_STAGES"] == 2
    assert is_unaligned(product) == (sizes[1] == 65)


Force = Callable[[TileConfig | None], list[Dispatch]]


@pytest.fixture
def forced(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[Force]:
    """Let float32 products be cut in one way; what is called yields the dispatches."""
    skip_where_it_crashes(gpu.gpu.info)
    change_costs(monkeypatch, smallest=1)

    def force(config: TileConfig | None) -> list[Dispatch]:
        found: list[Dispatch] = []

        def rule(
            info: DeviceInfo, a: StridedSpec, b: StridedSpec, _: str
        ) -> list[Dispatch]:
            discrete = dataclasses.replace(info, kind="discrete")
            dispatches = large_tile_gemm(discrete, a, b, SIMT, config)
            assert dispatches is not None
            found[:] = dispatches
            return found

        monkeypatch.setattr(candidates, "large_tile_gemm", rule)
        gpu.plans.clear()
        return found

    yield force
    fw.eval()
    gpu.plans.clear()


def amid_nans(gpu: GpuDevice, x: np.ndarray, turned: bool, place: int) -> fw.Tensor:
    """Return a view of (batch, rows, columns) from among NaN, between its lines too.

    Lines are of whole vectors where `place`, of which there are NaN on both sides, is.
    """
    lines = x.swapaxes(1, 2) if turned else x
    batch, count, length = lines.shape
    held = np.full((batch + 1, count + 2, length + 2 * place), np.nan, np.float32)
    held[:batch, 1:-1, place:-place] = lines
    view = fw.tensor(held, "float32", gpu)[:batch, 1:-1, place:-place]
    return view.transpose(1, 2) if turned else view


# Tiles with fewer and more invocations than a line has numbers, slices, parts; what is
# not in these are larger kernels of the same.
CONFIGS = [TileConfig(tile, 1) for tile in SIMT_TILES]
CONFIGS += [
    TileConfig(SIMT_TILES[7], 3),
    TileConfig(SIMT_TILES[6], 2),
    TileConfig(SIMT_TILES[2], 2),
]
CONFIGS += [TileConfig(SIMT_TILES[3], 2, tail_rows=2)]
FEW = {CONFIGS[1], CONFIGS[3], CONFIGS[7], CONFIGS[8], CONFIGS[9], CONFIGS[-1]}


def marks_of(config: TileConfig, turned: str) -> Any:
    """Return where a product runs; others turned repeat the smallest tile."""
    if config not in FEW or (turned in ("a", "b") and config != CONFIGS[3]):
        return pytest.mark.gpu
    return pytest.mark.wide if turned and config != CONFIGS[3] else ()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("config", "turned"),
    [
        pytest.param(config, turned, marks=marks_of(config, turned))
        for config, turned in itertools.product(CONFIGS, ("", "a", "b", "ab"))
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_numbers_wherever_they_lie(
    gpu: GpuDevice,
    forced: Force,
    config: TileConfig,
    turned: str,
    rng: np.random.Generator,
) -> None:
    found = forced(config)
    batch, m, n, k = 1 if config.tail_rows else 2, 131, 150, 553
    a = rng.integers(-9, 10, (batch, m, k)).astype(np.float32)
    b = rng.integers(-9, 10, (batch, k, n)).astype(np.float32)
    left = amid_nans(gpu, a, "a" in turned, 3)
    right = amid_nans(gpu, b, "b" in turned, 1)
    np.testing.assert_array_equal((left @ right).numpy(), a @ b)
    products = [each for each in found if each.kernel.startswith("matmul/gemm_simt")]
    assert products
    assert all(map(is_unaligned, products))
    assert "matmul/pack" not in [each.kernel for each in found]
    real = left.numpy()[:1].astype(np.float64) / 7
    repeated = fw.tensor(real, "float32", gpu)[:, :, 1:].expand(batch, m, k - 1)
    got = (repeated @ right[:1, 1:].expand(batch, k - 1, n)).numpy()
    want = np.repeat(real[:, :, 1:] @ b[:1, 1:], batch, 0)
    assert relative_error(got, want) < 1e-6


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("tile", "turned", "vector_operand"),
    [
        (SIMT_TILES[3], "", False),
        (SIMT_TILES[3], "ab", True),
        (SIMT_TILES[7], "ab", False),
        (SIMT_TILES[7], "", True),
        *(
            pytest.param(SIMT_TILES[tile], turned, vectors, marks=pytest.mark.wide)
            for tile, turned, vectors in (
                (3, "", True),
                (3, "ab", False),
                (7, "", False),
                (7, "ab", True),
            )
        ),
    ],
)
def test_a_depth_begins_where_it_does(
    gpu: GpuDevice, forced: Force, turned: str, tile: Tile, vector_operand: bool
) -> None:
    """Depths of all remainders; of one step, what is not of whole ones is packed."""
    found = forced(TileConfig(tile, 1))
    rng = np.random.default_rng(len(turned))
    for k in range(20, 37, 4) if vector_operand else range(17, 35):
        a = rng.integers(-9, 10, (2, 36, k)).astype(np.float32)
        b = rng.integers(-9, 10, (2, k, 40)).astype(np.float32)
        left, right = (
            amid_nans(gpu, x, name in turned, 4 if vector_operand else k % 3 + 1)
            for name, x in (("a", a), ("b", b))
        )
        np.testing.assert_array_equal((left @ right).numpy(), a @ b, err_msg=str(k))
        (product,) = found
        assert is_unaligned(product) == (not vector_operand)
        assert product.constants["K_TAIL"] == (k % 16 != 0)


def test_which_products_read_numbers_one_by_one(
    discrete: DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(m: int, n: int, k: int, turned: bool = False) -> str:
        strides = (n * k, 1, k) if turned else (n * k, n, 1)
        a = StridedSpec((1, m, k), DTYPES["float32"], Layout.contiguous((1, m, k)))
        b = StridedSpec((1, k, n), DTYPES["float32"], Layout((1, k, n), strides, 0))
        found = large_tile_gemm(discrete, a, b, SIMT)
        if found is None:
            return "none"
        return found[0].kernel.removeprefix("matmul/")

    assert first(255, 255, 255) == first(255, 255, 255, True) == "gemm_simt_unaligned"
    assert first(256, 256, 256) == first(256, 256, 256, True) == "gemm_simt"
    assert first(260, 260, 260) == first(260, 260, 260, True) == "gemm_simt"
    assert first(260, 261, 260, True) == "gemm_simt"
    assert first(257, 256, 256) == "gemm_simt"
    # Shallow, of one step, and both.
    assert first(777, 333, 112) == "gemm_simt_unaligned"
    assert first(777, 333, 111) == first(2004, 132, 68) == "none"
    assert first(255, 127, 63) == "gemm_simt_unaligned"
    assert first(1001, 1101, 15) == "none"
    assert first(1001, 1101, 63) == "gemm_simt_unaligned"
    change_costs(monkeypatch, (SIMT,), unaligned_most=0)
    assert first(255, 255, 255) == "none"
    assert first(511, 511, 511) == "pack"
