"""Fake quantization: floats rounded to what few bits would hold, with gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.tape import show_as
from ...base.dtype import FLOAT, bfloat16, float16, float32, float64, int32
from ...base.errors import DomainError, DTypeError, ShapeError
from ...dispatch.declare import composite
from ...dispatch.replayable import replayable
from ...eager.base_tensor import TensorCore
from ..elementwise.binary import mul, sub
from ..elementwise.cast import cast
from ..elementwise.compare import gt, logical_and, lt, where
from ..elementwise.unary import reciprocal, round
from ..source import fill_like
from ..view import reshape

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@composite(dtypes={"x": FLOAT, "scale": (float32,), "zero_point": (float32,)})
def fake_quantize(
    x: Tensor, scale: Tensor | float, zero_point: Tensor | float, low: int, high: int
) -> Tensor:
    """Return elements as they are after rounding to multiples of a scale.

    A scale that is a number is one of float32.
    """
    level = _level(x, scale, zero_point)
    # A NaN becomes the lowest one, as in PyTorch.
    level = where(gt(level, low), level, float(low))
    level = where(lt(level, high), level, float(high))
    # In float32 also of float64, as PyTorch's kernels have the scale.
    return cast(mul(sub(cast(level, float32), zero_point), scale), x.dtype)


@fake_quantize.vjp
def fake_quantize_vjp(
    grad: Tensor,
    x: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | float,
    low: int,
    high: int,
) -> tuple[Tensor, None, None]:
    level = _level(x, scale, zero_point)
    inside = logical_and(gt(level, low - 1), lt(level, high + 1))
    return where(inside, grad, 0.0), None, None


def _level(x: Tensor, scale: Tensor | float, zero_point: Tensor | float) -> Tensor:
    """Return the whole numbers that elements are rounded to, before any bounds."""
    wide = x if x.dtype is float64 else cast(x, float32)
    if isinstance(scale, TensorCore):
        return round(mul(wide, reciprocal(scale))) + zero_point
    with np.errstate(divide="ignore", over="ignore"):
        inverse = float(np.float32(1) / np.float32(scale))
    return round(mul(wide, inverse)) + zero_point


def fake_quantize_per_tensor_affine(
    input: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | int,
    quant_min: int,
    quant_max: int,
) -> Tensor:
    """Return elements rounded to what a quantized tensor of one scale holds.

    The gradient passes where the rounded element is between the bounds, and is 0
    elsewhere; `scale` and `zero_point` have none.

    Parameters
    ----------
    input : Tensor, float16, bfloat16, float32 or float64
    scale : Tensor of one element, float32, or float
        Distance of neighbouring results.
    zero_point : Tensor of one element, integer or float, or int
        Which of the whole numbers stands for 0.
    quant_min, quant_max : int
        The least and the largest of these.

    Returns
    -------
    Tensor, shape and dtype of `input`
        (clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point)
        * scale. NaN becomes the least.

    Raises
    ------
    DomainError
        If the bounds are in the wrong order, or `zero_point` is not between them.
    DTypeError
        If `input` has no floats.

    Examples
    --------
    >>> x = fw.tensor([-1.0, 0.2, 0.3, 9.0])
    >>> fw.fake_quantize_per_tensor_affine(x, 0.5, 1, 0, 3).tolist()
    [-0.5, 0.0, 0.5, 1.0]
    """
    name = "fake_quantize_per_tensor_affine"
    _check(name, input, quant_min, quant_max)
    if not isinstance(zero_point, TensorCore):
        _check_points(name, np.asarray(zero_point), quant_min, quant_max)
    size, point = (_parameter(each, input) for each in (scale, zero_point))
    out = fake_quantize(input, size, point, quant_min, quant_max)
    kind = "TensorQparams" * isinstance(scale, TensorCore)
    show_as(out, f"FakeQuantizePerTensorAffineCachemask{kind}Backward0", input)
    return out


def _parameter(given: Tensor | float, x: Tensor) -> Tensor | float:
    """Return a scale or a zero point in float32, without dimensions if a tensor."""
    if isinstance(given, TensorCore):
        return reshape(cast(given, float32), ())
    if type(given) in (float, int):
        with np.errstate(over="ignore"):
            return float(np.float32(given))
    return fill_like(x, (), given, float32)  # a number that may be another in a replay


@replayable
def fake_quantize_per_channel_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> Tensor:
    """Return elements rounded to what a quantized tensor of a scale a channel holds.

    Parameters
    ----------
    input : Tensor, float16, bfloat16, float32 or float64
    scale : Tensor, shape (channels,), float32 or bfloat16
    zero_point : Tensor, shape (channels,), int32, float32 or float16
    axis : int
        The dimension of the channels.
    quant_min, quant_max : int
        As in `fake_quantize_per_tensor_affine`, as is the result.

    Returns
    -------
    Tensor, shape and dtype of `input`

    Raises
    ------
    DomainError
        If the bounds are in the wrong order, or a `zero_point` is not between them.
    DTypeError
        If a dtype is another one.
    ShapeError
        If `axis` is no dimension, or there is not one scale a channel.
    """
    name = "fake_quantize_per_channel_affine"
    _check(name, input, quant_min, quant_max)
    for word, given, wanted in (
        ("scale", scale, (float32, bfloat16)),
        ("zero_point", zero_point, (int32, float32, float16)),
    ):
        if given.dtype not in wanted:
            raise DTypeError(
                f"{name}: {word} is {given.dtype.name}; accepted:"
                f" {', '.join(each.name for each in wanted)}"
            )
    if not 0 <= axis < input.ndim:
        raise ShapeError(
            f"{name}: axis is {axis}; the input has dimensions 0 to {input.ndim - 1}"
        )
    channels = (input.shape[axis],)
    if scale.shape != channels or zero_point.shape != channels:
        raise ShapeError(
            f"{name}: scale is {tuple(scale.shape)} and zero_point"
            f" {tuple(zero_point.shape)}; dimension {axis} of the input needs"
            f" {channels}"
        )
    if not zero_point.is_gpu:
        _check_points(name, zero_point.detach().numpy(), quant_min, quant_max)
    shape = tuple([1 if k != axis else channels[0] for k in range(input.ndim)])
    out = fake_quantize(
        input,
        reshape(cast(scale, float32), shape),
        reshape(cast(zero_point, float32), shape),
        quant_min,
        quant_max,
    )
    show_as(out, "FakeQuantizePerChannelAffineCachemaskBackward0", input)
    return out


def _check(name: str, input: Any, low: int, high: int) -> None:
    if input.dtype not in FLOAT:
        raise DTypeError(f"{name}: the input is {input.dtype.name}; it must be floats")
    if low > high:
        raise DomainError(
            f"{name}: quant_min is {low} and quant_max {high}; the first must not be"
            " larger"
        )


def _check_points(name: str, points: np.ndarray, low: int, high: int) -> None:
    if points.size and not (low <= points.min() and points.max() <= high):
        raise DomainError(
            f"{name}: zero_point is from {points.min()} to {points.max()}; it must be"
            f" from {low} to {high}"
        )
