"""Convolutions as products: every window, every cut, and when they are taken."""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name
from hypothesis import assume, given
from hypothesis import strategies as st

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.convolutions import (
    Convolved,
    call_of,
    check,
    name_of,
    on_any_device,
)
from tests.framework.ops.large import (
    change_costs,
    change_model,
    forget_plans,
    relative_error,
)
from tests.hardware import as_hardware, skip_where_it_crashes
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import (
    DTYPES,
    DType,
    bfloat16,
    float16,
    float32,
    float64,
)
from vkbackend.framework.ir.kernel_call import Dispatch, Scratch
from vkbackend.framework.kernels.conv import direct, implicit_gemm
from vkbackend.framework.kernels.conv.problem import ConvCall
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.kernels.gemm.cost_model import tile_configs
from vkbackend.framework.kernels.gemm.tiles import (
    SCALED_FLOAT16,
    TENSOR_CORES,
    GemmSize,
    Tile,
    TileConfig,
)
from vkbackend.framework.kernels.gpu_model import H200, SIMT_TILES, TENSOR_CORE_TILES
from vkbackend.framework.kernels.tensor_cores import convolution_mode
from vkbackend.shader import compiler

Options = dict[str, Any]
PASSES = ("forward", "input_vjp", "weight_vjp")

# Strides that divide nothing, more padding than a window, gaps, pixels no window sees.
CONVOLUTIONS: list[Convolved] = [
    ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ((2, 16, 12, 12), (64, 16, 3, 3), {"padding": 1}),
    ((1, 3, 11, 13), (2, 3, 5, 2), {"stride": (2, 3), "padding": (2, 0)}),
    ((2, 6, 7, 7), (9, 6, 3, 3), {"stride": 2, "padding": 3}),
    ((2, 5, 8, 9), (40, 5, 1, 1), {"stride": 2}),
    ((3, 3, 20, 20), (70, 3, 7, 7), {"stride": 2, "padding": 3}),
    ((2, 4, 10, 10), (6, 4, 3, 3), {"dilation": (1, 3), "stride": (2, 1)}),
    ((1, 3, 9, 9), (4, 3, 2, 2), {"stride": 3, "dilation": 2}),
    ((2, 3, 6, 5), (3, 3, 2, 4), {"padding": "same"}),
]
CORE = [CONVOLUTIONS[k] for k in (1, 2, 7)]
# Other sizes of windows, strides and gaps that rows before have.
SIZES_ALONE = [CONVOLUTIONS[k] for k in (5, 6)]
# Larger tiles differ from these in numbers only, and compile for 10 s on lavapipe.
CONFIGS = [
    TileConfig(SIMT_TILES[2], 2),
    TileConfig(SIMT_TILES[3], 1),
    TileConfig(SIMT_TILES[3], 5),
]
CONFIGS += [TileConfig(SIMT_TILES[7], splits) for splits in (1, 3)]


@pytest.fixture
def split_products(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Dispatch]]:
    """Let convolutions run on emulated tensor cores; yield the dispatches."""
    yield from emulated_products(gpu, monkeypatch)


def emulated_products(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Dispatch]]:
    """Let convolutions run on emulated tensor cores, float32 ones scaled.

    Yields the dispatches.
    """
    if not gpu.gpu.info.storage_16bit:
        pytest.skip("the kernel needs 16-bit storage")
    # 128 invocations pass elements of emulated matrices through this much.
    most = gpu.gpu.info.max_shared_memory - 128 * 16 * 4
    discrete = as_hardware(gpu.gpu.info)
    discrete = dataclasses.replace(discrete, max_shared_memory=most)
    change_model(monkeypatch, nchw_operations_per_microsecond=(1e-9,) * 3)
    change_costs(monkeypatch, [SCALED_FLOAT16], simt_below=1)
    found: list[Dispatch] = []

    def emulated(rule: Any) -> Any:
        def answered(call: ConvCall, *rest: Any) -> list[Dispatch] | None:
            mode = SCALED_FLOAT16 if call.x.dtype is float32 else TENSOR_CORES
            how = call.how._replace(mode=mode)
            dispatches = rule(call._replace(gpu=discrete, how=how), *rest)
            if dispatches is None:
                return None
            made = [
                dataclasses.replace(each, defines={**each.defines, "EMULATED": "1"})
                if each.kernel == "matmul/gemm_coopmat"
                else each
                for each in dispatches
            ]
            found.extend(made)
            return made

        return answered

    for name in PASSES:
        rule = getattr(implicit_gemm, name)
        monkeypatch.setattr(implicit_gemm, name, emulated(rule))
    forget_plans()
    yield found
    forget_plans()


@pytest.fixture
def taken(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, list[str]]]:
    """Let convolutions be products on any device; yield their kernels, by pass."""
    skip_where_it_crashes(device.info)
    change_model(monkeypatch, nchw_operations_per_microsecond=(1e-9,) * 3)
    yield from on_any_device(monkeypatch, implicit_gemm, *PASSES)


def marks_of(row: Convolved, bias: bool) -> list[pytest.MarkDecorator]:
    if row in SIZES_ALONE:
        return [pytest.mark.wide]
    return [pytest.mark.core] if bias and row in CORE else []


def count(taken: dict[str, list[str]], kernel: str) -> int:
    """Return how often a kernel was run."""
    return sum(kernels.count(kernel) for kernels in taken.values())


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    ("x", "weight", "options", "bias"),
    [
        pytest.param(
            *row,
            bias,
            id=name_of(row) + ("-bias" if bias else ""),
            marks=marks_of(row, bias),
        )
        for number, row in enumerate(CONVOLUTIONS)
        for bias in ([False, True] if number == 1 else [row in CORE])
    ],
)
def test_result_and_gradients(
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    x: tuple[int, ...],
    weight: tuple[int, ...],
    options: Options,
    bias: bool,
) -> None:
    check(gpu, (x, weight, (weight[0],))[: 2 + bias], options)
    gaps = options.get("stride") == 3 and options.get("dilation") == 2
    assert count(taken, "matmul/gemm_simt") == (2 if gaps else 3)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(CONFIGS[0], marks=pytest.mark.wide),
        CONFIGS[1],
        *(pytest.param(config, marks=pytest.mark.wide) for config in CONFIGS[2:-1]),
        pytest.param(CONFIGS[-1], marks=pytest.mark.core),
    ],
    ids=lambda config: config.name,
)
def test_every_cut(
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    config: TileConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(implicit_gemm, "_best_config", lambda *_, **__: config)
    x, weight, options = CONVOLUTIONS[1]
    check(gpu, (x, weight), options)
    assert count(taken, "reduce/reduce") == (2 if config.splits > 1 else 0)
    assert count(taken, "conv/wgrad_reduce") == 1


@pytest.mark.core
def test_results_go_on_into_what_follows(
    gpu: GpuDevice, taken: dict[str, list[str]]
) -> None:
    """Bias and activation are an epilogue, also where a tile has several images."""
    rng = np.random.default_rng(0)
    shapes = ((3, 4, 6, 6), (7, 4, 3, 3), (7,), (3, 7, 6, 6))
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    x, weight, bias, other = (fw.tensor(each, "float32", gpu) for each in arrays)
    got = ops.relu(ops.conv2d(x, weight, bias, padding=1) + other).numpy()
    sources = [text for plan in gpu.plans.values() for text in plan.sources.values()]
    assert any("void epilogue(" in text and "IMPLICIT_GEMM" in text for text in sources)
    images, filters, each, more = (torch.from_numpy(array) for array in arrays)
    want = F.relu(F.conv2d(images, filters, each, padding=1) + more)
    assert relative_error(got, want.numpy().astype(np.float64)) < 1e-6
    assert count(taken, "matmul/gemm_simt") == 1


# Stride phases of whole tiles: of all taps, some and none, which is most of 1 by 1.
PHASED: list[Convolved] = [
    ((1, 64, 9, 8), (40, 64, 3, 3), {"stride": 2, "padding": 1}),
    ((1, 64, 6, 7), (72, 64, 1, 1), {"stride": 2}),
    ((1, 64, 9, 8), (40, 64, 2, 3), {"stride": 2, "padding": 1}),
    ((1, 64, 10, 8), (20, 64, 5, 2), {"stride": (3, 2), "padding": (2, 1)}),
    ((1, 64, 9, 9), (24, 64, 2, 1), {"stride": (2, 4), "padding": (1, 0)}),
]


@pytest.mark.parametrize("tile", [SIMT_TILES[3], SIMT_TILES[7]])
@pytest.mark.parametrize(
    "row",
    [
        *PHASED[:2],
        *(pytest.param(each, marks=pytest.mark.wide) for each in PHASED[2:]),
    ],
    ids=name_of,
)
def test_sums_begin_where_a_stride_phase_has_taps(
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    row: Convolved,
    tile: Tile,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = TileConfig(tile, 1)
    monkeypatch.setattr(implicit_gemm, "_best_config", lambda *_, **__: config)
    forget_plans()
    x, weight, options = row
    check(gpu, (x, weight), options)
    assert count(taken, "matmul/gemm_simt") == 3


# The first row in float32 would take more rounds of a loop than lavapipe makes.
@pytest.mark.parametrize("row", PHASED[1:3], ids=name_of)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_sums_on_matrix_units_begin_where_a_phase_has_taps(
    gpu: GpuDevice, split_products: list[Dispatch], row: Convolved, dtype: str
) -> None:
    x, weight, options = row
    check(gpu, (x, weight), options, dtype, 3e-4)
    kernels = [each for each in split_products if each.kernel == "matmul/gemm_coopmat"]
    assert any("FILTER_LINES" in each.constants for each in kernels)


# Stride phases with and without a tap, whose pixels are stored together or not, stride
# 1, groups in bundles and scaled float32 with sums of slices.
TRANSPOSED: list[Convolved] = [
    ((2, 16, 5, 6), (16, 24, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((2, 16, 4, 5), (16, 24, 4, 4), {"stride": 2, "padding": 1}),
    ((1, 16, 4, 4), (16, 20, 1, 2), {"stride": (2, 3)}),
    ((2, 16, 4, 8), (16, 24, 3, 3), {"padding": 1}),
    ((1, 16, 5, 3), (16, 12, 3, 7), {"stride": (1, 4), "padding": (1, 2)}),
    ((1, 64, 4, 5), (64, 4, 3, 3), {"groups": 16, "stride": 2}),
]


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("row", TRANSPOSED, ids=name_of)
def test_a_transposed_convolution_adds_its_bias(
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    row: Convolved,
    splits: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(direct, "MOST_ROWS", 0)  # Which hardware would take it by.
    config = TileConfig(SIMT_TILES[3], splits)
    monkeypatch.setattr(implicit_gemm, "_best_config", lambda *_, **__: config)
    forget_plans()
    x, weight, options = row
    bias = (weight[1] * options.get("groups", 1),)
    check(gpu, (x, weight, bias), options, name="conv_transpose2d")
    assert taken["input_vjp"].count("matmul/gemm_simt") == 1


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("row", TRANSPOSED[:5], ids=name_of)
def test_a_transposed_convolution_adds_its_bias_on_matrix_units(
    gpu: GpuDevice,
    split_products: list[Dispatch],
    row: Convolved,
    dtype: str,
    splits: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = TileConfig(TENSOR_CORE_TILES[3], splits, wide=True)
    monkeypatch.setattr(implicit_gemm, "_best_config", lambda *_, **__: config)
    rng = np.random.default_rng(0)
    x, weight, options = row
    arrays = [
        rng.integers(-2, 3, shape).astype(np.float32)
        for shape in (x, weight, weight[1:2])
    ]
    tensors = [fw.tensor(each, dtype, gpu) for each in arrays]
    found = ops.conv_transpose2d(*tensors, **options)
    twins = [torch.from_numpy(each) for each in arrays]
    wanted = F.conv_transpose2d(twins[0], twins[1], twins[2], **options)
    if dtype != "float32":
        wanted = wanted.to(getattr(torch, dtype)).float()
    # Small whole numbers, whose sums are exact.
    np.testing.assert_array_equal(found.float().numpy(), wanted.numpy())
    product = next(each for each in split_products if "EMULATED" in each.defines)
    assert "BIAS" in product.defines
    across = product.constants.get("PHASES_ACROSS", 1)
    together = across if across in (2, 4) else 1  # of 16 rows
    assert product.constants.get("PHASES_TOGETHER", 1) == together


# Volumes: padding, groups with strides, gaps, planes between each other, of one tap and
# of two, and whose windows begin within the volume.
VOLUMES: list[tuple[str, Convolved]] = [
    ("conv3d", ((2, 16, 3, 4, 8), (16, 16, 3, 3, 3), {"padding": 1})),
    ("conv3d", ((2, 6, 5, 7, 5), (8, 3, 2, 3, 2), {"groups": 2, "stride": 2})),
    ("conv3d", ((3, 8, 6, 3, 5), (8, 8, 3, 2, 2), {"dilation": 2, "padding": 2})),
    (
        "conv_transpose3d",
        ((2, 16, 3, 4, 3), (16, 8, 3, 3, 3), {"stride": 2, "padding": 1}),
    ),
    ("conv_transpose3d", ((2, 16, 3, 4, 4), (16, 8, 3, 3, 3), {"padding": 1})),
    (
        "conv_transpose3d",
        (
            (1, 8, 3, 4, 4),
            (8, 8, 3, 1, 1),
            {"stride": (2, 1, 1), "padding": (2, 0, 0), "output_padding": (1, 0, 0)},
        ),
    ),
]


@pytest.mark.wide
@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(("name", "row"), VOLUMES)
def test_windows_along_depth(
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    name: str,
    row: Convolved,
    splits: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No plane is copied but by packing, which copies it once for all phases."""
    monkeypatch.setattr(direct, "MOST_ROWS", 0)  # Which hardware would take it by.
    config = TileConfig(SIMT_TILES[3], splits)
    monkeypatch.setattr(
        implicit_gemm,
        "_best_config",
        lambda product, *_: config._replace(splits=splits if product.splits else 1),
    )
    forget_plans()
    x, weight, options = row
    filters = weight[0] if name == "conv3d" else weight[1]
    check(gpu, (x, weight, (filters,)), options, name=name)
    assert set(taken) == set(PASSES)
    for pass_, number in (("forward", 1), ("input_vjp", 1), ("weight_vjp", 2)):
        assert taken[pass_].count("conv/nchw_to_nhwc") == number
    assert count(taken, "conv/im2col") + count(taken, "conv/col2im") == 0


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("name", "row"), VOLUMES[::3])
def test_windows_along_depth_on_matrix_units(
    gpu: GpuDevice,
    split_products: list[Dispatch],
    name: str,
    row: Convolved,
    dtype: str,
) -> None:
    x, weight, options = row
    check(gpu, (x, weight), options, dtype, 5e-4, name)
    products = [each for each in split_products if "EMULATED" in each.defines]
    # The transpose has two phases.
    assert len(products) == (3 if name == "conv3d" else 4)
    assert all("DEEP" in each.constants for each in products)


@pytest.mark.core
def test_results_of_volumes_go_on_into_what_follows(
    gpu: GpuDevice, taken: dict[str, list[str]]
) -> None:
    rng = np.random.default_rng(0)
    shapes = ((2, 4, 3, 4, 6), (8, 4, 3, 3, 3), (8,), (2, 8, 3, 4, 6))
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    x, weight, bias, other = (fw.tensor(each, "float32", gpu) for each in arrays)
    got = ops.relu(ops.conv3d(x, weight, bias, padding=1) + other).numpy()
    sources = [text for plan in gpu.plans.values() for text in plan.sources.values()]
    assert any("void epilogue(" in text and "IMPLICIT_GEMM" in text for text in sources)
    images, filters, each, more = (torch.from_numpy(array) for array in arrays)
    want = F.relu(F.conv3d(images, filters, each, padding=1) + more)
    assert relative_error(got, want.numpy().astype(np.float64)) < 1e-6


# Groups that fill a tile each, in bundles, all in one; with a bias or without.
GROUPED: list[tuple[Convolved, int]] = [
    (((2, 32, 6, 6), (64, 16, 3, 3), {"groups": 2, "padding": 1}), 1),
    (((1, 64, 7, 5), (64, 4, 3, 3), {"groups": 16, "stride": 2, "padding": 1}), 8),
    (((2, 128, 5, 6), (64, 8, 1, 2), {"groups": 16, "dilation": 2}), 8),
    (((2, 12, 5, 5), (15, 4, 2, 2), {"groups": 3}), 3),
]


@pytest.mark.parametrize(
    ("row", "bundle"),
    [
        pytest.param(*each, id=name_of(each[0]), marks=[pytest.mark.wide] * (n > 1))
        for n, each in enumerate(GROUPED)
    ],
)
def test_groups_are_taken_in_bundles(
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    row: Convolved,
    bundle: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(direct, "MOST_ROWS", 0)  # Which hardware would take it by.
    x, weight, options = row
    for splits in (1, 3):
        config = TileConfig(SIMT_TILES[3], splits)
        monkeypatch.setattr(implicit_gemm, "_best_config", lambda *_, c=config, **__: c)
        forget_plans()
        check(gpu, (x, weight, (weight[0],))[: 3 if splits == 1 else 2], options)
    assert count(taken, "matmul/gemm_simt") == 6
    call = call_of(gpu.gpu.info, x, weight[0], WINDOW, groups=options["groups"])
    product = implicit_gemm._forward_product(call)
    assert implicit_gemm._bundled(product, SIMT_TILES[3]).bundle == bundle


def test_grouped_convolutions_fill_tiles(discrete: vkbackend.DeviceInfo) -> None:
    for groups, each, bundle_rows in ((8, 16, 64), (4, 64, 64), (2, 128, 128)):
        x = (32, groups * each, 56, 56)
        call = call_of(discrete, x, groups * each, WINDOW, float16, groups)
        for name in PASSES:
            found = dispatched(name, call)
            assert found is not None
            product = next(row for row in found if row.kernel.startswith("matmul/"))
            assert product.kernel == "matmul/gemm_coopmat"
            assert product.constants["BUNDLE_ROWS"] % product.constants["BLOCK_M"] == 0
            assert product.constants["BUNDLE_ROWS"] == bundle_rows


# With few steps of K, for software devices end loops that take long, and emulated
# products are loops.
SPLIT: list[tuple[Convolved, bool]] = [
    (((2, 16, 12, 12), (24, 16, 3, 3), {"padding": 1}), False),
    (CONVOLUTIONS[2], True),
    (CONVOLUTIONS[3], False),
    (((3, 3, 20, 20), (12, 3, 7, 7), {"stride": 2, "padding": 3}), True),
    (CONVOLUTIONS[6], False),
    (((1, 128, 4, 9), (128, 16, 1, 3), {"groups": 8, "padding": (0, 1)}), False),
]


@pytest.mark.parametrize(
    ("row", "bias"),
    [
        pytest.param(
            *each,
            id=name_of(each[0]),
            marks=[pytest.mark.wide] if number in (3, 4) else [],
        )
        for number, each in enumerate(SPLIT)
    ],
)
@pytest.mark.sampled(6)
@pytest.mark.parametrize("splits", [1, 3])
def test_float32_scaled_to_float16(
    gpu: GpuDevice,
    split_products: list[Dispatch],
    row: Convolved,
    bias: bool,
    splits: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Errors are those of 11 bits."""
    if bias and splits > 1:
        pytest.skip("sums of slices take no bias")
    config = TileConfig(TENSOR_CORE_TILES[3], splits, wide=True)
    monkeypatch.setattr(implicit_gemm, "_best_config", lambda *_, **__: config)
    x, weight, options = row
    check(gpu, (x, weight, (weight[0],))[: 2 + bias], options, bound=4e-4)
    products = [each for each in split_products if "EMULATED" in each.defines]
    assert len(products) == 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_bias_is_added_to_whole_vectors(
    gpu: GpuDevice,
    split_products: list[Dispatch],
    dtype: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = TileConfig(TENSOR_CORE_TILES[3], 1, wide=True)
    monkeypatch.setattr(implicit_gemm, "_best_config", lambda *_, **__: config)
    rng = np.random.default_rng(0)
    shapes = ((3, 8, 4, 6), (70, 8, 1, 1), (70,))
    arrays = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    found = ops.conv2d(*(fw.tensor(each, dtype, gpu) for each in arrays))
    wanted = F.conv2d(*(torch.from_numpy(each) for each in arrays))
    # Small whole numbers, whose sums are exact.
    np.testing.assert_array_equal(found.float().numpy(), wanted.numpy())
    defines = split_products[-1].defines
    assert {"BIAS", "WIDE_STORES", "EMULATED"} <= defines.keys()


def dispatched(name: str, call: ConvCall) -> list[Dispatch] | None:
    """Return what a pass of a convolution is run with."""
    found: list[Dispatch] | None = getattr(implicit_gemm, name)(call)
    return found


SIDE = st.integers(1, 9)
EXTRA = st.tuples(st.integers(-1, 1), st.integers(-1, 1))
BOTH = st.tuples(st.integers(1, 4), st.integers(1, 4))


@given(
    st.integers(1, 5),
    st.integers(1, 40),
    st.tuples(SIDE, SIDE),
    st.integers(1, 200),
    st.builds(Window, BOTH, BOTH, st.tuples(SIDE, SIDE), BOTH, extra=EXTRA),
    st.sampled_from([float32, float16]),
    st.sampled_from(PASSES),
)
def test_no_load_leaves_the_copies(
    discrete: vkbackend.DeviceInfo,
    images: int,
    channels: int,
    size: tuple[int, int],
    filters: int,
    window: Window,
    dtype: DType,
    name: str,
) -> None:
    assume(min(window.output(*size)) >= 1)
    with pytest.MonkeyPatch.context() as patch:
        change_model(patch, nchw_operations_per_microsecond=(1e-9,) * 3)
        patch.setattr(implicit_gemm, "_geometries", set())
        x = (images, channels, *size)
        found = dispatched(name, call_of(discrete, x, filters, window, dtype))
    if found is None:
        assert name == "input_vjp"
        assert any(a > 1 and b > 1 for a, b in zip(window.stride, window.dilation))
        return
    kernel = "matmul/gemm_simt" if dtype is float32 else "matmul/gemm_coopmat"
    product = next(row for row in found if row.kernel == kernel)
    push: dict[str, Any] = dict(product.push)
    sizes: dict[str, int] = {name: int(x) for name, x in product.constants.items()}
    left, right = push["a"], push["b"]
    assert isinstance(left, Scratch)
    assert isinstance(right, Scratch)
    width = 16 // dtype.itemsize
    # Lines of the left operand along the depth, or across it.
    step = sizes.get("BLOCK_K", 16)
    assert push["k"] % step == push["total"] % step == 0
    rows = push["last_row"] + sizes["BLOCK_M"]
    assert rows >= max(push["m"], sizes["BLOCK_M"])
    lines, line = (rows, push["total"]) if sizes["A_ALONG_K"] else (push["total"], rows)
    assert left.size == 16 * lines * push["a_stride"]
    assert push["a_stride"] == line // width
    # The last tap of the last place, as place_at and tap_at of
    # conv/igemm_addressing.glsl say.
    last = push["b_stride"] - 1
    image, rest = divmod(last, sizes["PLANE"])
    y, x_ = divmod(rest, sizes["ACROSS"])
    tap_y, tap_x = divmod(sizes["TAPS"] - 1, sizes["TAPS_ACROSS"])
    end = image * sizes["IMAGE"] + y * sizes["LINE"] + x_ * sizes["PLACE"]
    end += tap_y * sizes["TAP_LINE"] + tap_x * sizes["TAP"] + sizes["CHANNEL_VECTORS"]
    assert 16 * end == right.size


WINDOW = Window((3, 3), (1, 1), (1, 1), (1, 1))
FIRST = Window((7, 7), (2, 2), (3, 3), (1, 1))


@pytest.mark.parametrize("dtype", [float32, float16, bfloat16])
@pytest.mark.parametrize("name", PASSES)
def test_large_convolutions_fill_a_device(
    discrete: vkbackend.DeviceInfo, name: str, dtype: DType
) -> None:
    for x, filters, window in (
        ((64, 3, 224, 224), 64, FIRST),
        ((64, 64, 56, 56), 64, WINDOW),
        ((64, 512, 7, 7), 512, WINDOW),
    ):
        found = dispatched(name, call_of(discrete, x, filters, window, dtype))
        assert found is not None
        product = next(row for row in found if row.kernel.startswith("matmul/"))
        assert math.prod(product.grid) >= 0.7 * H200.multiprocessors


def test_what_is_left_to_other_kernels(
    discrete: vkbackend.DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = (32, 128, 28, 28)
    software = dataclasses.replace(discrete, kind="software")
    small = dataclasses.replace(discrete, max_shared_memory=2048)
    # Packed images, with their padding, are one allocation.
    cramped = dataclasses.replace(discrete, max_allocation_size=4 * math.prod(x))
    call = call_of(discrete, x, 128, WINDOW)
    others = [
        call._replace(gpu=software),
        call._replace(gpu=small),
        call._replace(gpu=cramped),
        call_of(discrete, x, 128, WINDOW, float64),
        call_of(discrete, (0, *x[1:]), 128, WINDOW),
        # One channel and few pixels: copies take longer than they save.
        call_of(discrete, (1, 1, 28, 28), 8, WINDOW),
    ]
    for name in PASSES:
        assert dispatched(name, call) is not None
        assert [dispatched(name, other) for other in others] == [None] * len(others)
    monkeypatch.setattr(implicit_gemm, "MAX_GEOMETRIES", len(implicit_gemm._geometries))
    assert dispatched("forward", call) is not None
    new = call_of(discrete, (32, 128, 28, 27), 128, WINDOW)
    assert dispatched("forward", new) is None


def test_a_step_lies_in_shared_memory_at_a_time(
    discrete: vkbackend.DeviceInfo,
) -> None:
    call = call_of(discrete, (1, 128, 16, 16), 128, WINDOW, float16)
    products = tile_configs(discrete, TENSOR_CORES, GemmSize(128, 256, 1152))
    assert {config.tile.stages for config in products} == {1, 2}
    for name in PASSES:
        found = getattr(implicit_gemm, f"{name}_configs")(call)
        assert {config.tile.stages for config in found.values()} == {1}


@pytest.mark.parametrize("options", [{}, {"BIAS": "1"}, {"OUT_ACC": "1"}])
@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16"])
def test_kernels_on_matrix_units_are_valid(dtype: str, options: dict[str, str]) -> None:
    source, _ = compiler.load_kernel_source("matmul/gemm_coopmat")
    defines = {
        "DTYPE": f"DTYPE_{dtype}",
        "IMPLICIT_GEMM": "1",
        "WIDE_STORES": "1",
        **options,
    }
    if dtype == "FLOAT16":
        defines["DEVICE_ROUNDING"] = "1"
    words = compiler.compile_glsl(source, name="cooperative.comp", defines=defines)
    assert compiler.validate_spirv(words) is None


@pytest.mark.gpu
@pytest.mark.parametrize(
    "config", [TileConfig(t, p) for t in TENSOR_CORE_TILES for p in (1, 3)]
)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_on_matrix_units(
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    dtype: str,
    config: TileConfig,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if convolution_mode(gpu, DTYPES[dtype]) != TENSOR_CORES:
        pytest.skip("the device has no such matrix units, or they failed their test")
    for wide in (False, True):
        chosen = config._replace(wide=wide)
        monkeypatch.setattr(implicit_gemm, "_best_config", lambda *_, c=chosen, **__: c)
        forget_plans()
        for x, weight, options in (*CONVOLUTIONS[1:6:2], *PHASED):
            bound = 3e-4 if dtype == "float16" else 2.4e-3
            shapes = (x, weight, (weight[0],))[: 2 + (config.splits == 1 and not wide)]
            check(gpu, shapes, options, dtype, bound)
    assert count(taken, "matmul/gemm_coopmat")
