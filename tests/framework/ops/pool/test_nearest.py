"""Nearest-neighbour resampling: gradients at many sizes, several results at once."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import Make, draw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.kernels import linear


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_gradients_at_many_sizes(mode: str, make: Make) -> None:
    for size in (1, 2, 5, 16, 17, 18, 34, 40, 51):
        x, twin = make(draw(2, 1, 17), grad=True), torch.tensor(draw(2, 1, 17))
        twin.requires_grad_()
        grad = draw(2, 1, size)
        ops.interpolate(x, size, mode=mode).backward(make(grad))
        F.interpolate(twin, size, mode=mode).backward(torch.tensor(grad))
        assert twin.grad is not None
        assert_close(x.grad, twin.grad.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_scale_factors_and_several_results(
    quads: GpuDevice, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "MIN_COPY_ITEMS", 1)
    values = np.random.default_rng(0).integers(-8, 8, (2, 3, 4, 5, 6))
    x = fw.tensor(values.astype(np.float32), dtype, quads, True)
    twin = torch.tensor(values, dtype=torch.float32, requires_grad=True)
    factors = (1.7, 0.6, 2.0)
    found = ops.interpolate(x, scale_factor=factors)
    wanted = F.interpolate(twin, scale_factor=factors)
    assert_close(found.float(), wanted.detach().numpy(), exact=True)
    found.sum().backward()
    wanted.sum().backward()
    assert twin.grad is not None
    assert_close(x.grad.float(), twin.grad.numpy(), exact=True)
