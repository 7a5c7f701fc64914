"""Methods of tensors and operands."""

import numpy as np

import vkbackend.framework as fw


def test_operand_of_numpy() -> None:
    x = fw.ones(2)
    np.testing.assert_array_equal(x.add(np.ones(2, np.float32), alpha=3), [4, 4])
    np.testing.assert_array_equal(x.sub_(np.ones(2, np.float32), alpha=2), [-1, -1])
