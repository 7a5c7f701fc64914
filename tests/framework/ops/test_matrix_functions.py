"""Linear algebra at top level and in methods; `test_linalg` has the values."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import ShapeError


def test_twins() -> None:
    x = fw.tensor([[4.0, 1.0], [1.0, 3.0]])
    for name in ("det", "inverse", "cholesky", "pinverse", "matrix_exp", "logdet"):
        found = getattr(fw, name)(x)
        np.testing.assert_array_equal(found.numpy(), getattr(x, name)().numpy())
    assert fw.svd(x).V.shape == (2, 2)
    solved = fw.triangular_solve(fw.ones(2, 1), x).solution
    np.testing.assert_allclose(solved.numpy(), [[1 / 6], [1 / 3]], 1e-6)


def test_norms_are_over_one_dimension_or_two() -> None:
    with pytest.raises(ShapeError, match=r"dim is \(\); it must be one dimension or"):
        fw.linalg.norm(fw.ones(2, 3), dim=())
