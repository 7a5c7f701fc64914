"""Convolutions with filters of one pixel, and when images are read as they lie."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend
import vkbackend.framework as fw
from tests.framework.ops.large import relative_error
from tests.hardware import skip_where_it_crashes
from vkbackend.framework import ops
from vkbackend.framework.device import GpuDevice, opened_devices
from vkbackend.framework.dispatch import Placed
from vkbackend.framework.dtype import DType, float16, float32
from vkbackend.framework.ops import conv_pointwise
from vkbackend.framework.ops.product_tile import PLAIN, UNITS
from vkbackend.framework.ops.window import Window
from vkbackend.framework.shape import Layout

pytestmark = pytest.mark.core

PASSES = ("forward", "input_vjp")
PIXEL = Window((1, 1), (1, 1), (0, 0), (1, 1))


@pytest.fixture
def taken(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """Let any device take these products; yield the passes that did."""
    skip_where_it_crashes(device.info)
    seen: list[str] = []
    for name in PASSES:
        rule = getattr(conv_pointwise, name)

        def answered(
            gpu: vkbackend.DeviceInfo, *rest: Any, rule: Any = rule, name: str = name
        ) -> Any:
            found = rule(dataclasses.replace(gpu, kind="discrete"), *rest)
            seen.extend([name] if found else [])
            return found

        monkeypatch.setattr(conv_pointwise, name, answered)
    _forget_plans()
    yield seen
    _forget_plans()


def _forget_plans() -> None:
    for device in opened_devices():
        device.plans.clear()


# The depth of the second is no whole tile, so its filters are copied; nor is its width.
@pytest.mark.parametrize(("channels", "filters"), [(64, 80), (70, 40)])
@pytest.mark.parametrize("bias", [False, True])
def test_result_and_gradients(
    gpu: GpuDevice, taken: list[str], channels: int, filters: int, bias: bool
) -> None:
    rng = np.random.default_rng(0)
    shapes = ((3, channels, 14, 20), (filters, channels, 1, 1), (filters,))[: 2 + bias]
    arrays = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    mine = [fw.tensor(each, "float32", gpu, True) for each in arrays]
    twins = [torch.tensor(x, dtype=torch.float64).requires_grad_() for x in arrays]
    found, wanted = ops.conv2d(*mine), F.conv2d(*twins)
    assert relative_error(found.numpy(), wanted.detach().numpy()) < 1e-6
    grad = rng.uniform(-1, 1, found.shape).astype(np.float32)
    found.backward(fw.tensor(grad, "float32", gpu))
    wanted.backward(torch.from_numpy(grad).double())
    for one, other in zip(mine, twins):
        assert other.grad is not None
        assert relative_error(one.grad.numpy(), other.grad.numpy()) < 1e-6
    # Where the depth is no whole tile, images would be copied.
    whole = {"forward": channels % 16 == 0, "input_vjp": filters % 16 == 0}
    assert {name: name in taken for name in PASSES} == whole


def placed(dtype: DType, *shape: int) -> Placed:
    return Placed(shape, dtype, Layout.contiguous(shape))


def test_what_is_left_to_other_kernels(device: vkbackend.Device) -> None:
    gpu = dataclasses.replace(
        device.info,
        kind="discrete",
        subgroup_size=32,
        max_shared_memory=49152,
        max_workgroup_invocations=1024,
    )

    def found(
        edge: int, window: Window = PIXEL, dtype: DType = float32
    ) -> tuple[bool, bool]:
        mode = PLAIN if dtype is float32 else UNITS
        size = window.output(edge, edge)
        x, grad = placed(dtype, 64, 64, edge, edge), placed(dtype, 64, 128, *size)
        weight = placed(dtype, 128, 64, *window.kernel)
        answers = (
            conv_pointwise.forward(gpu, x, weight, None, window, mode),
            conv_pointwise.input_vjp(gpu, grad, weight, (edge, edge), window, mode),
        )
        return answers[0] is not None, answers[1] is not None

    assert found(56) == found(14) == found(56, dtype=float16) == (True, True)
    # Lines of 49 pixels, of 64, and of 196 in vectors of 8.
    assert found(7) == found(8) == found(14, dtype=float16) == (False, False)
    for other in (
        Window((3, 3), (1, 1), (1, 1), (1, 1)),
        PIXEL._replace(stride=(2, 2)),
        PIXEL._replace(padding=(1, 1)),
    ):
        assert found(56, other) == (False, False)
