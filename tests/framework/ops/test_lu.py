"""LU factorisations: dtypes of the pivots, and factors that make the matrix again."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.ops import lu


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 3, 3)])
def test_factors_make_the_matrix_again(shape: tuple[int, ...]) -> None:
    x = fw.rand(*shape)
    assert lu.lu_factor(x).pivots.dtype is fw.int32
    p, lower, upper = lu.lu(x)
    np.testing.assert_allclose((p @ lower @ upper).numpy(), x.numpy(), rtol=1e-5)


def test_a_solution_from_either_side() -> None:
    a, b = fw.rand(3, 3) + 3 * fw.eye(3), fw.rand(3, 2)
    factors = lu.lu_factor(a)
    right = lu.lu_solve(*factors, b)
    np.testing.assert_allclose((a @ right).numpy(), b.numpy(), rtol=1e-4, atol=1e-5)
    left = lu.lu_solve(*factors, b.mT, left=False)
    np.testing.assert_allclose((left @ a).numpy(), b.mT.numpy(), rtol=1e-4, atol=1e-5)
