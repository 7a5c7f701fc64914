"""Element-wise comparisons, predicates, logic and select."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.tape import shown_as
from ...base.dtype import ANY, BOOL, FLOAT, NUMERIC, uint8
from ...dispatch.declare import comparison, elementwise
from ...eager.base_tensor import TensorCore
from .unary import lazy_copy, of_all

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

LARGEST = {
    "float16": 65504.0,
    "bfloat16": (2 - 2**-7) * 2.0**127,
    "float32": (2 - 2**-23) * 2.0**127,
    "float64": (2 - 2**-52) * 2.0**1023,
}
"""The largest finite number of each float dtype."""


@comparison(glsl="x == y", reference=np.equal, dtypes=ANY)
def eq(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements are equal; NaN equals nothing.

    Parameters
    ----------
    x : Tensor
    y : Tensor or number
        Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, bool

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


eq.only_tensors("x")


eq.complexes(glsl="x == y")


@comparison(glsl="x != y", reference=np.not_equal, dtypes=ANY)
def ne(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements differ; NaN differs from everything.

    Parameters
    ----------
    x : Tensor
    y : Tensor or number
        Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, bool

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


ne.only_tensors("x")


ne.complexes(glsl="x != y")


@comparison(glsl="x < y", reference=np.less, dtypes=NUMERIC)
def lt(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements of `x` are smaller.

    Parameters
    ----------
    x : Tensor
    y : Tensor or number
        Shapes broadcast, dtypes promote; not complex. NaN gives False.

    Returns
    -------
    Tensor, bool

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


lt.only_tensors("x")


@lt.bools
def lt_bools(x: Tensor, y: Tensor | bool) -> Tensor:
    return both(ne(x, y), y)


@comparison(glsl="x <= y", reference=np.less_equal, dtypes=NUMERIC)
def le(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements of `x` are smaller or equal.

    Parameters
    ----------
    x : Tensor
    y : Tensor or number
        Shapes broadcast, dtypes promote; not complex. NaN gives False.

    Returns
    -------
    Tensor, bool

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


le.only_tensors("x")


@le.bools
def le_bools(x: Tensor, y: Tensor | bool) -> Tensor:
    return either(eq(x, y), y)


@comparison(glsl="x > y", reference=np.greater, dtypes=NUMERIC)
def gt(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements of `x` are larger.

    Parameters
    ----------
    x : Tensor
    y : Tensor or number
        Shapes broadcast, dtypes promote; not complex. NaN gives False.

    Returns
    -------
    Tensor, bool

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


gt.only_tensors("x")


@gt.bools
def gt_bools(x: Tensor, y: Tensor | bool) -> Tensor:
    return logical_and(x, ne(x, y))


@comparison(glsl="x >= y", reference=np.greater_equal, dtypes=NUMERIC)
def ge(x: Tensor, y: Tensor | float) -> Tensor:
    """Return whether elements of `x` are larger or equal.

    Parameters
    ----------
    x : Tensor
    y : Tensor or number
        Shapes broadcast, dtypes promote; not complex. NaN gives False.

    Returns
    -------
    Tensor, bool

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


ge.only_tensors("x")


@ge.bools
def ge_bools(x: Tensor, y: Tensor | bool) -> Tensor:
    return logical_or(x, eq(x, y))


@comparison(glsl="x != x", reference=np.isnan, dtypes=NUMERIC)
def isnan(x: Tensor) -> Tensor:
    """Return whether elements are NaN; integers never are."""


isnan.complexes(glsl="x.x != x.x || x.y != x.y")


@isnan.bools
@isnan.integers
def isnan_whole(x: Tensor) -> Tensor:
    return of_all(x, False)


@comparison(glsl="is_infinite(x)", reference=np.isinf, dtypes=NUMERIC)
def isinf(x: Tensor) -> Tensor:
    """Return whether elements are infinite; integers never are."""


isinf.complexes(glsl="is_infinite(x.x) || is_infinite(x.y)")


@isinf.bools
@isinf.integers
def isinf_whole(x: Tensor) -> Tensor:
    return of_all(x, False)


@comparison(glsl="!is_infinite(x) && x == x", reference=np.isfinite, dtypes=NUMERIC)
def isfinite(x: Tensor) -> Tensor:
    """Return whether elements are neither infinite nor NaN."""


isfinite.complexes(
    glsl="!is_infinite(x.x) && x.x == x.x && !is_infinite(x.y) && x.y == x.y"
)


@isfinite.bools
@isfinite.integers
def isfinite_whole(x: Tensor) -> Tensor:
    return of_all(x, True)


@comparison(glsl="!bool(x)", reference=np.logical_not, dtypes=ANY)
def logical_not(x: Tensor) -> Tensor:
    """Return whether elements are zero."""


logical_not.complexes(glsl="x == vec2(0)")


@comparison(glsl="bool(x) && bool(y)", reference=np.logical_and, dtypes=ANY)
def logical_and(x: Tensor, y: Tensor) -> Tensor:
    """Return whether both elements are not zero; NaN is not zero.

    Parameters
    ----------
    x, y : Tensor
        Of any dtypes, and of shapes that broadcast.

    Returns
    -------
    Tensor, bool

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


logical_and.only_tensors("x", "y")


logical_and.complexes(glsl="x != vec2(0) && y != vec2(0)")


@comparison(glsl="bool(x) || bool(y)", reference=np.logical_or, dtypes=ANY)
def logical_or(x: Tensor, y: Tensor) -> Tensor:
    """Return whether at least one of two elements is not zero; NaN is not zero.

    Parameters
    ----------
    x, y : Tensor
        Of any dtypes, and of shapes that broadcast.

    Returns
    -------
    Tensor, bool

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


logical_or.only_tensors("x", "y")


logical_or.complexes(glsl="x != vec2(0) || y != vec2(0)")


@comparison(glsl="bool(x) != bool(y)", reference=np.logical_xor, dtypes=ANY)
def logical_xor(x: Tensor, y: Tensor) -> Tensor:
    """Return whether exactly one of two elements is not zero; NaN is not zero.

    Parameters
    ----------
    x, y : Tensor
        Of any dtypes, and of shapes that broadcast.

    Returns
    -------
    Tensor, bool

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


logical_xor.only_tensors("x", "y")


logical_xor.complexes(glsl="(x != vec2(0)) != (y != vec2(0))")


def _where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(condition != 0, x, y)


@elementwise(
    glsl="bool(condition) ? x : y",
    reference=_where,
    dtypes={"condition": BOOL, "x": ANY, "y": ANY},
)
def where(condition: Tensor, x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return elements of `x` where the condition holds, otherwise of `y`.

    Parameters
    ----------
    condition : Tensor, bool or uint8
        Of uint8, all but 0 holds.
    x, y : Tensor or number
        The three shapes broadcast; dtypes of the two promote.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If the condition is neither bool nor uint8.
    """


def _of_bools(given: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `where` with a condition of bools, not of uint8."""
    condition: Any = given["condition"]
    if getattr(condition, "dtype", None) is not uint8:
        return None
    return {**given, "condition": ne(condition, 0)}


where.adapt = _of_bools
where.complexes(glsl="bool(condition.x) ? x : y", linear=True)


@where.vjp
def where_vjp(
    grad: Tensor, condition: Tensor, needs: tuple[bool, bool, bool]
) -> tuple[None, Tensor | None, Tensor | None]:
    return (
        None,
        where(condition, grad, 0.0) if needs[1] else None,
        where(condition, 0.0, grad) if needs[2] else None,
    )


@elementwise(
    glsl="any(bvec2(x > y, x != x)) ? x : y",
    reference=np.maximum,
    dtypes=NUMERIC,
)
def maximum(x: Tensor, y: Tensor | float) -> Tensor:
    """Return the larger of two elements; NaN if either is NaN.

    Parameters
    ----------
    x, y : Tensor, not complex
        Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        Of equal elements each gets half of the gradient.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


maximum.only_tensors("x", "y")


def both(x: Any, y: Any) -> Tensor:
    """Return x and y of bools, of which one may be a number."""
    if not isinstance(x, TensorCore):
        x, y = y, x
    has_number = not isinstance(y, TensorCore)
    return where(x, bool(y), False) if has_number else logical_and(x, y)


def either(x: Any, y: Any) -> Tensor:
    """Return x or y of bools, of which one may be a number."""
    if not isinstance(x, TensorCore):
        x, y = y, x
    has_number = not isinstance(y, TensorCore)
    return where(x, True, bool(y)) if has_number else logical_or(x, y)


@maximum.bools
def maximum_bools(x: Tensor, y: Tensor) -> Tensor:
    return logical_or(x, y)


@maximum.vjp
def maximum_vjp(
    grad: Tensor, x: Tensor, y: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return _share(grad, x < y, x > y, x == y, needs)


@elementwise(
    glsl="any(bvec2(x < y, x != x)) ? x : y",
    reference=np.minimum,
    dtypes=NUMERIC,
)
def minimum(x: Tensor, y: Tensor | float) -> Tensor:
    """Return the smaller of two elements; NaN if either is NaN.

    Parameters
    ----------
    x, y : Tensor, not complex
        Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        Of equal elements each gets half of the gradient.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


minimum.only_tensors("x", "y")


@minimum.bools
def minimum_bools(x: Tensor, y: Tensor) -> Tensor:
    return logical_and(x, y)


@minimum.vjp
def minimum_vjp(
    grad: Tensor, x: Tensor, y: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return _share(grad, x > y, x < y, x == y, needs)


def _share(
    grad: Tensor, loses: Tensor, wins: Tensor, ties: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Give the gradient to the element chosen, half to each where they are equal.

    Where one is NaN both get all of it, as in PyTorch.
    """
    kept = where(ties, grad * 0.5, grad)
    return (
        where(loses, 0.0, kept) if needs[0] else None,
        where(wins, 0.0, kept) if needs[1] else None,
    )


@elementwise(
    glsl="any(bvec2(x > min, x != x)) ? x : min",
    reference=np.maximum,
    dtypes=NUMERIC,
)
def clamp_min(x: Tensor, min: Tensor | float) -> Tensor:
    """Return each element, or the bound where that is larger.

    Parameters
    ----------
    x : Tensor, not complex
        NaN stays NaN.
    min : Tensor or number
        Of a shape that broadcasts with that of `x`; dtypes promote. NaN gives NaN.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


clamp_min.only_tensors("x")


@clamp_min.bools
def clamp_min_bools(x: Tensor, min: Tensor | bool) -> Tensor:
    return either(x, min)


@clamp_min.vjp
def clamp_min_vjp(
    grad: Tensor, x: Tensor, min: Tensor | float, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return _bounded(grad, x >= min, x < min, needs)


@elementwise(
    glsl="any(bvec2(x < max, x != x)) ? x : max",
    reference=np.minimum,
    dtypes=NUMERIC,
)
def clamp_max(x: Tensor, max: Tensor | float) -> Tensor:
    """Return each element, or the bound where that is smaller.

    Parameters
    ----------
    x : Tensor, not complex
        NaN stays NaN.
    max : Tensor or number
        Of a shape that broadcasts with that of `x`; dtypes promote. NaN gives NaN.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


clamp_max.only_tensors("x")


@clamp_max.bools
def clamp_max_bools(x: Tensor, max: Tensor | bool) -> Tensor:
    return both(x, max)


@clamp_max.vjp
def clamp_max_vjp(
    grad: Tensor, x: Tensor, max: Tensor | float, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return _bounded(grad, x <= max, x > max, needs)


def _bounded(
    grad: Tensor, within: Tensor, beyond: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Give the gradient to the element within its bound, otherwise to the bound."""
    return (
        where(within, grad, 0.0) if needs[0] else None,
        where(beyond, grad, 0.0) if needs[1] else None,
    )


@shown_as("NanToNumBackward0", "x")
def nan_to_num(
    x: Tensor,
    nan: float | None = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """Return a copy of `x` with NaN and infinities replaced.

    Parameters
    ----------
    x : Tensor
        Integers stay as they are.
    nan : float or None, default 0
        For NaN; None means 0.
    posinf, neginf : float or None
        For the infinities; None means the largest and smallest finite number.
    """
    if not x.dtype.is_float:
        return lazy_copy(x)
    most = LARGEST[x.dtype.name]
    nan = 0.0 if nan is None else nan
    posinf = most if posinf is None else posinf
    return _replaced(x, nan, posinf, -most if neginf is None else neginf)


def _replace(x: np.ndarray, nan: Any, posinf: Any, neginf: Any) -> np.ndarray:
    limited = np.where(x == math.inf, posinf, np.where(x == -math.inf, neginf, x))
    return np.where(np.isnan(x), nan, limited).astype(x.dtype)


@elementwise(
    glsl="x != x ? nan : is_upper_end(x) ? posinf : is_lower_end(x) ? neginf : x",
    reference=_replace,
    dtypes=FLOAT,
)
def _replaced(x: Tensor, nan: float, posinf: float, neginf: float) -> Tensor:
    """Return elements with numbers in place of NaN, infinity and minus infinity."""


@_replaced.vjp
def _replaced_vjp(grad: Tensor, x: Tensor) -> Tensor:
    return where(isfinite(x), grad, 0.0)
