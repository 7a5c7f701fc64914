"""Logarithms of running sums beside PyTorch: limits, NaN, gradients, launches."""

import math

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice

LIMITS = (
    [-math.inf, 1.0, 2.0],
    [-math.inf, -math.inf, 1.0],
    [-math.inf, -math.inf, -math.inf],
    [1.0, math.inf, 2.0],
    [1.0, math.inf, math.inf, -math.inf],
    [1.0, math.nan, 2.0],
    [0.5, -200.0, 300.0],
)


@pytest.mark.parametrize("values", LIMITS, ids=str)
def test_limits(values: list[float], place: Device) -> None:
    grad = [1.0, 0.0, -2.0, 0.5][: len(values)]
    x = fw.tensor(values, device=place, requires_grad=True)
    y = torch.tensor(values, requires_grad=True)
    out, right = ops.logcumsumexp(x, 0), torch.logcumsumexp(y, 0)
    out.backward(fw.tensor(grad, device=place))
    right.backward(torch.tensor(grad))
    assert_close(out.detach().numpy(), right.detach().numpy())
    assert x.grad is not None
    assert y.grad is not None
    assert_close(x.grad.numpy(), y.grad.numpy())


@pytest.mark.device
@pytest.mark.parametrize("fixture", ["gpu", "quads"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((20_001,), 0), ((3, 2049), 1), ((2000, 16), 1), ((70, 5, 33), 1), ((3001, 2), 0)],
)
def test_rows_and_columns(
    shape: tuple[int, ...], dim: int, fixture: str, request: pytest.FixtureRequest
) -> None:
    device = request.getfixturevalue(fixture)
    data, grad = np.random.default_rng(0).standard_normal((2, *shape)) * 3
    x = fw.tensor(data.astype("f4"), device=device, requires_grad=True)
    y = torch.from_numpy(data).requires_grad_()
    out, right = ops.logcumsumexp(x, dim), torch.logcumsumexp(y, dim)
    out.backward(fw.tensor(grad.astype("f4"), device=device))
    right.backward(torch.from_numpy(grad))
    assert x.grad is not None
    assert y.grad is not None
    np.testing.assert_allclose(out.detach().numpy(), right.detach(), 3e-6, 3e-6)
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), 1e-4, 1e-3)


def test_one_launch_for_many_rows(quads: GpuDevice) -> None:
    x = fw.rand(600, 300, device=quads)
    fw.eval(x)
    for call in (ops.logcumsumexp, ops.cummax):
        with quads.gpu.profile() as profile:
            found = call(x, 1)
            fw.eval()
        assert [span.name.split()[0] for span in profile.spans] == ["scan/scan_rows"]
        del found
