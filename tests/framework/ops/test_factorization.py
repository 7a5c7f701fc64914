"""Factorisations: repeated eigenvalues; the op table has the rest."""

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework.ops.triangular import host_lu


def test_gradients_of_equal_values_are_finite() -> None:
    x = fw.eye(3).requires_grad_()
    fw.linalg.eigvalsh(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-6)
    y = fw.eye(3).requires_grad_()
    fw.linalg.svdvals(y).sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), np.eye(3), atol=1e-6)


def test_pivots() -> None:
    x = np.random.default_rng(1).random((2, 4, 4))
    both, order, _ = host_lu(x)
    product = (np.tril(both, -1) + np.eye(4)) @ np.triu(both)
    np.testing.assert_allclose(product, np.take_along_axis(x, order[..., None], -2))
