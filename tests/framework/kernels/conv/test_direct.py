"""Convolutions of groups with few channels, and when they are computed directly."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.convolutions import (
    Convolved,
    both_ways,
    call_of,
    check,
    name_of,
    on_any_device,
)
from tests.framework.ops.large import relative_error
from tests.hardware import skip_where_it_crashes
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DType, float32, float64
from vkbackend.framework.ir.kernel_call import Dispatch
from vkbackend.framework.kernels.conv import direct
from vkbackend.framework.kernels.conv.window import Window

PASSES = ("forward", "input_vjp", "weight_vjp")
WINDOW = Window((3, 3), (1, 1), (1, 1), (1, 1))

CONVOLUTIONS: list[Convolved] = [
    ((2, 4, 12, 12), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
    ((2, 6, 7, 9), (9, 2, 3, 3), {"groups": 3, "stride": 2, "padding": 3}),
    ((1, 4, 11, 13), (8, 2, 5, 2), {"groups": 2, "stride": (2, 3)}),
    ((3, 5, 8, 10), (10, 1, 3, 3), {"groups": 5, "dilation": (2, 3)}),
    ((1, 2, 1, 1), (2, 1, 1, 1), {"groups": 2}),
    ((3, 2, 90, 91), (2, 1, 3, 3), {"groups": 2}),
]


# Lines of whole vectors and others, tiles of several channels, more padding than a
# window, a segment that no line fills.
TILED: list[Convolved] = [
    ((2, 8, 5, 16), (8, 4, 3, 3), {"groups": 2, "padding": 1}),
    ((1, 4, 6, 28), (12, 2, 3, 5), {"groups": 2, "padding": (1, 2)}),
    ((2, 6, 6, 14), (12, 3, 3, 3), {"groups": 2, "padding": 1, "dilation": 2}),
    ((1, 8, 7, 24), (8, 2, 1, 3), {"groups": 4, "padding": (0, 4)}),
    ((2, 4, 5, 19), (8, 1, 2, 4), {"groups": 4, "stride": (1, 2), "padding": 1}),
    ((1, 2, 9, 40), (2, 1, 7, 7), {"groups": 2, "stride": 1, "padding": 3}),
]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[str]]]:
    yield from on_any_device(monkeypatch, direct, *PASSES)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("x", "weight", "options"),
    [
        pytest.param(*row, id=name_of(row), marks=[] if number else [pytest.mark.core])
        for number, row in enumerate(CONVOLUTIONS)
    ],
)
def test_result_and_gradients(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    options: dict[str, Any],
    bias: bool,
    gpu: GpuDevice,
    taken: dict[str, list[str]],
) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    shapes = [x, weight, (weight[0],)][: 2 + bias]
    # Of the largest gradient, 23,000 terms of size 1.
    scales = (10, 200, 200, 200)

    def make(array: np.ndarray, grad: bool = False) -> fw.Tensor:
        return fw.tensor(array, "float32", gpu, grad)

    for (found, wanted), scale in zip(both_ways(make, shapes, options), scales):
        assert_close(found, wanted.astype(np.float32), scale=scale)
    assert set(taken) == set(PASSES)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("x", "weight", "options"),
    [
        pytest.param(*row, id=name_of(row), marks=[pytest.mark.wide] if n > 3 else [])
        for n, row in enumerate(TILED)
    ],
)
def test_register_tiles(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    options: dict[str, Any],
    dtype: str,
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if dtype == "float16" and not gpu.gpu.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")
    skip_where_it_crashes(gpu.gpu.info)
    monkeypatch.setattr(direct, "MIN_TILES", 0)
    monkeypatch.setattr(direct, "MIN_SPLIT_SEGMENTS", 8)

    def make(array: np.ndarray, grad: bool = False) -> fw.Tensor:
        return fw.tensor(array, dtype, gpu, grad)

    shapes = [x, weight, (weight[0],)]
    for found, wanted in both_ways(make, shapes, options):
        bound = 1e-6 if dtype == "float32" else 5e-4
        assert relative_error(found.detach().numpy(), wanted) < bound
    dgrad = "conv/direct" if options.get("stride", 1) == 1 else "conv/depthwise"
    assert taken["forward"] == ["conv/direct"]
    assert taken["input_vjp"] == [dgrad]
    assert taken["weight_vjp"][0] == "conv/direct_wgrad"


@pytest.mark.parametrize("stride", [1, 2])
def test_a_transposed_convolution_adds_its_bias(
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    stride: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    monkeypatch.setattr(direct, "MIN_TILES", 0)
    shapes = ((2, 6, 5, 7), (6, 2, 3, 3), (4,))
    options = {"groups": 2, "stride": stride, "padding": 1}
    check(gpu, shapes, options, name="conv_transpose2d")
    assert taken["input_vjp"] == ["conv/direct" if stride == 1 else "conv/depthwise"]


@pytest.mark.parametrize("stride", [(2, 1, 1), (1, 2, 2)])
@pytest.mark.parametrize("name", ["conv3d", "conv_transpose3d"])
def test_planes_are_read_and_written_where_they_lie(
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    name: str,
    stride: tuple[int, int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    monkeypatch.setattr(direct, "MIN_TILES", 0)
    options = {"groups": 6, "stride": stride, "padding": 1}
    shapes = ((2, 6, 5, 4, 8), (6, 1, 3, 3, 3), (6,))
    check(gpu, shapes, options, bound=2e-6, name=name)
    assert set(taken) == set(PASSES)


def test_an_infinity_behind_the_last_window_counts_nowhere(
    gpu: GpuDevice, taken: dict[str, list[str]]
) -> None:
    values = np.ones((1, 2, 1, 10), np.float32)
    values[..., 9] = np.inf
    x = fw.tensor(values, device=gpu)
    weight = fw.ones((2, 1, 1, 3), device=gpu).requires_grad_()
    out = ops.conv2d(x, weight, groups=2, stride=(1, 3))
    assert out.shape[3] == 3
    out.sum().backward()
    assert weight.grad.tolist() == [[[[3.0] * 3]]] * 2


def test_tiles_are_as_large_as_there_is_work(discrete: vkbackend.DeviceInfo) -> None:
    def tile(batch: int, width: int, each: int, dtype: DType = float32) -> Any:
        x = (batch, 8 * each, width, width)
        found = direct.forward(call_of(discrete, x, 8 * each, WINDOW, dtype, 8))
        assert isinstance(found, Dispatch)
        names = ("CHANNELS", "PIXELS", "VECTORS", "VECTOR_STORES")
        return tuple(found.constants[name] for name in names)

    assert tile(256, 56, 8) == (8, 8, 1, 1)
    assert tile(256, 56, 1) == (1, 8, 1, 1)
    assert tile(256, 28, 6) == (6, 4, 1, 1)
    assert tile(256, 14, 8) == (4, 7, 0, 0)
    assert tile(1, 14, 8) == (1, 4, 0, 0)
    assert tile(256, 56, 8, float64) == (8, 8, 0, 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_sum_in_float32(
    dtype: str, gpu: GpuDevice, taken: dict[str, list[str]]
) -> None:
    if not gpu.gpu.info.storage_16bit:
        pytest.skip("the device cannot store 16-bit floats")
    x = fw.ones((3, 2, 80, 111), dtype, gpu)
    weight = fw.ones((2, 1, 1, 1), dtype, gpu).requires_grad_()
    out = ops.conv2d(x, weight, groups=2)
    out.backward(fw.ones(out.shape, dtype, gpu))
    want = fw.full((2, 1, 1, 1), 3.0 * 80 * 111, dtype=dtype, device=gpu)
    np.testing.assert_array_equal(weight.grad.numpy(), want.numpy())
    assert "weight_vjp" in taken


def test_what_is_left_to_other_kernels(discrete: vkbackend.DeviceInfo) -> None:
    software = dataclasses.replace(discrete, kind="software")

    def found(info: vkbackend.DeviceInfo, groups: int, each: int) -> list[bool]:
        channels = groups * each
        call = call_of(info, (2, channels, 8, 8), channels, WINDOW, groups=groups)
        return [getattr(direct, name)(call) is not None for name in PASSES]

    assert found(discrete, 32, 1) == found(discrete, 4, 8) == [True] * 3
    assert found(discrete, 1, 8) == found(discrete, 4, 16) == [False] * 3
    assert found(software, 4, 8) == [False] * 3
    large = Window((9, 9), (1, 1), (4, 4), (1, 1))
    assert (
        direct.weight_vjp(call_of(discrete, (2, 4, 8, 8), 4, large, groups=4)) is None
    )


def test_a_long_sum_is_cut_into_parts(discrete: vkbackend.DeviceInfo) -> None:
    call = call_of(discrete, (64, 32, 112, 112), 32, WINDOW, groups=32)
    found = direct.weight_vjp(call)
    assert found is not None
    first, last = found
    assert first.grid == (32, 1, 64)
    assert last.kernel == "reduce/reduce"
