"""Convolutions of groups with few channels, and when they are computed directly."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend
import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.device import GpuDevice, opened_devices
from vkbackend.framework.dispatch import Placed
from vkbackend.framework.dtype import float32
from vkbackend.framework.ops import conv_direct
from vkbackend.framework.ops.window import Window
from vkbackend.framework.shape import Layout

pytestmark = pytest.mark.core

PASSES = ("forward", "input_vjp", "weight_vjp")

CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 4, 12, 12), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
    ((2, 6, 7, 9), (9, 2, 3, 3), {"groups": 3, "stride": 2, "padding": 3}),
    ((1, 4, 11, 13), (8, 2, 5, 2), {"groups": 2, "stride": (2, 3)}),
    ((3, 5, 8, 10), (10, 1, 3, 3), {"groups": 5, "dilation": (2, 3)}),
    ((1, 2, 1, 1), (2, 1, 1, 1), {"groups": 2}),
    ((3, 2, 90, 91), (2, 1, 3, 3), {"groups": 2}),
]
IDS = [f"{x}-{weight}-{options}" for x, weight, options in CONVOLUTIONS]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Let any device take these kernels; yield the passes that did."""
    seen: list[str] = []
    for name in PASSES:
        rule = getattr(conv_direct, name)

        def answered(
            gpu: vkbackend.DeviceInfo, *rest: Any, rule: Any = rule, name: str = name
        ) -> Any:
            found = rule(dataclasses.replace(gpu, kind="discrete"), *rest)
            seen.extend([name] if found else [])
            return found

        monkeypatch.setattr(conv_direct, name, answered)
    _forget_plans()
    yield seen
    _forget_plans()


def _forget_plans() -> None:
    for device in opened_devices():
        device.plans.clear()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("x", "weight", "options"), CONVOLUTIONS, ids=IDS)
def test_result_and_gradients(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    options: dict[str, Any],
    bias: bool,
    gpu: GpuDevice,
    taken: list[str],
) -> None:
    rng = np.random.default_rng(0)
    shapes = [x, weight, (weight[0],)][: 2 + bias]
    data = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    inputs = [fw.tensor(each, "float32", gpu, True) for each in data]
    twins = [torch.tensor(each, dtype=torch.float64).requires_grad_() for each in data]
    found, wanted = ops.conv2d(*inputs, **options), F.conv2d(*twins, **options)
    assert_close(found, wanted.detach().float().numpy(), scale=10)
    grad = rng.uniform(-1, 1, found.shape).astype(np.float32)
    found.backward(fw.tensor(grad, "float32", gpu))
    wanted.backward(torch.from_numpy(grad).double())
    for one, other in zip(inputs, twins):
        assert other.grad is not None
        # Of the largest, 23,000 terms of size 1.
        assert_close(one.grad, other.grad.float().numpy(), scale=200)
    assert set(taken) == set(PASSES)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_sum_in_float32(
    dtype: str, gpu: GpuDevice, taken: list[str]
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


def placed(*shape: int) -> Placed:
    return Placed(shape, float32, Layout.contiguous(shape))


def test_what_is_left_to_other_kernels(device: vkbackend.Device) -> None:
    gpu = dataclasses.replace(device.info, kind="discrete")
    software = dataclasses.replace(gpu, kind="software")
    window = Window((3, 3), (1, 1), (1, 1), (1, 1))

    def found(info: vkbackend.DeviceInfo, groups: int, each: int) -> list[bool]:
        channels = groups * each
        x, grad = placed(2, channels, 8, 8), placed(2, channels, 8, 8)
        weight = placed(channels, each, 3, 3)
        answers = (
            conv_direct.forward(info, x, weight, None, window, groups),
            conv_direct.input_vjp(info, grad, weight, (8, 8), window, groups),
            conv_direct.weight_vjp(info, grad, x, window, groups),
        )
        return [answer is not None for answer in answers]

    assert found(gpu, 32, 1) == found(gpu, 4, 8) == [True] * 3
    assert found(gpu, 1, 8) == found(gpu, 4, 16) == found(software, 4, 8) == [False] * 3
    large = Window((9, 9), (1, 1), (4, 4), (1, 1))
    x = placed(2, 4, 8, 8)
    assert conv_direct.weight_vjp(gpu, x, x, large, 4) is None


def test_a_long_sum_is_cut_into_parts(device: vkbackend.Device) -> None:
    gpu = dataclasses.replace(device.info, kind="discrete")
    x = placed(64, 32, 112, 112)
    window = Window((3, 3), (1, 1), (1, 1), (1, 1))
    found = conv_direct.weight_vjp(gpu, x, x, window, 32)
    assert found is not None
    first, last = found
    assert first.grid == (32, 1, 33)
    assert last.kernel == "reduce/reduce"
