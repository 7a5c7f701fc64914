"""Statistics: covariance, both extremes, trapezoidal sums, running extremes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ...autograd.tape import show_as, shown_as
from ...base.dtype import (
    bool_,
    complex64,
    complex128,
    default_dtype,
    float32,
    float64,
    int32,
    promote,
)
from ...base.errors import DomainError, DTypeError, ShapeError
from ...base.shape import normalize_dim
from ...dispatch.replayable import replayable
from ..elementwise.binary import add, div, mul, sub
from ..elementwise.cast import cast, need_float, refuse_bool
from ..elementwise.clamp import clamp
from ..elementwise.complex_numbers import conj, numbers_of, pairs_of
from ..elementwise.unary import sqrt
from ..indexing.scatter import gather
from ..matmul.matmul import matmul
from ..movement.slice import narrow, select
from ..source import arange_like, fill_like
from ..view import reshape, squeeze, transpose, unsqueeze
from .minmax import extremes
from .scan import cumsum, diff
from .sum import sum

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


class MinMax(NamedTuple):
    """Smallest and largest elements."""

    min: Tensor
    max: Tensor


@shown_as("AminmaxBackward0", "input")
@replayable
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """Return the smallest and the largest elements along a dimension, or of all.

    Parameters
    ----------
    input : Tensor
        Where there is a NaN, both are NaN.
    dim : int or None
        None takes all elements.
    keepdim : bool, default False
        Keep the dimensions with size 1.

    Returns
    -------
    MinMax
        (min, max), of the dtype of `input`.

    Raises
    ------
    ShapeError
        If there are no elements to choose from.
    """
    return MinMax(*extremes("aminmax", input, dim, keepdim))


@replayable
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Return the covariance of variables, one a row, over their observations.

    Parameters
    ----------
    input : Tensor, shape (variables, observations) or (observations,)
        Integers are taken as the default float dtype.
    correction : int, default 1
        Subtracted from the number of observations before dividing by it.
    fweights : Tensor, integers, shape (observations,), or None
        How often each observation counts.
    aweights : Tensor, float, shape (observations,), or None
        How much each observation counts.

    Returns
    -------
    Tensor, shape (variables, variables), or () of one variable

    Raises
    ------
    ShapeError
        If `input` has more than two dimensions, or weights another shape.
    DomainError
        If, on the host, a weight is below 0.
    """
    if len(input.layout.shape) > 2:
        raise ShapeError(
            f"cov: x is {input.layout.shape}; it must have at most 2 dimensions"
        )
    refuse_bool("cov", input=input)
    if aweights is not None:
        need_float("cov", aweights=aweights)
    if not (input.dtype.is_float or input.dtype.is_complex):
        input = cast(input, default_dtype())
    if fweights is not None and fweights.dtype.kind not in ("int", "uint"):
        raise DTypeError(
            f"cov: fweights are {fweights.dtype.name}; they must be integers"
        )
    real = {complex64: float32, complex128: float64}.get(input.dtype, input.dtype)
    if aweights is not None:
        real = promote(real, aweights.dtype)
    rows = input if len(input.layout.shape) == 2 else reshape(input, (1, input.numel()))
    count = rows.shape[1]
    weights = None
    for each in (fweights, aweights):
        if each is None:
            continue
        if each.shape != (count,):
            raise ShapeError(
                f"cov: weights are {each.layout.shape}; they must be"
                f" ({count},), one for each"
                " observation"
            )
        if each.is_cpu and each.numel() and (each.host_view() < 0).any():
            raise DomainError("cov: a weight is below 0; weights must be at least 0")
        each = cast(each, real)
        weights = each if weights is None else mul(weights, each)
    if weights is None:
        centred = sub(rows, sum(rows, 1, True) / count)
        product = matmul(centred, conj(transpose(centred, 0, 1)))
        least = max(0, count - correction)
        found = product / least if least else product * math.inf
    else:
        total = sum(weights)
        centred = sub(rows, sum(mul(rows, weights), 1, True) / total)
        factor: Tensor = total
        if aweights is not None:
            factor = sub(
                total,
                sum(mul(weights, cast(aweights, real))) / total * correction,
            )
        else:
            factor = total - correction
        product = matmul(mul(centred, weights), conj(transpose(centred, 0, 1)))
        found = product / clamp(factor, 0.0)
    return squeeze(found)


@replayable
def corrcoef(input: Tensor) -> Tensor:
    """Return the correlation coefficients of variables, one a row; see `cov`.

    Parameters
    ----------
    input : Tensor, shape (variables, observations) or (observations,)
        Any dtype but bool.
    """
    if len(input.layout.shape) > 2:
        raise ShapeError(
            f"corrcoef: x is {input.layout.shape}; it must have at most 2 dimensions"
        )
    found = cov(input)
    if found.ndim == 0:
        return found / found
    size = found.shape[0]
    places = arange_like(found, (1, size), 0, 1, int32)
    variances = reshape(gather(found, 0, places), (size,))
    if found.dtype.is_complex:
        deviations = sqrt(reshape(narrow(pairs_of(variances), 1, 0, 1), (size,)))
        parts = pairs_of(found / unsqueeze(deviations, 1) / deviations)
        return numbers_of(clamp(parts, -1.0, 1.0))
    deviations = sqrt(variances)
    scaled = found / unsqueeze(deviations, 1) / deviations
    return clamp(scaled, -1.0, 1.0)


def _doubled(name: str, y: Tensor, x: Tensor | None, dim: int) -> tuple[Tensor, int]:
    """Return sums of neighbours, with `x` by their distances, and the dimension."""
    if y.dtype is bool_ or (x is not None and x.dtype is bool_):
        raise DTypeError(f"{name}: y or x is bool; it must be a number; cast it")
    at = normalize_dim(name, dim, len(y.layout.shape))
    size = y.layout.shape[at]
    if x is not None and x.ndim == 1:
        x = reshape(x, (x.shape[0],) + (1,) * (len(y.layout.shape) - 1 - at))
        along = x.ndim - (len(y.layout.shape) - at)
    elif x is not None:
        along = at - len(y.layout.shape) + x.ndim
        if along < 0:
            raise ShapeError(
                f"{name}: x is {tuple(x.shape)}, y {tuple(y.shape)}; x must have the"
                f" dimension {at} too"
            )
    if x is not None and x.shape[along] != size:
        raise ShapeError(
            f"{name}: x has {x.shape[along]} points, y {size} along dimension {at};"
            " they must be as many"
        )
    least = max(size - 1, 0)
    both = add(narrow(y, at, 0, least), narrow(y, at, min(1, size), least))
    return both if x is None else mul(both, diff(x, 1, along)), at


@replayable
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1
) -> Tensor:
    """Return the integral of samples along a dimension by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor
        Values.
    x : Tensor or None
        Where they are: one dimension, or a shape that broadcasts.
    dx : number, default 1
        Distance of neighbours, without `x`.
    dim : int, default -1

    Raises
    ------
    ShapeError
        If `x` has not as many points.
    """
    areas, at = _doubled("trapezoid", y, x, dim)
    if not y.layout.shape[at]:
        shape = tuple(y.layout.shape[:at] + y.layout.shape[at + 1 :])
        empty: Tensor = fill_like(y, shape, 0, y.dtype)
        return empty
    if x is not None:
        return _by_number(div, sum(areas, at), 2.0)
    # In the order of PyTorch's operations.
    ends = add(select(y, at, 0), select(y, at, y.layout.shape[at] - 1))
    inner = sub(sum(y, at), _by_number(mul, ends, 0.5))
    return _by_number(mul, inner, dx)


def _by_number(
    function: Callable[[Tensor, float], Tensor], x: Tensor, number: float
) -> Tensor:
    """Return a product or quotient, shown as that of a tensor and a number."""
    found = function(x, number)
    show_as(found, "MulBackward1" if function is mul else "DivBackward1", x)
    return found


@replayable
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1
) -> Tensor:
    """Return the integral up to each sample but the first, by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor
        Values; integers give floats.
    x : Tensor or None
        Where they are: one dimension, or a shape that broadcasts.
    dx : number, default 1
        Distance of neighbours, without `x`.
    dim : int, default -1
        Of the result one smaller.

    Raises
    ------
    ShapeError
        If `x` has not as many points.
    """
    areas, at = _doubled("cumulative_trapezoid", y, x, dim)
    if x is None:
        return cumsum(_by_number(mul, areas, dx / 2), at)
    return _by_number(div, cumsum(areas, at), 2.0)
