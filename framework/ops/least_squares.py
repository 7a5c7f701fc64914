"""Pseudo-inverses, ranks and least squares, by singular values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd.tape import shown_as
from ..base.dtype import float32, int64
from ..base.modes import autocast_state
from ..dispatch.autocast_policy import autocast_float32_on_host
from . import factorization as factors
from .elementwise.cast import cast
from .elementwise.compare import where
from .elementwise.complex_numbers import conj
from .factorization import adjoint, turned
from .factorization_results import Lstsq
from .linear_algebra import _real, eigh, eigvalsh, svd, svdvals
from .matmul.matmul import matmul
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
    if A.numel() == 0:
        return turned(A)
    return factors.pseudo_inverse(A, _pinv(A.detach(), atol, rtol, hermitian))


def _pinv(A: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:  # noqa: N803
    if hermitian:
        values, vectors = eigh(A)
        size = abs(values)
        keep = size > _tolerance(A, size, atol, rtol)
        inverse = where(keep, 1.0 / where(keep, values, 1.0), 0.0)
        return matmul(vectors * unsqueeze(inverse, -2), adjoint(vectors))
    u, s, vh = svd(A, False)
    keep = s > _tolerance(A, s, atol, rtol)
    inverse = where(keep, 1.0 / where(keep, s, 1.0), 0.0)
    return matmul(adjoint(vh) * unsqueeze(inverse, -2), adjoint(u))


def _tolerance(A: Tensor, s: Tensor, atol: Any, rtol: Any) -> Any:  # noqa: N803
    if rtol is None:
        eps = float(np.finfo(A.dtype.numpy).eps) * max(A.layout.shape[-2:])
        rtol = eps if atol is None else 0.0
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
    s = abs(eigvalsh(A)) if hermitian else svdvals(A)
    if s.shape[-1] == 0:
        return sum(s > 0, -1)
    return sum(s > _tolerance(A, s, tol if atol is None else atol, rtol), -1)


@autocast_float32_on_host
@shown_as("LinalgLstsqBackward0", "A", "B")
def lstsq(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    rcond: float | None = None,
    *,
    driver: str | None = None,
) -> Lstsq:
    """Return the X that makes A X - B smallest, by the pseudo-inverse.

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
    solution = matmul(pinv(A, rtol=rcond), b)
    rows, columns = A.layout.shape[-2:]
    none: Tensor = fill_like(A, (0,), 0, A.dtype.to_real())
    residuals = none
    if rows > columns and driver != "gelsy":
        difference = matmul(A, solution) - b
        residuals = sum(_real(difference * conj(difference)), -2)
    out = squeeze(solution, -1) if vector else solution
    rank: Tensor = fill_like(A, (0,), 0, int64)
    if driver != "gels":
        rank = matrix_rank(A, rtol=rcond)
    values = svdvals(A.detach()) if driver in ("gelsd", "gelss") else none
    return Lstsq(out, residuals, rank, values)
