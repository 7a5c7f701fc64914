"""Clipping gradients."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import optim
from vkbackend.framework.device import Device, GpuDevice

SHAPES = ((3, 7), (11,), ())


@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_it_scales_as_pytorch_does(
    max_norm: float, place: Device, rng: np.random.Generator
) -> None:
    mine, other = [], []
    for shape in SHAPES:
        grad = np.asarray(rng.normal(size=shape), np.float32)
        mine.append(fw.zeros(shape, device=place, requires_grad=True))
        mine[-1].grad = fw.tensor(grad, device=place)
        other.append(torch.zeros(shape, requires_grad=True))
        other[-1].grad = torch.tensor(grad)
    mine.append(fw.zeros(2, device=place, requires_grad=True))
    found = optim.clip_grad_norm_(mine, max_norm)
    expected = torch.nn.utils.clip_grad_norm_(other, max_norm)
    assert_close(found, expected.numpy())
    for x, y in zip(mine, other):
        assert y.grad is not None
        assert_close(x.grad, y.grad.numpy())
    assert mine[-1].grad is None


def test_one_tensor_and_none() -> None:
    x = fw.zeros(1, requires_grad=True)
    assert optim.clip_grad_norm_([x], 1.0).item() == 0.0
    x.grad = fw.full(1, 4.0)
    assert optim.clip_grad_norm_(x, 1.0).item() == 4.0
    assert x.grad.item() == pytest.approx(1.0)


@pytest.mark.core
def test_nothing_is_read_back(gpu: GpuDevice) -> None:
    x = fw.zeros(5, device=gpu, requires_grad=True)
    x.grad = fw.ones(5, device=gpu)
    before = gpu.gpu.counters.snapshot()
    optim.clip_grad_norm_([x], 1.0)
    fw.eval()
    assert (gpu.gpu.counters.snapshot() - before).host_reads == 0
