"""Eigenvectors that are refined by products."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.refined_eigenvectors import STEPS, orthogonal, refined


def matrices(size: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a symmetric matrix of these eigenvalues, and its eigenvectors as rows."""
    rng = np.random.default_rng(0)
    q, _ = np.linalg.qr(rng.standard_normal((size, size)))
    made = q * values @ q.T
    return (made + made.T) / 2, q.T


def far(rows: np.ndarray) -> np.ndarray:
    """Return the largest product of different rows, or what a length lacks."""
    return np.abs(rows @ rows.T - np.eye(len(rows))).max()


def test_roundings_of_float32_are_taken_away(gpu: GpuDevice) -> None:
    if not gpu.gpu.info.shader_float64:
        pytest.skip("no float64")
    x, exact = matrices(37, np.linspace(1, 2, 37))
    rows = fw.tensor(exact.astype("f4").astype("f8")[None], device=gpu)
    given = fw.tensor(x[None], device=gpu)
    for most in STEPS:
        rows, values = refined(rows, given, most)
    found = rows.numpy()[0]
    assert far(found) < 1e-14
    np.testing.assert_allclose(values.numpy().ravel(), np.linspace(1, 2, 37), 1e-14)
    assert np.abs(np.abs(np.sum(found * exact, 1)) - 1).max() < 1e-14
    assert np.abs(found - exact).max() < 1e-12


def test_near_values_are_left_alone(gpu: GpuDevice) -> None:
    """Vectors of equal eigenvalues, of which any are right, stay orthogonal."""
    x, exact = matrices(33, np.repeat([1.0, 2.0, 3.0], 11))
    rows = fw.tensor(exact.astype("f4")[None], device=gpu)
    found, _ = refined(rows, fw.tensor(x.astype("f4")[None], device=gpu), STEPS[0])
    kept = orthogonal(found).numpy()[0].astype("f8")
    assert far(kept) < 1e-6
    beside = kept @ x @ kept.T
    np.testing.assert_allclose(beside, np.diag(np.diag(beside)), atol=2e-6)


def test_orthogonal_rows(gpu: GpuDevice) -> None:
    _, exact = matrices(20, np.ones(20))
    noise = np.random.default_rng(1).standard_normal((20, 20)) * 1e-4
    rows = fw.tensor((exact + noise).astype("f4")[None], device=gpu)
    assert far(orthogonal(rows).numpy()[0].astype("f8")) < 2e-6
