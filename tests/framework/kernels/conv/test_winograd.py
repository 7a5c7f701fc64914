"""Winograd's minimal filtering: every window, every piece, and when it is taken."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.convolutions import Convolved, call_of, check, name_of
from tests.framework.ops.large import change_model, forget_plans, relative_error
from tests.hardware import as_hardware, skip_where_it_crashes
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float16, float32
from vkbackend.framework.ir.kernel_call import BufferOffset, Dispatch, Scratch
from vkbackend.framework.kernels.conv import implicit_gemm, winograd
from vkbackend.framework.kernels.conv.problem import ConvCall
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.kernels.gemm.tiles import SCALED_FLOAT16

PASSES = ("forward", "input_vjp", "weight_vjp")
SAME = Window((3, 3), (1, 1), (1, 1), (1, 1))

# Sizes that are no whole tiles, more and less padding than keeps the size, odd numbers
# of channels, lines that are no whole vectors, one direction alone.
CONVOLUTIONS: list[Convolved] = [
    ((2, 8, 12, 16), (8, 8, 3, 3), {"padding": 1}),
    ((3, 5, 7, 9), (7, 5, 3, 3), {}),
    ((2, 6, 13, 11), (5, 6, 3, 3), {"padding": 2}),
    ((1, 3, 4, 3), (2, 3, 3, 3), {"padding": (0, 4)}),
    ((2, 6, 10, 11), (5, 6, 5, 5), {"padding": 2}),
    ((2, 6, 1, 33), (5, 6, 1, 5), {"padding": (0, 2)}),
    ((2, 6, 1, 32), (5, 6, 1, 3), {"padding": (0, 1)}),
    ((2, 6, 9, 10), (5, 6, 3, 1), {"padding": (1, 0)}),
    ((2, 3, 9, 10), (4, 3, 3, 5), {"padding": "same"}),
    ((33, 1, 3, 3), (1, 1, 3, 3), {}),
    ((2, 32, 7, 9), (40, 16, 3, 3), {"padding": 1, "groups": 2}),
    ((2, 36, 1, 33), (48, 12, 1, 3), {"padding": (0, 1), "groups": 3}),
]
# Taps that lie apart: sub-grids of results with unlike sizes, some without any.
DILATED: list[Convolved] = [
    ((2, 6, 13, 16), (5, 6, 3, 3), {"padding": 2, "dilation": 2}),
    ((2, 3, 11, 19), (4, 3, 3, 3), {"padding": (1, 3), "dilation": (1, 3)}),
    ((3, 5, 17, 8), (2, 5, 3, 3), {"padding": (5, 0), "dilation": (2, 1)}),
    ((1, 4, 10, 11), (3, 4, 5, 5), {"padding": (9, 7), "dilation": (2, 3)}),
    ((2, 6, 1, 37), (5, 6, 1, 3), {"padding": (0, 4), "dilation": (7, 4)}),
    ((1, 3, 3, 5), (2, 3, 3, 3), {"padding": 9, "dilation": 9}),
    ((2, 16, 9, 7), (16, 8, 3, 3), {"padding": 3, "dilation": 3, "groups": 2}),
]
# Filters of several segments.
LONG: list[Convolved] = [
    ((2, 6, 1, 40), (5, 6, 1, 9), {"padding": (0, 4)}),
    ((1, 4, 12, 11), (3, 4, 7, 7), {"padding": 3}),
    ((2, 5, 1, 35), (4, 5, 1, 6), {"padding": (0, 6), "dilation": (1, 2)}),
    ((2, 3, 17, 5), (4, 3, 8, 1), {"padding": (2, 0)}),
    ((2, 24, 9, 10), (24, 12, 7, 3), {"padding": (3, 1), "groups": 2}),
    ((2, 3, 13, 14), (4, 3, 3, 8), {"padding": (4, 9), "dilation": (2, 3)}),
]
CONVOLUTIONS += [*DILATED, *LONG]
CORE = [*CONVOLUTIONS[:3], DILATED[0], LONG[1]]


def noted(
    monkeypatch: pytest.MonkeyPatch, kind: str = ""
) -> Iterator[dict[str, list[Dispatch]]]:
    """Have convolutions computed so where they can be; yield dispatches by pass.

    With a `kind` as on devices of it.
    """
    found: dict[str, list[Dispatch]] = {}

    def noting(name: str) -> Any:
        rule = getattr(winograd, name)

        def answered(call: ConvCall) -> list[Dispatch] | None:
            gpu = dataclasses.replace(call.gpu, kind=kind or call.gpu.kind)
            call = call._replace(gpu=gpu)
            dispatches: list[Dispatch] | None = rule(call)
            found.setdefault(name, []).extend(dispatches or ())
            return dispatches

        return answered

    for name in PASSES:
        monkeypatch.setattr(winograd, name, noting(name))
    monkeypatch.setattr(winograd, "TAKEN", True)
    forget_plans()
    yield found
    forget_plans()


@pytest.fixture
def taken(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, list[Dispatch]]]:
    yield from noted(monkeypatch)


@pytest.fixture
def taken_as_on_hardware(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, list[Dispatch]]]:
    skip_where_it_crashes(device.info)
    yield from noted(monkeypatch, "discrete")


def count(dispatches: list[Dispatch], kernel: str) -> int:
    """Return how often a kernel is dispatched."""
    return sum(dispatch.kernel == kernel for dispatch in dispatches)


@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    ("x", "weight", "options"),
    [
        pytest.param(*row, id=name_of(row), marks=[pytest.mark.core] * (row in CORE))
        for row in CONVOLUTIONS
    ],
)
def test_result_and_gradients(
    gpu: GpuDevice,
    taken: dict[str, list[Dispatch]],
    x: tuple[int, ...],
    weight: tuple[int, ...],
    options: dict[str, Any],
) -> None:
    # In NumPy 5 by 5 taps of 8 channels have errors of 1.8e-6: see `winograd`.
    bound = 4e-6 if weight[2:] == (5, 5) else 2e-6
    check(gpu, (x, weight, (weight[0],)), options, bound=bound)
    assert set(taken) == set(PASSES)


@pytest.mark.parametrize("row", [*CONVOLUTIONS[:2], DILATED[1], LONG[1]], ids=name_of)
def test_a_transposed_convolution_adds_its_bias(
    gpu: GpuDevice, taken: dict[str, list[Dispatch]], row: Convolved
) -> None:
    x, (channels, filters, *kernel), options = row
    shapes = (x, (filters, channels, *kernel), (channels,))
    check(gpu, shapes, options, bound=2e-6, name="conv_transpose2d")
    assert taken["input_vjp"][-1].constants["HAS_BIAS"] == 1


@pytest.mark.parametrize(
    ("name", "dilation"),
    [("conv3d", 1), ("conv_transpose3d", 1), ("conv3d", (2, 2, 1))],
)
def test_planes_are_read_and_written_where_they_lie(
    gpu: GpuDevice,
    taken: dict[str, list[Dispatch]],
    name: str,
    dilation: Any,
) -> None:
    options = {"stride": (2, 1, 1), "padding": (2, 1, 1), "dilation": dilation}
    shapes = ((2, 6, 4, 6, 8), (6, 6, 3, 3, 3), (6,))
    check(gpu, shapes, options, bound=3e-6, name=name)
    assert set(taken) == set(PASSES)
    assert all("PLANES" in taken[name][-1].constants for name in PASSES[:2])


@pytest.mark.core
def test_pieces(
    gpu: GpuDevice, taken: dict[str, list[Dispatch]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What exceeds the scratch memory is cut, inside images too."""
    monkeypatch.setattr(winograd, "LEAST_TILES", 8)
    monkeypatch.setattr(winograd, "MOST_BYTES", 36 * 4 * (4 + 4) * 8)
    check(gpu, ((3, 4, 13, 12), (2, 4, 3, 3), (2,)), {"padding": 1}, bound=2e-6)
    for name, number in zip(PASSES, (4, 5, 8)):
        assert count(taken[name], "conv/winograd_images") == number
        dispatches = taken[name]
        memory = {
            value
            for dispatch in dispatches
            for value in dispatch.push.values()
            if isinstance(value, Scratch)
        }
        assert sum(area.size for area in memory) <= 2 * winograd.MOST_BYTES


def test_strided_images_and_one_dimension(
    gpu: GpuDevice, taken: dict[str, list[Dispatch]]
) -> None:
    rng = np.random.default_rng(0)
    signal, taps = rng.uniform(-1, 1, (2, 19, 6)), rng.uniform(-1, 1, (5, 6, 3))
    images, filters = rng.uniform(-1, 1, (3, 9, 8, 4)), rng.uniform(-1, 1, (4, 5, 3, 3))
    mine = [fw.tensor(each.astype("f4"), "float32", gpu) for each in (signal, taps)]
    more = [fw.tensor(each.astype("f4"), "float32", gpu) for each in (images, filters)]
    results = (
        ops.conv1d(mine[0].transpose(1, 2), mine[1], padding=1),
        ops.conv2d(more[0].permute(0, 3, 1, 2), more[1].transpose(0, 1), padding=1),
        ops.conv_transpose2d(more[0].permute(0, 3, 1, 2), more[1], padding=1),
    )
    line, plane = torch.tensor(signal), torch.tensor(images).permute(0, 3, 1, 2)
    turned = torch.tensor(filters)
    wanted = (
        F.conv1d(line.transpose(1, 2), torch.tensor(taps), padding=1),
        F.conv2d(plane, turned.transpose(0, 1), padding=1),
        F.conv_transpose2d(plane, turned, padding=1),
    )
    for found, want in zip(results, wanted):
        assert relative_error(found.numpy(), want.numpy()) < 1e-6
    assert count(taken["forward"], "conv/winograd_images") == 2
    assert count(taken["input_vjp"], "conv/winograd_images") == 1


@pytest.mark.core
@pytest.mark.parametrize("dilation", [(1, 1), (3, 1), (1, 2)])
def test_whole_lines(
    gpu: GpuDevice,
    taken_as_on_hardware: dict[str, list[Dispatch]],
    dilation: tuple[int, int],
) -> None:
    """Results of a line are stored as vectors where they are neighbours."""
    options = {"padding": dilation, "dilation": dilation}
    check(gpu, ((3, 35, 22, 24), (37, 35, 3, 3), (37,)), options, bound=2e-6)
    neighbours = dilation[1] == 1
    for name in PASSES[:2]:
        dispatches = taken_as_on_hardware[name]
        assert bool(count(dispatches, "conv/winograd_output")) == neighbours
        assert bool(count(dispatches, "conv/winograd_output_ragged")) != neighbours


@pytest.mark.parametrize("dilation", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("tile", [1, 4])
def test_each_result_is_of_one_tile(tile: int, dilation: int) -> None:
    """Beside `first_of` of `conv/winograd_tiles.glsl`; no tile is empty."""
    for size in range(1, 64):
        found = []
        for number in range(winograd._tiles(size, tile, dilation)):
            first = number + number // dilation * dilation * (tile - 1)
            assert first < size
            found += range(first, min(first + tile * dilation, size), dilation)
        assert sorted(found) == list(range(size))


@pytest.mark.parametrize(
    ("sizes", "kernel"),
    [
        ((64, 64, 56, 56), "matmul/gemm_simt"),
        ((2, 67, 61, 59), "matmul/gemm_simt"),
        ((1, 512, 7, 7), "matmul/gemm_tiled"),
    ],
)
def test_memory_of_the_products(
    discrete: vkbackend.DeviceInfo, sizes: tuple[int, ...], kernel: str
) -> None:
    """Products read and write scratch memory alone, whatever they pack."""
    call = call_of(discrete, sizes, 66, SAME)
    for rule, names in (
        (winograd.forward, {"weight", "x", "out"}),
        (winograd.input_vjp, {"weight", "grad_out", "out"}),
        (winograd.weight_vjp, {"x", "grad_out", "out"}),
    ):
        found = rule(call)
        assert found is not None
        products = [each for each in found if each.kernel.startswith("matmul/")]
        others = [each for each in found if each.kernel.startswith("conv/")]
        assert any(each.kernel.startswith(kernel) for each in products)
        values = [value for each in others for value in each.push.values()]
        assert {value for value in values if isinstance(value, str)} == names
        assert found[-1].push["out_"] == "out"
        for each in products:
            assert not any(isinstance(value, str) for value in each.push.values())
            for value in each.push.values():
                if isinstance(value, BufferOffset):
                    assert isinstance(value.memory, Scratch)


@pytest.mark.core
@pytest.mark.parametrize(
    ("width", "dilation", "fused"),
    [(8, (1, 1), True), (6, (1, 1), False), (8, (2, 1), True), (8, (1, 2), False)],
)
def test_results_go_on_into_what_follows(
    gpu: GpuDevice,
    taken_as_on_hardware: dict[str, list[Dispatch]],
    width: int,
    dilation: tuple[int, int],
    fused: bool,
) -> None:
    """An epilogue takes lines of whole vectors of neighbours."""
    options: dict[str, Any] = {"padding": dilation, "dilation": dilation}
    rng = np.random.default_rng(0)
    shapes = ((3, 4, 6, width), (7, 4, 3, 3), (7,), (3, 7, 6, width))
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    x, weight, bias, other = (fw.tensor(each, "float32", gpu) for each in arrays)
    got = ops.relu(ops.conv2d(x, weight, bias, **options) + other).numpy()
    sources = [text for plan in gpu.plans.values() for text in plan.sources.values()]
    assert fused == any("void epilogue(" in text for text in sources)
    images, filters, each, more = (torch.from_numpy(array) for array in arrays)
    want = F.relu(F.conv2d(images, filters, each, **options) + more)
    assert relative_error(got, want.numpy().astype(np.float64)) < 1e-6
    assert taken_as_on_hardware["forward"]


@pytest.mark.parametrize(
    ("x", "weight"),
    [
        ((2, 6, 1, 35), (5, 6, 1, 5)),
        pytest.param((2, 6, 1, 40), (5, 6, 1, 3), marks=pytest.mark.core),
        ((2, 3, 19, 3), (5, 3, 5, 1)),
    ],
)
def test_large_tiles(
    gpu: GpuDevice,
    taken: dict[str, list[Dispatch]],
    monkeypatch: pytest.MonkeyPatch,
    x: tuple[int, ...],
    weight: tuple[int, ...],
) -> None:
    monkeypatch.setattr(winograd, "LINE_TILES", winograd.LARGE_LINE_TILES)
    padding = weight[2] // 2, weight[3] // 2
    check(gpu, (x, weight, (weight[0],)), {"padding": padding}, bound=1e-5)
    (constants,) = {
        (each.constants["TILE_DOWN"], each.constants["TILE_ACROSS"])
        for dispatches in taken.values()
        for each in dispatches
        if "TILE_DOWN" in each.constants
    }
    assert max(constants) == 8


def test_tiles_by_precision(discrete: vkbackend.DeviceInfo) -> None:
    """Where float32 may be scaled, tiles with smaller errors than its may be larger."""
    line = Window((1, 5), (1, 1), (0, 2), (1, 1))
    call = call_of(discrete, (16, 256, 1, 4096), 256, line)
    split = call._replace(how=call.how._replace(mode=SCALED_FLOAT16))
    for each, tile in ((call, 4), (split, 8)):
        found = winograd.forward(each)
        assert found is not None
        assert found[0].constants["TILE_ACROSS"] == tile


def test_many_channels_keep_the_precision(
    gpu: GpuDevice, taken: dict[str, list[Dispatch]]
) -> None:
    check(gpu, ((1, 96, 9, 12), (40, 96, 3, 3)), {"padding": 1}, bound=2e-6)
    check(gpu, ((1, 96, 1, 40), (40, 96, 1, 5)), {"padding": (0, 2)}, bound=2e-6)
    assert set(taken) == set(PASSES)


NUMBERS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "positive": lambda rng, shape: np.maximum(rng.standard_normal(shape), 0),
    "around 100": lambda rng, shape: 100 + rng.standard_normal(shape),
    "a hundredth is large": lambda rng, shape: (
        rng.standard_normal(shape) * np.where(rng.random(shape) < 0.01, 1e3, 1)
    ),
}


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("channels", [8, 64])
def test_errors_of_planes_of_five_taps(
    gpu: GpuDevice,
    taken: dict[str, list[Dispatch]],
    numbers: str,
    channels: int,
) -> None:
    """Errors of F(4x4, 5x5) beside those of float32 sums in the order of the taps.

    In NumPy they were up to 8.2 times as large with 8 channels and 5.3 with 64, see
    `winograd`; filters that sum to zero leave only errors of images around 100.
    """
    rng = np.random.default_rng(0)
    x = NUMBERS[numbers](rng, (1, channels, 12, 12)).astype(np.float32)
    weight = rng.standard_normal((8, channels, 5, 5))
    weight -= weight.mean((1, 2, 3), keepdims=True)
    weight = weight.astype(np.float32)
    window = Window((5, 5), (1, 1), (0, 0), (1, 1))
    patches = window.patches(x, 0)[0].transpose(0, 3, 4, 1, 2).reshape(-1, 8, 8)
    taps = weight.reshape(8, -1)
    want = np.einsum("rk,khw->rhw", taps.astype("f8"), patches.astype("f8"))
    plain = np.zeros((8, 8, 8), np.float32)
    for k, patch in enumerate(patches):
        plain += taps[:, k, None, None] * patch
    found = ops.conv2d(*(fw.tensor(each, "float32", gpu) for each in (x, weight)))
    error, usual = (relative_error(each, want) for each in (found.numpy()[0], plain))
    assert error < {8: 10, 64: 7}[channels] * usual
    assert taken["forward"][0].constants["TILE_DOWN"] == 4


def test_long_sums_are_cut(
    gpu: GpuDevice, taken: dict[str, list[Dispatch]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winograd, "MOST_SUMMED", 40)
    check(gpu, ((3, 2, 19, 22), (3, 2, 3, 3)), {"padding": 1}, bound=2e-6)
    assert count(taken["forward"], "conv/winograd_images") == 1
    cut = not gpu.gpu.info.target.hides_latency
    assert count(taken["weight_vjp"], "conv/winograd_images") == (6 if cut else 2)


def test_second_gradients(gpu: GpuDevice, taken: dict[str, list[Dispatch]]) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, shape) for shape in ((2, 3, 6, 8), (4, 3, 3, 3))]
    mine = [fw.tensor(each.astype("f4"), "float32", gpu, True) for each in arrays]
    twins = [torch.tensor(each, requires_grad=True) for each in arrays]

    def again(conv: Any, grad: Any, operands: Any) -> Any:
        found = grad((conv(*operands, padding=1) ** 2).sum(), operands, create_graph=1)
        return grad(sum((each**2).sum() for each in found), operands)

    found = again(ops.conv2d, fw.autograd.grad, mine)
    wanted = again(F.conv2d, torch.autograd.grad, twins)
    for each, want in zip(found, wanted):
        assert relative_error(each.numpy(), want.numpy()) < 2e-6
    assert set(taken) == set(PASSES)


def test_when_it_is_taken(
    discrete: vkbackend.DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def taken(call: ConvCall) -> bool:
        rules = [getattr(winograd, name)(call) for name in PASSES]
        times = [winograd.microseconds(call, name) for name in PASSES]
        assert all(found is None for found in rules) == all(map(math.isinf, times))
        return max(times) < math.inf

    many = call_of(discrete, (4, 320, 64, 64), 320, SAME)
    assert taken(many)
    monkeypatch.setattr(winograd, "TAKEN", False)
    assert not taken(many)
    monkeypatch.setattr(winograd, "TAKEN", True)
    assert taken(call_of(discrete, (1, 1, 3, 3), 1, SAME))
    for other in (
        SAME._replace(stride=(2, 1)),
        SAME._replace(dilation=(1, 1 << 27), padding=(1, 1 << 27)),
        SAME._replace(kernel=(1, 1)),
        SAME._replace(kernel=(11, 11), padding=(5, 5)),
        SAME._replace(kernel=(3, 2)),
    ):
        assert not taken(call_of(discrete, (4, 320, 64, 64), 320, other))
    assert not taken(call_of(discrete, (4, 320, 64, 64), 320, SAME, float16))
    apart = SAME._replace(dilation=(1, 2))
    assert taken(call_of(discrete, (4, 320, 64, 64), 320, apart))
    assert taken(call_of(discrete, (4, 320, 64, 64), 320, SAME, float32, 2))
    assert not taken(call_of(discrete, (4, 30, 64, 64), 30, SAME, float32, 5))
    assert not taken(call_of(discrete, (0, 320, 64, 64), 320, SAME))
    # Results beyond what 32-bit places reach, filters beyond the scratch memory.
    assert not taken(call_of(discrete, (1 << 10, 512, 64, 64), 320, SAME))
    assert not taken(call_of(discrete, (1, 4096, 64, 64), 4096, SAME))


def test_what_is_quicker(
    gpu: GpuDevice, device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few channels and small images are left to other kernels."""
    for info in (device.info, as_hardware(device.info)):

        def quick(shape: tuple[int, ...], filters: int) -> bool:
            call = call_of(info, shape, filters, SAME)  # noqa: B023 - called within
            times = [winograd.microseconds(call, name) for name in PASSES]
            return any(time < math.inf for time in times)

        assert quick((16, 128, 56, 56), 128)
        assert not quick((1, 64, 7, 7), 64)
        assert not quick((1, 16, 8, 8), 16)
    change_model(monkeypatch, winograd_bytes_per_microsecond=1e-9)
    assert not quick((16, 128, 56, 56), 128)


def test_long_lines_are_taken_where_segments_are_quicker(
    discrete: vkbackend.DeviceInfo,
) -> None:
    info = dataclasses.replace(discrete, vendor_id=0x10DE)

    def quick(sizes: tuple[int, ...], taps: tuple[int, int]) -> bool:
        padding = taps[0] // 2, taps[1] // 2
        call = call_of(info, sizes, sizes[1], Window(taps, (1, 1), padding, (1, 1)))
        own = winograd.microseconds(call, "forward")
        return own < math.inf and implicit_gemm.forward(call, None, own) is None

    assert quick((16, 256, 1, 4096), (1, 9))
    assert quick((8, 128, 28, 28), (7, 7))
    assert not quick((1, 64, 1, 256), (1, 9))
    assert not quick((8, 16, 28, 28), (7, 7))


@pytest.mark.parametrize(
    ("sizes", "filters", "quick"),
    [
        ((32, 64, 56, 56), 64, True),
        ((32, 128, 28, 28), 128, True),
        ((32, 512, 14, 14), 512, True),
        ((1, 64, 14, 14), 64, False),
        ((8, 32, 28, 28), 32, False),
    ],
)
def test_planes_of_five_taps_are_taken_where_they_are_many(
    discrete: vkbackend.DeviceInfo, sizes: tuple[int, ...], filters: int, quick: bool
) -> None:
    """On an H200 the first took 170 us so, 471 by the implicit GEMM."""
    info = dataclasses.replace(discrete, vendor_id=0x10DE)
    call = call_of(info, sizes, filters, Window((5, 5), (1, 1), (2, 2), (1, 1)))
    for name in PASSES:
        own = winograd.microseconds(call, name)
        assert (own < math.inf) == quick
        assert not quick or getattr(implicit_gemm, name)(call, None, own) is None
