"""Averaged SGD and Rprop: averages and options; steps are in `test_counting`."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import optim


def test_averages() -> None:
    x = fw.tensor([1.0], requires_grad=True)
    optimizer = optim.ASGD([x], lr=0.5, lambd=0, t0=0)
    for _ in range(4):
        x.grad = fw.ones(1)
        optimizer.step()
    # Of step 1 to 4 the shares are 1, 1, 1 / 2 and 1 / 3.
    np.testing.assert_allclose(optimizer.state[x]["ax"].numpy(), [-0.5], 1e-6)


def test_bad_options_are_named() -> None:
    with pytest.raises(ValueError, match=r"Rprop: etas are \(0.5, 0.9\)"):
        optim.Rprop([fw.ones(2, requires_grad=True)], etas=(0.5, 0.9))
