"""Results written into tensors that the caller gives as `out`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from ..autograd.grad_mode import is_grad_enabled
from ..base.dtype import can_cast, uint8
from ..base.errors import DeviceMismatchError, DTypeError, GradError
from ..dispatch.keywords import register_writer
from ..eager.base_tensor import TensorCore
from .inplace import assign
from .overlap import refuse_partial_overlap
from .relayout import resize

EXACT = frozenset(
    """
    abs addbmm addmm addmv amax amin aminmax argmax argmin baddbmm bitwise_not bmm
    bucketize ceil cholesky_ex clamp complex conj_physical cross cummax cummin det diag
    dot eigh eigvalsh float_power floor frac frexp gather heaviside histc histogram
    index_add index_copy index_reduce index_select inner inv inv_ex inverse isin
    isneginf isposinf kthvalue log_softmax logcumsumexp lu_factor lu_factor_ex lu_solve
    lu_unpack masked_select matmul matrix_norm mm mode msort multi_dot mv nan_to_num
    nanquantile neg nonzero norm ormqr polar qr quantile renorm round scatter
    scatter_add scatter_reduce searchsorted sgn sign signbit slogdet softmax solve
    solve_ex solve_triangular sort svd svdvals take take_along_dim tensordot topk
    triangular_solve tril triu trunc vdot vecdot vector_norm where
    """.split()
)
"""Functions whose `out` must be of the result's own dtype; others cast to it."""

EXACT_OF_SEVERAL = frozenset({"max", "median", "min", "nanmedian"})
"""Those of which that holds where they give indices too."""

BOOL = frozenset({"all", "any"})
"""Those whose results are written as bool or uint8 alone."""

WHOLE = frozenset(
    """
    all amax amin any argmax argmin avg_pool2d bmm bucketize cholesky cholesky_ex
    cholesky_inverse cholesky_solve cond cummax cummin det diag eig eigh eigvals
    eigvalsh fft fft2 fftn geqrf hfft hfft2 hfftn histc histogram householder_product
    ifft ifft2 ifftn ihfft ihfft2 ihfftn inv inv_ex irfft irfft2 irfftn linear
    log_softmax logsumexp lstsq lu lu_factor lu_factor_ex lu_solve lu_unpack matmul
    matrix_norm matrix_power mean mm multi_dot mv mvlgamma nanmean nanquantile nansum
    norm ormqr pinv prod qr quantile rfft rfft2 rfftn searchsorted slogdet softmax solve
    solve_ex solve_triangular std sum svd svdvals tensordot tensorinv tensorsolve tril
    triu var vecdot vector_norm
    """.split()
)
"""Functions that may write over their own arguments: reductions, products, matrices."""


def write(name: str, out: Any, result: Any, given: Iterable[Any] = ()) -> Any:
    """Write the results of a function into `out`, and return it.

    Parameters
    ----------
    name : str
        The function's.
    out : Tensor or sequence of Tensor
        As many as there are results. One of another shape gets the result's.
    result : Tensor or tuple of Tensor
    given : iterable
        The function's arguments.

    Raises
    ------
    TypeError
        If `out` is something else.
    DeviceMismatchError
        If `out` is on another device.
    DTypeError
        If its dtype does not hold the results, or the function does not cast them.
    ShapeError
        If it shares some of its memory, but not all of it, with an argument.
    GradError
        If a gradient would have to be recorded, which `out` has no place for.

    Warns
    -----
    UserWarning
        If `out` has elements and another shape.
    """
    if isinstance(result, tuple):
        if not isinstance(out, tuple | list) or len(out) != len(result):
            raise TypeError(
                f"{name}: out is {type(out).__name__}; it must be a tuple of"
                f" {len(result)} tensors"
            )
        exact = name in EXACT or name in EXACT_OF_SEVERAL
        for each, value in zip(out, result):
            _check(name, each, value, given, exact)
        written = [_written(name, each, value) for each, value in zip(out, result)]
        kind: Any = type(result)
        return kind(*written) if hasattr(result, "_fields") else tuple(written)
    _check(name, out, result, given, name in EXACT)
    return _written(name, out, result)


def _check(name: str, out: Any, result: Any, given: Iterable[Any], exact: bool) -> None:
    if not isinstance(out, TensorCore):
        raise TypeError(f"{name}: out is a {type(out).__name__}; it must be a tensor")
    if is_grad_enabled() and (out.needs_grad or result.needs_grad):
        raise GradError(
            f"{name}: out is given where a gradient is required; write it without out,"
            " or under no_grad()"
        )
    if out.device is not result.device:
        raise DeviceMismatchError(
            f"{name}: out is on {out.device.name}, the result on {result.device.name};"
            " they must be on one device"
        )
    if not can_cast(result.dtype, out.dtype):
        raise DTypeError(
            f"{name}: out is {out.dtype.name}, which does not hold the result's"
            f" {result.dtype.name}"
        )
    if out.dtype is not result.dtype and (
        exact or (name in BOOL and out.dtype is not uint8)
    ):
        raise DTypeError(
            f"{name}: out is {out.dtype.name}, the result {result.dtype.name}; they"
            " must be the same"
        )
    if name not in WHOLE:
        refuse_partial_overlap(name, out, given)


def _written(name: str, out: Any, result: Any) -> Any:
    if out.shape != result.shape:
        if out.numel():
            warnings.warn(
                f"{name}: out is {tuple(out.shape)}, the result {tuple(result.shape)};"
                " out is resized, which is deprecated; empty it by resize_(0)",
                UserWarning,
                stacklevel=5,
            )
        resize(out, result.shape)
    return assign(out, result)


register_writer(write)
