"""LU factorisations: pivots, and factors that make the matrix again."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import DomainError, DTypeError, ShapeError
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


@pytest.mark.parametrize(
    ("pivots", "error", "message"),
    [
        (np.ones((2, 3), np.int64), DTypeError, "are int64; they must be int32"),
        (np.ones((2, 3), np.float32), DTypeError, "float32; they must be int32"),
        (np.ones((1, 3), np.int32), ShapeError, r"is \(1, 3\); .* have \(2, 3\)"),
        (np.ones((2, 4), np.int32), ShapeError, r"is \(2, 4\); .* have \(2, 3\)"),
        (np.ones((5, 2, 3), np.int32), ShapeError, r"is \(5, 2, 3\); .* \(2, 3\)"),
    ],
)
def test_other_pivots_are_refused(
    pivots: np.ndarray, error: type[Exception], message: str
) -> None:
    both, b = fw.rand(2, 3, 3), fw.rand(2, 3, 1)
    with pytest.raises(error, match=f"lu_unpack: .* {message}"):
        lu.lu_unpack(both, fw.tensor(pivots))
    with pytest.raises(error, match=f"lu_solve: .* {message}"):
        lu.lu_solve(both, fw.tensor(pivots), b)
    p, lower, _ = lu.lu_unpack(both, fw.tensor(pivots), unpack_pivots=False)
    assert p.numel() == 0
    assert lower.shape == (2, 3, 3)


@pytest.mark.parametrize("pivot", [0, 4])
def test_pivots_out_of_range(pivot: int) -> None:
    pivots = fw.tensor([1, 2, pivot], dtype=fw.int32, device="cpu")
    with pytest.raises(DomainError, match=f"a pivot is {pivot}; .* from 1 to 3"):
        lu.lu_unpack(fw.rand(3, 3, device="cpu"), pivots)
    with pytest.raises(DomainError, match=f"lu_solve: a pivot is {pivot};"):
        lu.lu_solve(fw.rand(3, 3, device="cpu"), pivots, fw.rand(3, 1, device="cpu"))
