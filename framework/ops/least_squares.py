"""Pseudo-inverses, ranks and least squares.

Singular values say which count, unless `full_rank` shows that all do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd.tape import shown_as
from ..base.dtype import float32, int64
from ..base.modes import autocast_state
from ..base.shape import TensorSpec, broadcast_shapes
from ..dispatch.autocast_policy import autocast_float32_on_host
from ..dispatch.declare import composite
from . import factorization as factors
from .elementwise.cast import cast
from .elementwise.compare import where
from .elementwise.complex_numbers import conj
from .factorization import WIDE, adjoint, turned
from .factorization_results import Lstsq
from .full_rank import FullRank, full_rank
from .linear_algebra import _matrix, _real, eigh, eigvalsh, svd, svdvals
from .matmul.matmul import matmul
from .reduce.common import place_dtype
from .reduce.minmax import amax
from .reduce.sum import sum
from .source import fill_like
from .view import squeeze, unsqueeze

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


@shown_as("LinalgPinvBackward0", "A")
def pinv(
    A: Tensor,  # noqa: N803
    rcond: Tensor | float | None = None,
    hermitian: bool = False,
    *,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
) -> Tensor:
    """Return pseudo-inverses; singular values up to a tolerance count as 0.

    Of a `hermitian` one the lower triangle is read, as by `eigh`. The gradient takes
    the rank as constant, as PyTorch's does.

    Parameters
    ----------
    A : Tensor, shape (..., m, n), float32, float64 or complex
        Matrices.
    rcond : Tensor, number or None
        The old name of `rtol`.
    hermitian : bool, default False
        Whether matrices are Hermitian.
    atol, rtol : Tensor, number or None
        Absolute tolerance, and that relative to the largest singular value; as in
        `matrix_rank`.

    Raises
    ------
    TypeError
        If `rcond` is given besides another tolerance.
    """
    if rcond is not None:
        if atol is not None or rtol is not None:
            raise TypeError(
                "pinv: rcond is given with atol or rtol; give atol and rtol alone"
            )
        rtol = rcond
    found = _pseudo_inverse(A, atol, rtol, hermitian)
    block = autocast_state.top.value
    if block.host and block.dtype is not None and found.dtype is float32:
        # As in PyTorch, whose last step is a product.
        return cast(found, block.dtype)
    return found


@autocast_float32_on_host
def _pseudo_inverse(A: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:  # noqa: N803
    if _matrix("pinv", A, square=hermitian).numel() == 0:
        return turned(A)
    numbers = None if hermitian else _numbers(A, atol, rtol)
    if numbers is not None:
        found, _ = ranked_pseudo_inverse(A.detach(), *numbers)
    elif hermitian:
        found = _hermitian_pinv(A.detach(), atol, rtol)
    else:
        found, _ = _by_singular_values(A.detach(), atol, rtol)
    return factors.pseudo_inverse(A, found) if A.needs_grad else found


def _hermitian_pinv(A: Tensor, atol: Any, rtol: Any) -> Tensor:  # noqa: N803
    values, vectors = eigh(A)
    size = abs(values)
    keep = size > _tolerance(A, size, atol, rtol)
    inverse = where(keep, 1.0 / where(keep, values, 1.0), 0.0)
    return matmul(vectors * unsqueeze(inverse, -2), adjoint(vectors))


def _by_singular_values(
    A: Tensor,  # noqa: N803
    atol: Any,
    rtol: Any,
) -> tuple[Tensor, Tensor]:
    """Return pseudo-inverses, and ranks."""
    u, s, vh = svd(A, False)
    keep = s > _tolerance(A, s, atol, rtol)
    inverse = where(keep, 1.0 / where(keep, s, 1.0), 0.0)
    return matmul(adjoint(vh) * unsqueeze(inverse, -2), adjoint(u)), sum(keep, -1)


def _full(A: Tensor) -> Tensor:  # noqa: N803
    """Return ranks that are full."""
    *batch, rows, columns = A.layout.shape
    return fill_like(A, tuple(batch), min(rows, columns), place_dtype(A))


@composite(dtypes=WIDE, outputs=("out", "rank"))
def ranked_pseudo_inverse(x: Tensor, atol: float, rtol: float) -> tuple[Tensor, Tensor]:
    """Return pseudo-inverses of (..., m, n), and ranks (...), without a gradient."""
    found = full_rank(x, atol, rtol, _product)
    if found is None:
        return _by_singular_values(x, atol, rtol)
    return found[0], _full(x)


def _product(found: FullRank) -> tuple[Tensor]:
    left, *others = found.factors
    return (matmul(left, *others) if others else left,)


@ranked_pseudo_inverse.spec
def ranked_pseudo_inverse_spec(
    x: TensorSpec, atol: float, rtol: float
) -> tuple[TensorSpec, TensorSpec]:
    *batch, rows, columns = x.shape
    return (
        TensorSpec((*batch, columns, rows), x.dtype),
        TensorSpec(tuple(batch), int64),
    )


@composite(dtypes=WIDE, outputs=("out", "rank"))
def least_squares_solution(a: Tensor, b: Tensor, rtol: float) -> tuple[Tensor, Tensor]:
    """Return A^+ B, and the ranks of (..., m, n) A, without a gradient."""

    def finish(found: FullRank) -> tuple[Tensor]:
        solution = b
        for each in reversed(found.factors):
            solution = matmul(each, solution)
        return (solution,)

    found = full_rank(a, 0.0, rtol, finish)
    if found is None:
        inverse, rank = _by_singular_values(a, 0.0, rtol)
        return matmul(inverse, b), rank
    return found[0], _full(a)


@least_squares_solution.spec
def least_squares_solution_spec(
    a: TensorSpec, b: TensorSpec, rtol: float
) -> tuple[TensorSpec, TensorSpec]:
    batch = broadcast_shapes("lstsq", a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-1], b.shape[-1])
    return TensorSpec(shape, a.dtype), TensorSpec(a.shape[:-2], int64)


@composite(dtypes=WIDE)
def ranks(x: Tensor, atol: float, rtol: float) -> Tensor:
    """Return the ranks (...) of (..., m, n)."""
    if full_rank(x, atol, rtol, lambda _: ()) is not None:
        return _full(x)
    s = svdvals(x)
    return sum(s > _tolerance(x, s, atol, rtol), -1)


@ranks.spec
def ranks_spec(x: TensorSpec, atol: float, rtol: float) -> TensorSpec:
    return TensorSpec(x.shape[:-2], int64)


def _numbers(
    A: Tensor,  # noqa: N803
    atol: Any,
    rtol: Any,
) -> tuple[float, float] | None:
    """Return both tolerances, or None if one is a tensor, or no matrix has elements."""
    if not A.numel() or not all(
        isinstance(each, int | float | None) for each in (atol, rtol)
    ):
        return None
    if rtol is None:
        rtol = _rounding(A) if atol is None else 0.0
    return float(atol or 0), float(rtol)


def _rounding(A: Tensor) -> float:  # noqa: N803
    """Return the relative tolerance where none is given."""
    return float(np.finfo(A.dtype.numpy).eps) * max(A.layout.shape[-2:])


def _tolerance(A: Tensor, s: Tensor, atol: Any, rtol: Any) -> Any:  # noqa: N803
    if rtol is None:
        rtol = _rounding(A) if atol is None else 0.0
    largest = amax(s.detach(), -1, True)
    pair: list[Any] = [
        float(each or 0)
        if isinstance(each, int | float | None)
        else unsqueeze(each, -1)
        for each in (atol, rtol)
    ]
    relative = largest * pair[1]
    return where(relative > pair[0], relative, pair[0])


@autocast_float32_on_host
def matrix_rank(
    A: Tensor,  # noqa: N803
    tol: Tensor | float | None = None,
    *,
    atol: Tensor | float | None = None,
    rtol: Tensor | float | None = None,
    hermitian: bool = False,
) -> Tensor:
    """Return how many singular values are above a tolerance.

    That is the larger of `atol`, or its older form `tol`, and `rtol` times the largest
    value; without any, `rtol` is the dtype's step times the larger size. Of `hermitian`
    matrices the lower triangle is read.

    Parameters
    ----------
    A : Tensor, shape (..., m, n), float32, float64 or complex
        Matrices.
    tol, atol, rtol : Tensor, number or None
        Tolerances; tensors broadcast with the shape of the batch.
    hermitian : bool, default False
        Whether matrices are Hermitian.
    """
    A = A.detach()  # noqa: N806
    _matrix("matrix_rank", A, square=hermitian)
    atol = tol if atol is None else atol
    numbers = None if hermitian else _numbers(A, atol, rtol)
    if numbers is not None:
        found: Tensor = ranks(A, *numbers)
        return found
    s = abs(eigvalsh(A)) if hermitian else svdvals(A)
    if s.shape[-1] == 0:
        return sum(s > 0, -1)
    return sum(s > _tolerance(A, s, atol, rtol), -1)


@autocast_float32_on_host
@shown_as("LinalgLstsqBackward0", "A", "B")
def lstsq(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    rcond: float | None = None,
    *,
    driver: str | None = None,
) -> Lstsq:
    """Return the X that makes A X - B smallest, and of those the smallest.

    Parameters
    ----------
    A : Tensor, shape (..., m, n)
    B : Tensor, shape (..., m, k) or (..., m)
    rcond : float or None
        Singular values below this part of the largest count as 0.
    driver : {"gelsy", "gels", "gelsd", "gelss"} or None
        Changes only which of the other results are empty, as in PyTorch: "gels" gives
        no rank, "gelsy", which is the default, no residuals, and the last two alone
        give singular values.

    Raises
    ------
    ValueError
        If the driver is another.
    """
    driver = "gelsy" if driver is None else driver
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise ValueError(
            f"lstsq: driver is {driver!r}; it must be gels, gelsy, gelsd or gelss"
        )
    vector = len(B.layout.shape) + 1 == len(A.layout.shape)
    b = unsqueeze(B, -1) if vector else B
    numbers = _numbers(_matrix("lstsq", A, square=False), None, rcond)
    rank: Tensor | None = None
    if numbers is None or A.dtype is not b.dtype:
        solution = matmul(pinv(A, rtol=rcond), b)
    elif A.needs_grad or b.needs_grad:
        found, rank = ranked_pseudo_inverse(A.detach(), *numbers)
        solution = matmul(factors.pseudo_inverse(A, found), b)
    else:
        solution, rank = least_squares_solution(A, b, numbers[1])
    rows, columns = A.layout.shape[-2:]
    none: Tensor = fill_like(A, (0,), 0, A.dtype.to_real())
    residuals = none
    if rows > columns and driver != "gelsy":
        difference = matmul(A, solution) - b
        residuals = sum(_real(difference * conj(difference)), -2)
    out = squeeze(solution, -1) if vector else solution
    if driver == "gels":
        rank = fill_like(A, (0,), 0, place_dtype(A))
    elif rank is None:
        rank = matrix_rank(A, rtol=rcond)
    values = svdvals(A.detach()) if driver in ("gelsd", "gelss") else none
    return Lstsq(out, residuals, rank, values)
