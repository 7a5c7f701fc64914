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
from tests.framework.ops.large import relative_error
from tests.hardware import skip_where_it_crashes
from vkbackend import shader
from vkbackend.framework import ops
from vkbackend.framework.device import GpuDevice, opened_devices
from vkbackend.framework.dispatch import Dispatch, Placed, Scratch
from vkbackend.framework.dtype import DTYPES, DType, bfloat16, float16, float32, float64
from vkbackend.framework.ops import conv_product
from vkbackend.framework.ops.matrix_units import convolution_mode
from vkbackend.framework.ops.product_tile import (
    PLAIN,
    PROCESSORS,
    REGISTER_TILES,
    UNIT_TILES,
    UNITS,
    Cut,
)
from vkbackend.framework.ops.window import Window
from vkbackend.framework.shape import Layout

pytestmark = pytest.mark.core

Options = dict[str, Any]
PASSES = ("forward", "input_vjp", "weight_vjp")

# Strides that divide nothing, more padding than a window, gaps, pixels no window sees.
CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], Options]] = [
    ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ((2, 16, 12, 12), (64, 16, 3, 3), {"padding": 1}),
    ((1, 3, 11, 13), (2, 3, 5, 2), {"stride": (2, 3), "padding": (2, 0)}),
    ((2, 4, 12, 12), (4, 4, 3, 3), {"dilation": 2}),
    ((2, 6, 7, 7), (9, 6, 3, 3), {"stride": 2, "padding": 3}),
    ((2, 5, 8, 9), (40, 5, 1, 1), {"stride": 2}),
    ((3, 3, 20, 20), (70, 3, 7, 7), {"stride": 2, "padding": 3}),
    ((2, 4, 10, 10), (6, 4, 3, 3), {"dilation": (1, 3), "stride": (2, 1)}),
    ((1, 3, 9, 9), (4, 3, 2, 2), {"stride": 3, "dilation": 2}),
    ((2, 3, 6, 5), (3, 3, 2, 4), {"padding": "same"}),
]
IDS = [f"{x}-{weight}-{options}" for x, weight, options in CONVOLUTIONS]
# Larger tiles differ from these in numbers only, and compile for 10 s on lavapipe.
CUTS = [Cut(REGISTER_TILES[2], 2), Cut(REGISTER_TILES[3], 1), Cut(REGISTER_TILES[3], 5)]


@pytest.fixture(scope="module")
def discrete(device: vkbackend.Device) -> vkbackend.DeviceInfo:
    return dataclasses.replace(
        device.info,
        kind="discrete",
        subgroup_size=32,
        max_shared_memory=49152,
        max_workgroup_invocations=1024,
    )


@pytest.fixture
def kernels(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """Let convolutions be products on any device; yield the kernels they run on."""
    skip_where_it_crashes(device.info)
    monkeypatch.setattr(conv_product, "OTHER_OPERATIONS_A_MICROSECOND", (1e-9,) * 3)
    seen: list[str] = []
    for name in PASSES:
        taken = getattr(conv_product, name)

        def rule(
            gpu: vkbackend.DeviceInfo, *rest: Any, taken: Any = taken
        ) -> list[Dispatch] | None:
            found: list[Dispatch] | None = taken(
                dataclasses.replace(gpu, kind="discrete"), *rest
            )
            seen.extend(dispatch.kernel for dispatch in found or ())
            return found

        monkeypatch.setattr(conv_product, name, rule)
    _forget_plans()
    yield seen
    _forget_plans()


def _forget_plans() -> None:
    for device in opened_devices():
        device.plans.clear()


def check(
    gpu: GpuDevice,
    shapes: tuple[tuple[int, ...], ...],
    options: Options,
    dtype: str = "float32",
    bound: float = 1e-6,
) -> None:
    """Compare a convolution and its gradients with PyTorch's in float64."""
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    mine = [fw.tensor(each, dtype, gpu, True) for each in arrays]
    twins = [torch.tensor(x.numpy(), dtype=torch.float64) for x in mine]
    for twin in twins:
        twin.requires_grad_()
    found, wanted = ops.conv2d(*mine, **options), F.conv2d(*twins, **options)
    assert relative_error(found.numpy(), wanted.detach().numpy()) < bound
    grad = fw.tensor(rng.uniform(-1, 1, found.shape).astype(np.float32), dtype, gpu)
    found.backward(grad)
    wanted.backward(torch.from_numpy(grad.numpy()).double())
    for one, other in zip(mine, twins):
        assert other.grad is not None
        assert relative_error(one.grad.numpy(), other.grad.numpy()) < bound


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("x", "weight", "options"), CONVOLUTIONS, ids=IDS)
def test_result_and_gradients(
    gpu: GpuDevice,
    kernels: list[str],
    x: tuple[int, ...],
    weight: tuple[int, ...],
    options: Options,
    bias: bool,
) -> None:
    check(gpu, (x, weight, (weight[0],))[: 2 + bias], options)
    gaps = options.get("stride") == 3 and options.get("dilation") == 2
    assert kernels.count("matmul/registers") == (2 if gaps else 3)


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.name)
def test_every_cut(
    gpu: GpuDevice,
    kernels: list[str],
    cut: Cut,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conv_product, "_choice", lambda *_, **__: cut)
    x, weight, options = CONVOLUTIONS[1]
    check(gpu, (x, weight), options)
    assert kernels.count("reduce/reduce") == (2 if cut.parts > 1 else 0)
    assert kernels.count("conv/filter_sums") == 1


def test_results_go_on_into_what_follows(gpu: GpuDevice, kernels: list[str]) -> None:
    """Bias and activation are an epilogue, also where a tile has several images."""
    rng = np.random.default_rng(0)
    shapes = ((3, 4, 6, 6), (7, 4, 3, 3), (7,), (3, 7, 6, 6))
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    x, weight, bias, other = (fw.tensor(each, "float32", gpu) for each in arrays)
    got = ops.relu(ops.conv2d(x, weight, bias, padding=1) + other).numpy()
    sources = [text for plan in gpu.plans.values() for text in plan.sources.values()]
    assert any("void epilogue(" in text and "PATCHES" in text for text in sources)
    images, filters, each, more = (torch.from_numpy(array) for array in arrays)
    want = F.relu(F.conv2d(images, filters, each, padding=1) + more)
    assert relative_error(got, want.numpy().astype(np.float64)) < 1e-6
    assert kernels.count("matmul/registers") == 1


def placed(dtype: DType, *shape: int) -> Placed:
    return Placed(shape, dtype, Layout.contiguous(shape))


def dispatched(
    gpu: vkbackend.DeviceInfo,
    name: str,
    x: tuple[int, ...],
    filters: int,
    window: Window,
    dtype: DType = float32,
) -> list[Dispatch] | None:
    """Return what a pass is run with on a device."""
    mode = PLAIN if dtype in (float32, float64) else UNITS
    size = window.output(*x[2:])
    images, grad = placed(dtype, *x), placed(dtype, x[0], filters, *size)
    weight = placed(dtype, filters, x[1], *window.kernel)
    if name == "forward":
        return conv_product.forward(gpu, images, weight, None, window, mode)
    if name == "input_vjp":
        edges = (x[2], x[3])
        return conv_product.input_vjp(gpu, grad, weight, edges, window, mode)
    return conv_product.weight_vjp(gpu, grad, images, window, mode)


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
        patch.setattr(conv_product, "OTHER_OPERATIONS_A_MICROSECOND", (1e-9,) * 3)
        patch.setattr(conv_product, "_geometries", set())
        x = (images, channels, *size)
        found = dispatched(discrete, name, x, filters, window, dtype)
    if found is None:
        assert name == "input_vjp"
        assert any(a > 1 and b > 1 for a, b in zip(window.stride, window.dilation))
        return
    kernel = "matmul/registers" if dtype is float32 else "matmul/cooperative"
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
    # The last tap of the last place, as place_at and tap_at of lib/patches.glsl say.
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
        found = dispatched(discrete, name, x, filters, window, dtype)
        assert found is not None
        product = next(row for row in found if row.kernel.startswith("matmul/"))
        assert math.prod(product.grid) >= 0.7 * PROCESSORS


def test_what_is_left_to_other_kernels(
    discrete: vkbackend.DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = (32, 128, 28, 28)
    software = dataclasses.replace(discrete, kind="software")
    small = dataclasses.replace(discrete, max_shared_memory=2048)
    for name in PASSES:
        assert dispatched(discrete, name, x, 128, WINDOW) is not None
        assert dispatched(software, name, x, 128, WINDOW) is None
        assert dispatched(small, name, x, 128, WINDOW) is None
        assert dispatched(discrete, name, x, 128, WINDOW, float64) is None
        assert dispatched(discrete, name, (0, *x[1:]), 128, WINDOW) is None
        # One channel and few pixels: copies take longer than they save.
        assert dispatched(discrete, name, (1, 1, 28, 28), 8, WINDOW) is None
    monkeypatch.setattr(conv_product, "MAX_GEOMETRIES", len(conv_product._geometries))
    assert dispatched(discrete, "forward", x, 128, WINDOW) is not None
    assert dispatched(discrete, "forward", (32, 128, 28, 27), 128, WINDOW) is None


@pytest.mark.parametrize("options", [{}, {"BIAS": "1"}, {"OUT_ACC": "1"}])
@pytest.mark.parametrize("dtype", ["FLOAT16", "BFLOAT16"])
def test_kernels_on_matrix_units_are_valid(dtype: str, options: dict[str, str]) -> None:
    source, _ = shader.load_kernel_source("matmul/cooperative")
    defines = {"DTYPE": f"DTYPE_{dtype}", "PATCHES": "1", "WIDE_STORES": "1", **options}
    if dtype == "FLOAT16":
        defines["DEVICE_ROUNDING"] = "1"
    words = shader.compile_glsl(source, name="cooperative.comp", defines=defines)
    assert shader.validate_spirv(words) is None


@pytest.mark.gpu
@pytest.mark.parametrize("cut", [Cut(t, p) for t in UNIT_TILES for p in (1, 3)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_on_matrix_units(
    gpu: GpuDevice,
    kernels: list[str],
    dtype: str,
    cut: Cut,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if convolution_mode(gpu, DTYPES[dtype]) != UNITS:
        pytest.skip("the device has no such matrix units, or they failed their test")
    for wide in (False, True):
        chosen = cut._replace(wide=wide)
        monkeypatch.setattr(conv_product, "_choice", lambda *_, c=chosen, **__: c)
        _forget_plans()
        for x, weight, options in (CONVOLUTIONS[1], CONVOLUTIONS[4], CONVOLUTIONS[6]):
            bound = 3e-4 if dtype == "float16" else 2.4e-3
            shapes = (x, weight, (weight[0],))[: 2 + (cut.parts == 1 and not wide)]
            check(gpu, shapes, options, dtype, bound)
    assert "matmul/cooperative" in kernels
