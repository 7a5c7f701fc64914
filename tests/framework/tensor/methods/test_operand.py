"""Operands of methods."""

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework.tensor.methods.operand import scaled


def test_factor_of_an_operand() -> None:
    x = fw.ones(2)
    assert scaled(x, 1) is x
    assert scaled(3, 2) == 6
    np.testing.assert_array_equal(scaled(x, -0.5), [-0.5, -0.5])
