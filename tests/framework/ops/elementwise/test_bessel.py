"""Modified Bessel functions over their range, and their gradients."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import special

import vkbackend.framework as fw
from vkbackend.framework import ops

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e"])
def test_range(name: str, make: Make) -> None:
    x = np.concatenate([np.linspace(-85, 85, 1201), [0, 1e-30, 1e30, -1e30, np.nan]])
    x = x.astype(np.float32)
    found = getattr(ops, name)(make(x)).numpy()
    expected = getattr(special, name)(x.astype(np.float64))
    np.testing.assert_allclose(found, expected.astype(np.float32), 1.5e-6)


@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e"])
def test_gradient(name: str, make: Make) -> None:
    x = np.float32([-3, -0.5, 0.0, 0.2, 4])
    ours, theirs = make(x).requires_grad_(), torch.tensor(x, requires_grad=True)
    getattr(ops, name)(ours).sum().backward()
    getattr(torch.special, name)(theirs).sum().backward()
    np.testing.assert_allclose(ours.grad.numpy(), theirs.grad.numpy(), 2e-5, 1e-6)
