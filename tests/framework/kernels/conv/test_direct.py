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
    name_of,
    on_any_device,
)
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
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
    shapes = [x, weight, (weight[0],)][: 2 + bias]
    # Of the largest gradient, 23,000 terms of size 1.
    scales = (10, 200, 200, 200)

    def make(array: np.ndarray, grad: bool = False) -> fw.Tensor:
        return fw.tensor(array, "float32", gpu, grad)

    for (found, wanted), scale in zip(both_ways(make, shapes, options), scales):
        assert_close(found, wanted.astype(np.float32), scale=scale)
    assert set(taken) == set(PASSES)


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
    assert first.grid == (32, 1, 33)
    assert last.kernel == "reduce/reduce"
