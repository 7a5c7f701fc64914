"""Element-wise arithmetic of two and three tensors, broadcast with each other.

Integers wrap. Where an operand is a number, it takes the dtype of the tensors.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...autograd.tape import show_as
from ...base.dtype import FLOAT, NUMERIC, DType, bool_
from ...base.errors import DomainError, DTypeError
from ...dispatch.declare import elementwise
from ...eager.base_tensor import TensorCore
from ..source import fill_like
from .cast import converted, need_float, need_one_dtype, result_type
from .compare import both, either
from .unary import flat, sign, trunc

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def times_alpha(
    name: str, input: Tensor | complex, other: Tensor | complex, alpha: Tensor | complex
) -> Tensor | complex:
    """Return `alpha` times `other`, which is added to or subtracted from `input`.

    Parameters
    ----------
    name : str
        The function, for errors.
    input, other : Tensor or number
    alpha : number
        Of a kind that the dtype of the result has.

    Raises
    ------
    DTypeError
        If `alpha` is of another kind, or a bool is subtracted.
    TypeError
        If `alpha` is no number.
    """
    if alpha.__class__ is int and alpha == 1:
        return other
    numbers = int, float, complex, np.generic, TensorCore
    if not isinstance(alpha, numbers):
        raise TypeError(f"{name}: alpha is {alpha!r}; it must be a number")
    if not isinstance(other, numbers):
        return other  # Which the op refuses.
    if name != "add":
        sub_refuses(input, other)
    dtype = result_type(input, other)
    _check_alpha(name, dtype, alpha)
    if isinstance(alpha, TensorCore):
        alpha = converted(alpha, dtype)
    elif alpha == 1:
        return other
    elif dtype is bool_:
        alpha = bool(alpha)
    if isinstance(other, int | float | complex):
        return bool(other and alpha) if dtype is bool_ else other * alpha
    return mul(converted(other, dtype), alpha)


def _check_alpha(name: str, dtype: DType, alpha: Tensor | complex) -> None:
    """Refuse an `alpha` of a kind that the dtype of the result has not."""
    kind = alpha.dtype if isinstance(alpha, TensorCore) else type(alpha)
    if kind in (bool, bool_):
        fits, right = dtype is bool_, "an int or float"
    elif kind is complex or getattr(kind, "is_complex", False):
        fits, right = dtype.is_complex, "no complex number"
    elif kind is float or getattr(kind, "is_float", False):
        fits, right = dtype.is_float or dtype.is_complex, "an int"
    else:
        return
    if not fits:
        raise DTypeError(
            f"{name}: alpha is {alpha}, the result {dtype.name}; alpha must be {right}"
        )


@elementwise(glsl="x + y", reference=np.add, dtypes=NUMERIC)
def add(x: Tensor | complex, y: Tensor | complex) -> Tensor:
    """Return the sum of two tensors, or of a tensor and a number.

    Parameters
    ----------
    x, y : Tensor or number, one of them a tensor
        Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        Integers wrap; of bools it is "or".

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


add.complexes(glsl="x + y", linear=True)


@add.bools
def add_bools(x: Tensor, y: Tensor | bool) -> Tensor:
    return either(x, y)


def _show_both(out: Tensor, name: str, input: Any, other: Any) -> None:
    """Show a result of two tensors as one node, not with what multiplies the second."""
    if isinstance(input, TensorCore) and isinstance(other, TensorCore):
        if input is not other:
            show_as(out, name, input, other)


@add.form
def _add_form(
    input: Tensor | float, other: Tensor | float, *, alpha: float = 1
) -> Tensor:
    out = add(input, times_alpha("add", input, other, alpha))
    _show_both(out, "AddBackward0", input, other)
    return out


@add.vjp
def add_vjp(grad: Tensor) -> tuple[Tensor, Tensor]:
    return grad, grad


@elementwise(glsl="x - y", reference=np.subtract, dtypes=NUMERIC)
def sub(x: Tensor | complex, y: Tensor | complex) -> Tensor:
    """Return the difference of two tensors, or of a tensor and a number.

    Parameters
    ----------
    x, y : Tensor or number, one of them a tensor
        Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        Integers wrap.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If an operand is bool.
    """


sub.complexes(glsl="x - y", linear=True)


@sub.refuses
def sub_refuses(x: object, y: object) -> None:
    for each in (x, y):
        if isinstance(each, bool) or getattr(each, "dtype", None) is bool_:
            raise DTypeError(
                "sub: an operand is bool; use ^, or ~ for what is not so, or a number"
            )


@sub.form
def _sub_form(
    input: Tensor | float, other: Tensor | float, *, alpha: float = 1
) -> Tensor:
    out = sub(input, times_alpha("sub", input, other, alpha))
    _show_both(out, "SubBackward0", input, other)
    return out


@sub.vjp
def sub_vjp(grad: Tensor, needs: tuple[bool, bool]) -> tuple[Tensor, Tensor | None]:
    return grad, -grad if needs[1] else None


@elementwise(glsl="x * y", reference=np.multiply, dtypes=NUMERIC)
def mul(x: Tensor | complex, y: Tensor | complex) -> Tensor:
    """Return the product of two tensors, or of a tensor and a number.

    Parameters
    ----------
    x, y : Tensor or number, one of them a tensor
        Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        Integers wrap; of bools it is "and".

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """


mul.complexes(glsl="complex_product(x, y)")


@mul.bools
def mul_bools(x: Tensor, y: Tensor | bool) -> Tensor:
    return both(x, y)


@mul.vjp
def mul_vjp(
    grad: Tensor, x: Tensor, y: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    return grad * y if needs[0] else None, grad * x if needs[1] else None


@elementwise(
    glsl="rounded_quotient(x, y)",
    reference=np.true_divide,
    dtypes=FLOAT,
    fractional=True,
)
def _div(x: Tensor | complex, y: Tensor | complex) -> Tensor:
    """Return the quotient, of integers as float32."""


_div.complexes(glsl="complex_quotient(x, y)")


@_div.vjp
def _div_vjp(
    grad: Tensor, y: Tensor | float, out: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    scaled = grad / y
    return scaled, -scaled * out if needs[1] else None


def div(
    x: Tensor | float,
    y: Tensor | float,
    *,
    rounding_mode: Literal["floor", "trunc"] | None = None,
) -> Tensor:
    """Return the quotient of two tensors, or of a tensor and a number.

    Parameters
    ----------
    x, y : Tensor or number
        Dividend and divisor.
    rounding_mode : str or None
        None divides integers by integers as float32, as in PyTorch; "floor" and "trunc"
        round the quotient down or towards zero and keep the dtype.

    Notes
    -----
    Division by zero gives infinities, and NaN for 0 / 0; rounded, of integers 0.
    """
    if rounding_mode == "floor":
        found = floor_divide(x, y)
        given = [each if isinstance(each, TensorCore) else None for each in (x, y)]
        show_as(found, "DivBackward2", *given)
        return found
    if rounding_mode == "trunc":
        return _div_trunc(x, y)
    if rounding_mode is not None:
        raise ValueError(
            f"div: rounding_mode is {rounding_mode!r};"
            ' it must be None, "floor" or "trunc"'
        )
    return _div(x, y)


def refuse_zero(name: str, y: object) -> None:
    """Raise `DomainError` if integers are divided by the number 0."""
    if type(y) is int and y == 0:
        raise DomainError(f"{name}: integers are divided by 0; y must be another")


def _whole_quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":
        return np.trunc(x / y)
    floored = np.floor_divide(x, y)
    return floored + ((floored < 0) & (floored * y != x))


@elementwise(
    glsl="truncated_quotient(x, y)",
    reference=_whole_quotient,
    dtypes=NUMERIC,
    refuse_integers=refuse_zero,
)
def _div_trunc(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return the quotient rounded towards zero; of an integer by 0 it is 0."""


@_div_trunc.vjp
def _div_trunc_vjp(grad: Tensor) -> tuple[Tensor, Tensor]:
    return flat(grad), flat(grad)


@elementwise(
    glsl="floored_quotient(x, y)",
    reference=np.floor_divide,
    dtypes=NUMERIC,
    refuse_integers=refuse_zero,
)
def floor_divide(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return the exact quotient rounded down, as `//` in Python.

    Parameters
    ----------
    x, y : Tensor or number, one of them a tensor
        Not bool or complex. Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        Division by zero gives infinities, and NaN for 0 / 0; of integers 0.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DomainError
        If `y` is the number 0, and `x` of integers.
    """


@floor_divide.vjp
def floor_divide_vjp(grad: Tensor) -> tuple[Tensor, Tensor]:
    return flat(grad), flat(grad)


def _remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return NumPy's, but where it is 0 with the sign of `x`, as in PyTorch."""
    found = np.remainder(x, y)
    if found.dtype.kind != "f":
        return found
    return np.where(found == 0, np.copysign(found, x), found)


@elementwise(
    glsl="floored_remainder(x, y)",
    reference=_remainder,
    dtypes=NUMERIC,
    refuse_integers=refuse_zero,
)
def remainder(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return the remainder of `floor_divide`, as `%` in Python.

    Parameters
    ----------
    x, y : Tensor or number, one of them a tensor
        Not bool or complex. Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        Exact, with the sign of `y`; 0 has the sign of `x`. By zero it is NaN; of
        integers 0.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DomainError
        If `y` is the number 0, and `x` of integers.
    """


@remainder.vjp
def remainder_vjp(
    grad: Tensor, x: Tensor, y: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    return grad, -grad * floor_divide(x, y) if needs[1] else None


@elementwise(
    glsl="truncated_remainder(x, y)",
    reference=np.fmod,
    dtypes=NUMERIC,
    refuse_integers=refuse_zero,
)
def fmod(x: Tensor | float, y: Tensor | float) -> Tensor:
    """Return the remainder of the quotient rounded towards zero.

    Parameters
    ----------
    x, y : Tensor or number, one of them a tensor
        Not bool or complex. Shapes broadcast, dtypes promote.

    Returns
    -------
    Tensor, of the promoted dtype
        Exact, with the sign of `x`, also of 0. By zero it is NaN; of integers 0.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DomainError
        If `y` is the number 0, and `x` of integers.
    """


fmod.only_tensors("x")


@fmod.vjp
def fmod_vjp(
    grad: Tensor, x: Tensor, y: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor, Tensor | None]:
    return grad, -grad * trunc(x / y) if needs[1] else None


@elementwise(
    glsl="with_sign_of(x, y)", reference=np.copysign, dtypes=FLOAT, fractional=True
)
def copysign(x: Tensor, y: Tensor | float) -> Tensor:
    """Return `x` with the sign of `y`, also of a zero or NaN.

    Parameters
    ----------
    x : Tensor
        Integers are taken as float32.
    y : Tensor or number
        Of a shape that broadcasts.
    """


copysign.only_tensors("x")


@copysign.vjp
def copysign_vjp(
    grad: Tensor, x: Tensor, y: Tensor | float, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    if not needs[0]:
        return None, flat(grad)
    if isinstance(y, int | float):
        sign_y: Tensor | float = math.copysign(1.0, y)
    else:
        sign_y = copysign(fill_like(y, tuple(y.layout.shape), 1.0, y.dtype), y)
    return grad * sign(x) * sign_y, flat(grad) if needs[1] else None


def _lerp(x: np.ndarray, end: np.ndarray, weight: np.ndarray) -> np.ndarray:
    step = end - x
    return np.where(np.abs(weight) < 0.5, x + weight * step, end - step * (1 - weight))


@elementwise(
    glsl="abs(weight) < 0.5 ? x + weight * (end - x) : end - (end - x) * (1 - weight)",
    reference=_lerp,
    dtypes=FLOAT,
)
def lerp(x: Tensor, end: Tensor, weight: Tensor | float) -> Tensor:
    """Return the element at `weight` on the way from `x` to `end`.

    Parameters
    ----------
    x, end : Tensor, float or complex
    weight : Tensor or number
        Exactly `x` at 0 and exactly `end` at 1; others are outside. The three shapes
        broadcast.

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If tensors with dimensions are of several dtypes, or a number is complex where
        they are not.
    """


lerp.only_tensors("x", "end")


@lerp.refuses
def lerp_refuses(x: Tensor, end: Tensor, weight: Tensor | float) -> None:
    if isinstance(weight, TensorCore):
        weights = {"weight": weight} if weight.ndim else {}
        need_one_dtype("lerp", x=x, end=end, **weights)
        return
    need_one_dtype("lerp", x=x, end=end)
    need_float("lerp", x=x, end=end)
    if isinstance(weight, complex) and not x.dtype.is_complex:
        raise DTypeError(
            f"lerp: weight is {weight}, x is {x.dtype.name}; the weight must be real"
        )


lerp.complexes(
    glsl="complex_magnitude(weight) < 0.5 ? x + complex_product(weight, end - x)"
    " : end - complex_product(end - x, vec2(1, 0) - weight)"
)


@lerp.vjp
def lerp_vjp(
    grad: Tensor,
    x: Tensor,
    end: Tensor,
    weight: Tensor | float,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    return (
        grad * (1.0 - weight) if needs[0] else None,
        grad * weight if needs[1] else None,
        grad * (end - x) if needs[2] else None,
    )


@elementwise(
    glsl="x + value * a * b",
    reference=lambda x, a, b, value: x + value * a * b,
    dtypes=NUMERIC,
)
def _addcmul(x: Tensor, a: Tensor, b: Tensor, value: float) -> Tensor:
    """Return x + value * a * b."""


_addcmul.only_tensors("x", "a", "b")


_addcmul.complexes(glsl="x + complex_product(value, complex_product(a, b))")


@_addcmul.vjp
def _addcmul_vjp(
    grad: Tensor,
    a: Tensor,
    b: Tensor,
    value: float,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    scaled = grad * value
    return grad, scaled * b if needs[1] else None, scaled * a if needs[2] else None


def _number(value: Any) -> Any:
    """Return a factor, of a tensor without dimensions its number."""
    is_tensor = isinstance(value, TensorCore) and not value.ndim
    return value.item() if is_tensor else value


def addcmul(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """Return x + value * tensor1 * tensor2.

    Parameters
    ----------
    x, tensor1, tensor2 : Tensor
        Shapes broadcast, dtypes promote.
    value : number, default 1

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    """
    return _addcmul(x, tensor1, tensor2, _number(value))


@elementwise(
    glsl="x + rounded_quotient(value * a, b)",
    reference=lambda x, a, b, value: x + value * a / b,
    dtypes=FLOAT,
)
def _addcdiv(x: Tensor, a: Tensor, b: Tensor, value: float) -> Tensor:
    """Return x + value * a / b."""


_addcdiv.only_tensors("x", "a", "b")


_addcdiv.complexes(glsl="x + complex_quotient(complex_product(value, a), b)")


@_addcdiv.vjp
def _addcdiv_vjp(
    grad: Tensor,
    a: Tensor,
    b: Tensor,
    value: float,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    scaled = grad * value / b
    return grad, scaled if needs[1] else None, -scaled * a / b if needs[2] else None


def addcdiv(x: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: float = 1) -> Tensor:
    """Return x + value * tensor1 / tensor2.

    Parameters
    ----------
    x, tensor1, tensor2 : Tensor
        Shapes broadcast, dtypes promote. By zero it is infinite or NaN.
    value : number, default 1

    Raises
    ------
    ShapeError
        If the shapes do not broadcast.
    DTypeError
        If both of the quotient are of integers.
    """
    divided = [each for each in (tensor1, tensor2) if isinstance(each, TensorCore)]
    if len(divided) == 2 and not any(each.dtype.is_differentiable for each in divided):
        raise DTypeError(
            f"addcdiv: tensor2 is {tensor2.dtype.name}, tensor1 is"
            f" {tensor1.dtype.name}; one of them must be of floats; cast it"
        )
    return _addcdiv(x, tensor1, tensor2, _number(value))
