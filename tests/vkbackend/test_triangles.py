"""Triangular systems by BLAS: every triangle, dtype and order in memory."""

import itertools

import numpy as np
import pytest

from vkbackend import triangles


def systems(dtype: str, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    """Return well-conditioned matrices, and three right-hand sides of each."""
    rng = np.random.default_rng(0)
    size = shape[-1]
    matrix = rng.standard_normal((*shape, size)) / max(size, 1) + np.eye(size)
    if np.dtype(dtype).kind == "c":
        matrix = matrix + 1j * rng.standard_normal(matrix.shape) / max(size, 1)
    return matrix.astype(dtype), rng.standard_normal((*shape, 3)).astype(dtype)


@pytest.mark.parametrize("shape", [(5,), (2, 3, 17), (1,), (0, 4), (0,)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_solutions(dtype: str, shape: tuple[int, ...]) -> None:
    matrix, side = systems(dtype, *shape)
    turned = np.ascontiguousarray(np.swapaxes(matrix, -1, -2)).swapaxes(-1, -2)
    one = np.eye(shape[-1], dtype=dtype)
    for given, upper, unit in itertools.product((matrix, turned), *[(False, True)] * 2):
        found, before = side.copy(), given.copy()
        assert triangles.solve_in_place(given, found, upper, unit)
        triangle = np.triu(matrix) if upper else np.tril(matrix)
        triangle = triangle * (1 - one) + one if unit else triangle
        near = 100 * np.finfo(dtype).eps
        assert np.allclose(triangle @ found, side, atol=near)
        assert np.array_equal(given, before)


def test_what_is_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, side = systems("float32", 4)
    before = side.copy()
    for row, other in ((0, 0.0), (2, 1e-40)):
        small = matrix.copy()
        small[row, row] = other
        assert not triangles.solve_in_place(small, side, True, False)
        assert triangles.solve_in_place(small, side.copy(), True, True)
    assert not triangles.solve_in_place(matrix, side.T, True, True)
    assert not triangles.solve_in_place(matrix, side.astype("f8"), True, True)
    assert not triangles.solve_in_place(matrix, side[None].copy(), True, True)
    assert not triangles.solve_in_place(matrix.astype("f2"), side, True, True)
    monkeypatch.setattr(triangles, "found_routine", lambda name: None)
    assert not triangles.solve_in_place(matrix, side, True, True)
    assert np.array_equal(side, before)
