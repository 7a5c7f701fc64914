"""Gradient of cross entropy: of rows, and of one scalar for all."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import draw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice


def twin_gradient(data: np.ndarray, labels: np.ndarray, scale: float) -> np.ndarray:
    twin = torch.from_numpy(data).double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        twin, torch.from_numpy(labels), reduction="none"
    )
    (loss.sum() * scale).backward()
    assert twin.grad is not None
    return twin.grad.float().numpy()


@pytest.mark.parametrize("rows", [1, 6])
def test_a_scalar_is_not_copied_to_the_rows(gpu: GpuDevice, rows: int) -> None:
    data, labels = 4 * draw(rows, 37), np.arange(rows) * 5
    x = fw.tensor(data, device=gpu, requires_grad=True)
    losses = ops.cross_entropy(x, fw.tensor(labels, device=gpu), reduction="none")
    factors = fw.tensor(np.full(rows, 3.0, np.float32), device=gpu)
    fw.eval(losses, factors)
    counters = gpu.gpu.counters
    launched = []
    for given in (factors, factors[:1].expand((rows,))):
        x.grad = None
        before = counters.snapshot()
        losses.backward(given, retain_graph=True)
        fw.eval(x.grad)
        launched.append((counters.snapshot() - before).dispatches)
        assert_close(x.grad, twin_gradient(data, labels, 3.0), scale=8)
    assert launched == [1, 1]


def test_no_rows_have_no_scalar(gpu: GpuDevice) -> None:
    x = fw.zeros((0, 5), device=gpu, requires_grad=True)
    labels = fw.zeros((0,), dtype="int32", device=gpu)
    ops.cross_entropy(x, labels, reduction="sum").backward()
    assert x.grad.shape == (0, 5)
