"""Gradients of normalisation on their own: one reading gives what two gave."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import draw
from vkbackend import DeviceInfo
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import bfloat16
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels import norm
from vkbackend.framework.ops.norm.layer_norm import (
    layer_norm_dgamma,
    layer_norm_dx,
    layer_norm_dx_dgamma,
)

Make = Callable[..., fw.Tensor]


def inputs(rows: int, count: int) -> list[np.ndarray]:
    """Return gradients, rows, weights, means and inverse deviations."""
    shapes = ((rows, count), (rows, count), (count,), (rows,), (rows,))
    return [draw(*shape, seed=k) + k for k, shape in enumerate(shapes)]


def compare(given: list[fw.Tensor], centred: bool) -> None:
    grad, x, weight, mean, inverse_std = given
    whole = layer_norm_dx_dgamma(grad, x, weight, mean, inverse_std, centred)
    parts = (
        layer_norm_dx(grad, x, weight, mean, inverse_std, centred),
        *layer_norm_dgamma(grad, x, mean, inverse_std, centred),
    )
    for one, other in zip(whole, parts):
        assert_close(one, other.numpy(), scale=100)  # sums of squares near 100


@pytest.mark.parametrize("centred", [False, True])
def test_both_are_as_each(centred: bool, make: Make) -> None:
    compare([make(array) for array in inputs(30, 24)], centred)


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("count", [128, 132, 1024])
def test_rows_in_registers(count: int, centred: bool, registers: GpuDevice) -> None:
    given = [fw.tensor(array, device=registers) for array in inputs(30, count)]
    compare(given, centred)


def test_few_rows_are_spread(discrete: DeviceInfo) -> None:
    """Where each has a multiprocessor for itself more invocations may share it."""
    discrete = dataclasses.replace(discrete, max_workgroup_invocations=1024)
    few, many = (
        norm.LayerNormCall(
            discrete,
            StridedSpec((rows, 4096), bfloat16, Layout.contiguous((rows, 4096))),
            None,
            None,
            1e-5,
            False,
        ).dispatch()
        for rows in (2, 4096)
    )
    assert (few.constants["GROUP"], few.constants["REGISTERS"]) == (512, 2)
    assert many.constants["REGISTERS"] > 2
