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
from vkbackend.framework.base.dtype import bfloat16, float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels import norm
from vkbackend.framework.ops.norm.batch_norm import batch_norm_moments, batch_norm_sums
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


def channels(*shape: int) -> StridedSpec:
    return StridedSpec(shape, float32, Layout.contiguous(shape))


@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((1, 16, 1 << 20), 17),  # few long rows: two workgroups for each of 132
        ((1, 4096, 1 << 17), 1),  # rows enough, which vec4 loads read once
        ((64, 64, 56 * 56), 5),  # channels that would leave multiprocessors idle
        ((8, 64, 14 * 14), 1),  # too short to be shared
        ((64, 1024, 14 * 14), 1),  # channels enough
    ],
)
def test_workgroups_share_few_channels(
    shape: tuple[int, ...], chunks: int, discrete: DeviceInfo
) -> None:
    x, mean = channels(*shape), channels(shape[1])
    sums = norm.channel_sums_dispatches(discrete, x, mean)
    assert sums[0].grid[2] == chunks
    assert len(sums) == (1 if chunks == 1 else 3)
    moments = norm.moments_dispatches(discrete, x)
    shared = norm.shares_channels(discrete, x)
    assert (moments[0].kernel == "reduce/variance") == shared
    assert shared == (shape[2] >= 1 << 16 or chunks > 1)


@pytest.mark.parametrize(
    ("shape", "invocations"),
    [((1, 9000, 3), 32), ((1, 32_768, 196), 64), ((64, 512, 49), 1024)],
)
def test_short_channels_have_small_workgroups(
    shape: tuple[int, ...], invocations: int, discrete: DeviceInfo
) -> None:
    x = channels(*shape)
    discrete = dataclasses.replace(discrete, max_workgroup_invocations=1024)
    found = norm.channel_dispatch(discrete, "norm/batch_norm_stats", x, ())
    assert found.constants["LOCAL_X"] == max(invocations, discrete.subgroup_size)


def test_channels_that_are_columns(discrete: DeviceInfo) -> None:
    x, mean = channels(4096, 512, 1), channels(512)
    kernels = {
        each.kernel
        for each in (
            *norm.moments_dispatches(discrete, x),
            *norm.channel_sums_dispatches(discrete, x, mean),
        )
    }
    assert kernels == {"reduce/variance", "norm/layer_norm_dgamma"}


def test_software_reduces_a_channel_in_a_workgroup(discrete: DeviceInfo) -> None:
    software = dataclasses.replace(discrete, kind="software")
    x = channels(1, 2, 1 << 17)
    assert len(norm.moments_dispatches(software, x)) == 1
    assert len(norm.channel_sums_dispatches(software, x, channels(2))) == 1


@pytest.mark.parametrize(
    "shape",
    [
        *[(3, 2, 16_384), (1, 3, 70_001), (7, 5, 12), (9, 40, 13), (1, 3, 2048)],
        *[(300, 40, 1), (5000, 3, 1)],
    ],
)
def test_channels_sum_up(shape: tuple[int, ...], quads: GpuDevice) -> None:
    grad, x = (draw(*shape, seed=k) + k for k in range(2))
    mean, variance = x.mean((0, 2)), x.var((0, 2))
    given = [fw.tensor(each, device=quads) for each in (grad, x)]
    found = batch_norm_moments(given[1])
    assert_close(found[0], mean, scale=4)
    assert_close(found[1], variance, scale=4)
    inverse_std = 1 / np.sqrt(variance)
    places = [fw.tensor(each, device=quads) for each in (mean, inverse_std)]
    sums = batch_norm_sums(*given, *places)
    y = (x.astype(np.float64) - mean[:, None]) * inverse_std[:, None]
    assert_close(sums[0], grad.sum((0, 2), np.float64).astype(np.float32), scale=400)
    products = (grad * y).sum((0, 2)).astype(np.float32)
    assert_close(sums[1], products, scale=400)  # of tens of thousands of terms


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
