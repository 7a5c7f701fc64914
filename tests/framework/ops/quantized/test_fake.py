"""Fake quantization gives PyTorch's elements, gradients, names and refusals."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import DomainError, DTypeError, ShapeError

EXTREMES = [-1, 0.45, 0.05, 0.15, 1e9, np.nan, np.inf, -np.inf, 2.1, -0.6, -0.75, -0.0]


def both(place: Device, values: Any, dtype: str) -> tuple[fw.Tensor, torch.Tensor]:
    ours = fw.tensor(values, device=place).to(getattr(fw, dtype))
    theirs = torch.tensor(values).to(getattr(torch, dtype))
    return ours.requires_grad_(), theirs.requires_grad_()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("bounds", [(0.3, 2, 0, 7), (0.1, 0, -8, 7), (-0.3, 2, 0, 7)])
def test_one_scale(dtype: str, bounds: tuple[float, int, int, int]) -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([EXTREMES, rng.standard_normal(100)]).astype(np.float32)
    ours, theirs = both(fw.device("cpu"), values, dtype)
    found = fw.fake_quantize_per_tensor_affine(ours, *bounds)
    wanted = torch.fake_quantize_per_tensor_affine(theirs, *bounds)
    assert np.array_equal(found.detach().double().numpy(), wanted.detach().double())
    assert type(found.grad_fn).__name__ == type(wanted.grad_fn).__name__
    weights = rng.standard_normal(len(values)).astype(np.float32)
    (found.float() * fw.tensor(weights)).sum().backward()
    (wanted.float() * torch.tensor(weights)).sum().backward()
    assert np.array_equal(ours.grad.double().numpy(), theirs.grad.double())


@pytest.mark.parametrize("scale", [0.3, -0.3, 0.0, 1e-42, 1e50])
def test_numbers_are_in_the_kernel(scale: float, gpu: GpuDevice) -> None:
    ours, theirs = both(gpu, np.array(EXTREMES, np.float32), "float32")
    fw.eval(ours)
    before = gpu.gpu.counters.dispatches
    found = fw.fake_quantize_per_tensor_affine(ours, scale, 1, -2, 6)
    fw.eval(found)
    assert gpu.gpu.counters.dispatches == before + 1
    wanted = torch.fake_quantize_per_tensor_affine(theirs, scale, 1, -2, 6)
    if abs(scale) == 0.3:
        assert np.array_equal(found.detach().numpy(), wanted.detach().numpy())


def test_on_a_device(place: Device) -> None:
    ours, theirs = both(place, np.array(EXTREMES, np.float32), "float32")
    scale = fw.tensor([0.3], device=place), torch.tensor([0.3])
    point = fw.tensor(2, device=place), torch.tensor(2)
    found = fw.fake_quantize_per_tensor_affine(ours, scale[0], point[0], 0, 7)
    wanted = torch.fake_quantize_per_tensor_affine(theirs, scale[1], point[1], 0, 7)
    assert np.array_equal(found.detach().numpy(), wanted.detach())
    assert type(found.grad_fn).__name__ == type(wanted.grad_fn).__name__
    found.sum().backward()
    wanted.sum().backward()
    assert np.array_equal(ours.grad.numpy(), theirs.grad)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_a_scale_for_each_channel(axis: int, kind: str, place: Device) -> None:
    rng = np.random.default_rng(axis)
    x = rng.standard_normal((3, 5, 4)).astype(np.float32)
    scale = rng.uniform(0.1, 0.4, x.shape[axis]).astype(np.float32)
    points = rng.integers(0, 7, x.shape[axis]).astype(kind)
    ours, theirs = both(place, x, "float32")
    given = fw.tensor(scale, device=place), fw.tensor(points, device=place)
    found = fw.fake_quantize_per_channel_affine(ours, *given, axis, 0, 7)
    wanted = torch.fake_quantize_per_channel_affine(
        theirs, torch.tensor(scale), torch.tensor(points), axis, 0, 7
    )
    assert np.array_equal(found.detach().numpy(), wanted.detach())
    assert type(found.grad_fn).__name__ == type(wanted.grad_fn).__name__
    found.square().sum().backward()
    wanted.square().sum().backward()
    assert np.array_equal(ours.grad.numpy(), theirs.grad)


def test_refusals() -> None:
    x, scale = fw.ones(2, 3), fw.tensor([0.1, 0.2])
    points = fw.tensor([1, 2], dtype=fw.int32)
    whole = fw.fake_quantize_per_tensor_affine
    with pytest.raises(DomainError, match="quant_min is 7 and quant_max 0"):
        whole(x, 0.3, 2, 7, 0)
    with pytest.raises(DomainError, match="zero_point is from 20 to 20"):
        whole(x, 0.3, 20, 0, 7)
    with pytest.raises(DTypeError, match="the input is int64"):
        whole(x.long(), 0.3, 2, 0, 7)
    each = fw.fake_quantize_per_channel_affine
    with pytest.raises(DTypeError, match="scale is float64"):
        each(x, scale.double(), points, 0, 0, 7)
    with pytest.raises(DTypeError, match="zero_point is int64"):
        each(x, scale, points.long(), 0, 0, 7)
    with pytest.raises(ShapeError, match="axis is -2"):
        each(x, scale, points, -2, 0, 7)
    with pytest.raises(ShapeError, match="dimension 1 of the input needs"):
        each(x, scale, points, 1, 0, 7)
    with pytest.raises(DomainError, match="zero_point is from 10 to 11"):
        each(x, scale, points + 9, 0, 0, 7)
