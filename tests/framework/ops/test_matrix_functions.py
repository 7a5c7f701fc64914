"""Linear algebra at top level and in methods; `test_linalg` has the values."""

import numpy as np

import vkbackend.framework as fw


def test_twins() -> None:
    x = fw.tensor([[4.0, 1.0], [1.0, 3.0]])
    for name in ("det", "inverse", "cholesky", "pinverse", "matrix_exp", "logdet"):
        found = getattr(fw, name)(x)
        np.testing.assert_array_equal(found.numpy(), getattr(x, name)().numpy())
    assert fw.svd(x).V.shape == (2, 2)
    solved = fw.triangular_solve(fw.ones(2, 1), x).solution
    np.testing.assert_allclose(solved.numpy(), [[1 / 6], [1 / 3]], 1e-6)
