"""Batch and group norm are few nodes of the graph, forward and backward."""

from collections import Counter

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.norm.normalized import inverse_deviation


def ops_of(gpu: GpuDevice) -> Counter[str]:
    """Return how often each op is pending, and submit them."""
    found = Counter(node.op.name for node in gpu.pending)
    fw.eval()
    return found


@pytest.mark.parametrize("kind", ["batch", "group"])
def test_a_layer_is_few_nodes(kind: str, gpu: GpuDevice) -> None:
    layer = nn.BatchNorm2d(6) if kind == "batch" else nn.GroupNorm(3, 6)
    layer.to(gpu)
    x = fw.randn(2, 6, 4, 5, device=gpu, requires_grad=True)
    for _ in range(2):
        fw.eval()
        y = layer(x)
        forward = ops_of(gpu)
        y.backward(fw.ones_like(y))
        backward = ops_of(gpu)
    assert forward["normalized"] == forward["inverse_deviation"] == 1
    assert forward["weighted_sum"] == (2 if kind == "batch" else 0)
    assert sum(forward.values()) <= 7
    assert backward["normalized_vjp"] == backward["batch_norm_sums"] == 1


def test_no_variance_and_no_eps_give_infinity(gpu: GpuDevice) -> None:
    for device in ("cpu", gpu):
        variance = fw.tensor([0.0, 4.0], device=device)
        with np.errstate(divide="ignore"):
            assert inverse_deviation(variance, 0.0).tolist() == [np.inf, 0.5]
