"""Eigenvalues of general matrices by LAPACK, in the precision that is given."""

import numpy as np
import pytest

from vkbackend import lapack

SHAPES = [(17, 17), (2, 3, 16, 16), (4, 4), (1, 1), (0, 17, 17), (2, 0, 0)]


def _matrices(dtype: str, *shape: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    made = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * rng.standard_normal(shape)
    return made.astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_values_and_vectors(dtype: str, shape: tuple[int, ...]) -> None:
    x = _matrices(dtype, *shape)
    given = x.copy()
    values, vectors = lapack.eigenvectors(x)
    eps = np.finfo(dtype).eps
    assert values.shape == shape[:-1]
    assert np.allclose(x @ vectors, vectors * values[..., None, :], atol=100 * eps)
    lengths = np.linalg.norm(vectors, axis=-2)
    assert np.allclose(lengths, 1, atol=10 * eps)
    alone = lapack.eigenvalues(x)
    apart = np.abs(alone[..., :, None] - values[..., None, :]).min(-1, initial=9)
    assert apart.max(initial=0) < 100 * eps
    assert np.array_equal(x, given)


def test_matrices_with_any_strides() -> None:
    x = _matrices("float32", 40, 36, 2)[::2, ::2].transpose(2, 1, 0)[:, :, :18]
    values, vectors = lapack.eigenvectors(x)
    assert np.allclose(x @ vectors, vectors * values[..., None, :], atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_not_finite_is_refused(dtype: str) -> None:
    x = np.full((17, 17), np.inf, dtype)
    for function in (lapack.eigenvalues, lapack.eigenvectors):
        with pytest.raises(np.linalg.LinAlgError, match="infs or NaNs"):
            function(x)


def test_libraries_without_the_routines(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy computes then, in double precision."""
    x = _matrices("float32", 17, 17)
    monkeypatch.setattr(lapack, "found_routine", lambda name: None)
    values, vectors = lapack.eigenvectors(x)
    assert np.allclose(x @ vectors, vectors * values, atol=1e-5)
    assert np.allclose(np.sort(lapack.eigenvalues(x)), np.sort(values))
