"""Scales of images, filters and channels: what is far apart, and the kernel itself."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

import vkbackend
import vkbackend.framework as fw
from tests.framework.kernels.conv.test_implicit_gemm import (
    WINDOW,
    Convolved,
    dispatched,
    emulated_products,
)
from tests.framework.ops.convolutions import call_of
from tests.framework.ops.large import relative_error
from tests.kernel_run import division, run
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ir.kernel_call import Dispatch
from vkbackend.framework.kernels.conv import direct, implicit_gemm
from vkbackend.framework.kernels.conv.largest import of_channels, of_filters, of_images
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.kernels.conv.window_grid import WindowGrid
from vkbackend.framework.kernels.gemm.tiles import SCALED_FLOAT16, TileConfig
from vkbackend.framework.kernels.gpu_model import TENSOR_CORE_TILES


@pytest.fixture
def products(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Dispatch]]:
    yield from emulated_products(gpu, monkeypatch)


SCALES: list[tuple[str, Convolved]] = [
    ("conv2d", ((3, 10, 7, 6), (12, 10, 3, 3), {"padding": 1})),
    ("conv2d", ((3, 8, 9, 8), (16, 4, 3, 2), {"stride": 2, "groups": 2})),
    ("conv2d", ((3, 8, 8, 8), (16, 8, 2, 2), {"stride": 2})),
    ("conv3d", ((3, 8, 3, 4, 4), (9, 8, 2, 3, 3), {"padding": 1})),
]


@pytest.mark.parametrize(("name", "row"), SCALES)
def test_scales_of_images_filters_and_channels(
    gpu: GpuDevice,
    products: list[Dispatch],
    name: str,
    row: Convolved,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that are far apart, beyond the range of float16, are as exact as others."""
    monkeypatch.setattr(direct, "MOST_ROWS", 0)  # Which hardware would take it by.
    config = TileConfig(TENSOR_CORE_TILES[3], 1, wide=True)
    monkeypatch.setattr(implicit_gemm, "_best_config", lambda *_, **__: config)
    x, weight, options = row
    # Those of filters have scales by channel.
    for images, filters, seeds in ((0, 0, 0), (1, 0, 1)):
        numbers = [
            np.float32(np.random.default_rng(0).standard_normal(shape))
            for shape in (x, weight)
        ]
        numbers[0] *= per(x, images, 50)
        numbers[1] *= per(weight, filters, 40)
        out_shape = getattr(F, name)(*map(torch.zeros, (x, weight)), **options).shape
        seed = np.random.default_rng(1).standard_normal(out_shape)
        seed = np.float32(seed * per(out_shape, seeds, 30))
        tensors = [fw.tensor(each, device=gpu) for each in numbers]
        found = results(name, tensors, seed, options)
        doubles = [torch.from_numpy(np.float64(each)) for each in numbers]
        wanted = results(name, doubles, np.float64(seed), options)
        magnitudes = [each.detach().abs() for each in doubles]
        most = results(name, magnitudes, np.float64(np.abs(seed)), options)
        kept = (2,) if images else (0, 1)
        for at in kept:
            # The rounding of two factors, of 11 bits each, and of sums.
            assert (np.abs(found[at] - wanted[at]) <= 1.02 * 2**-10 * most[at]).all()
    kernels = [each.kernel for each in products]
    assert kernels.count("matmul/gemm_coopmat") == 3


def results(
    name: str, operands: list[Any], seed: np.ndarray, options: dict[str, Any]
) -> list[np.ndarray]:
    """Return a convolution and its gradients, of this library or of PyTorch."""
    ours = isinstance(operands[0], fw.Tensor)
    for each in operands:
        each.requires_grad = True
    out = getattr(ops if ours else F, name)(*operands, **options)
    device = operands[0].device
    out.backward(fw.tensor(seed, device=device) if ours else torch.from_numpy(seed))
    return [each.detach().numpy() for each in (out, *(x.grad for x in operands))]


def per(shape: tuple[int, ...], dim: int, most: int) -> np.ndarray:
    """Return powers of two along a dimension, from 2^-most to 2^most."""
    scales = 2.0 ** np.linspace(-most, most, shape[dim]).round()
    return scales.reshape([-1 if at == dim else 1 for at in range(len(shape))])


def test_an_infinity_stays_in_its_windows(
    gpu: GpuDevice, products: list[Dispatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TileConfig(TENSOR_CORE_TILES[3], 1, wide=True)
    monkeypatch.setattr(implicit_gemm, "_best_config", lambda *_, **__: config)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 8, 9, 8)).astype(np.float32)
    weight = rng.standard_normal((8, 8, 3, 3)).astype(np.float32)
    x[0, 3, 4, 4], x[1, 2, 1, 1] = np.inf, np.nan
    got = ops.conv2d(fw.tensor(x, device=gpu), fw.tensor(weight, device=gpu)).numpy()
    want = F.conv2d(torch.from_numpy(x), torch.from_numpy(weight)).numpy()
    finite = np.isfinite(want)
    np.testing.assert_array_equal(np.isfinite(got), finite)
    assert relative_error(got[finite], want[finite]) < 4e-4


def test_where_float32_is_not_scaled(discrete: vkbackend.DeviceInfo) -> None:
    large = call_of(discrete, (8, 1024, 32, 32), 128, WINDOW)
    large = large._replace(how=large.how._replace(mode=SCALED_FLOAT16))
    small = call_of(discrete, (8, 16, 16, 16), 128, WINDOW)
    small = small._replace(how=large.how)
    for call, name in (
        (large, "forward"),
        (large, "weight_vjp"),
        (large._replace(bias=True), "forward"),
    ):
        found = dispatched(name, call)
        assert found is not None
        assert "matmul/gemm_coopmat" in [row.kernel for row in found]
    found = dispatched("forward", small) or []
    assert "matmul/gemm_coopmat" not in [row.kernel for row in found]


@pytest.mark.parametrize("unit", [1, 4])
@pytest.mark.parametrize("slices", [1, 3])
def test_kernel(device: vkbackend.Device, slices: int, unit: int) -> None:
    """Groups in runs, in a batch; what is not finite has no magnitude."""
    x = np.random.default_rng(0).standard_normal((2, 5, 3, 700)).astype(np.float32)
    x[0, 1, 2, 699], x[1, 4, 0, 0], x[1, 3, 2, 1] = -77, np.inf, np.nan
    arguments = {
        **{"x": x, "groups": 3, "elements": 3500 // unit, "run": 700 // unit},
        **{"run_stride": 2100 // unit, "group_stride": 700 // unit},
        **{"batch_stride": 10500 // unit, **division("run", 700 // unit)},
    }
    (got,) = run(
        device,
        "conv/largest",
        (3 * slices, 1, 2),
        {"largest": ((2, 3, slices), np.uint32)},
        {"LOCAL_X": 64, "SLICES": slices, "RUNS": 1},
        arguments,
        defines={"WIDE_LOADS": "1"} if unit > 1 else {},
    )
    want = np.where(np.isfinite(x), np.abs(x), 0).max((1, 3))
    np.testing.assert_array_equal(got.view(np.float32).max(2), want)


def test_groups(discrete: vkbackend.DeviceInfo) -> None:
    """Of volumes, channels and filters; slices fill the device, and are not short."""
    windows = WindowGrid(6, 40, (9, 7), (1, 1), (9, 7), planes=2)
    images = of_images(discrete, "x", windows)
    channels = of_channels(discrete, "x", windows)
    assert (images.groups, channels.groups) == (3, 40)
    # They are counted in vectors of four, if all are whole.
    assert images.dispatch.defines == {"WIDE_LOADS": "1"}
    assert images.dispatch.push["elements"] == 40 * 2 * 63 // 4
    assert images.dispatch.constants["RUNS"] == 0
    assert images.slices == 2
    assert not channels.dispatch.defines
    assert channels.dispatch.push["run_stride"] == 40 * 2 * 63
    window = Window((3, 3), (1, 1), (1, 1), (1, 1))
    call = call_of(discrete, (1, 12, 9, 9), 40, window, groups=4)
    assert of_filters(call, for_input=False).groups == 40
    inputs = of_filters(call, for_input=True)
    assert (inputs.groups, inputs.dispatch.grid[2]) == (12, 4)
    large = of_images(discrete, "x", windows._replace(images=2, size=(2000, 2000)))
    assert large.slices == 64
