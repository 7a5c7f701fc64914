"""Convolution over signals and images, and its transpose: the public functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ...autograd.tape import show_as
from ...autograd.unbatched import show_unbatched, unbatched_as
from ...base.errors import DTypeError, ShapeError
from ...base.recent_cache import RecentCache
from ...base.shape import Shape
from ...base.validation import as_int
from ...dispatch.autocast_policy import autocast_low_precision
from ...ir.kernel_call import MAX_GROUPS
from ...ir.lazy_graph import INTEGERS
from ...kernels.conv.problem import Convolution
from ...kernels.conv.window import Pair, Window, pair
from ...kernels.tensor_cores import convolution_mode
from ..elementwise.complex_numbers import _complex_of, _imaginary_part, _real_part
from ..images import (
    POOLED_INTEGERS,
    autocast_passthrough,
    check_fit,
    check_images,
    images,
)
from ..view import reshape
from .conv2d import _conv2d, _conv2d_input_vjp
from .integer import (
    integer_conv2d,
    integer_conv_transpose2d,
    need_equal_integers,
    need_int64,
)

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@autocast_low_precision
def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Shape = 1,
    padding: int | Shape | str = 0,
    dilation: int | Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of signals with filters.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, length) or (in_channels, length)
        Float.
    weight : Tensor, shape (out_channels, in_channels / groups, kernel), same dtype
        Filters.
    bias, stride, padding, dilation, groups
        As in `conv2d`.

    Returns
    -------
    Tensor, shape (batch, out_channels, out) or (out_channels, out)

    Raises
    ------
    ShapeError
        If shapes do not fit each other or the window does not fit the signal.
    """
    out = _convolved("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)
    if out.grad_node is not None:
        if out.ndim == 3:
            show_as(out, "ConvolutionBackward0", x, weight, bias)
        else:
            show_unbatched(out, "ConvolutionBackward0", 0, x, weight, bias)
    return out


@autocast_low_precision
def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Shape = 1,
    padding: int | Shape | str = 0,
    dilation: int | Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of images with filters.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, height, width) or without batch
        Float, complex or of an integer dtype.
    weight : Tensor, shape (out_channels, in_channels / groups, kernel_h, kernel_w)
        Filters, of the same dtype.
    bias : Tensor, shape (out_channels,), or None
        Added to each output channel.
    stride, dilation : int or (int, int)
        Of height and width.
    padding : int or (int, int), "valid" or "same"
        Zeros at each side; "valid" is none, and "same" as many as keep the size, the
        odd one at the end, for a stride of 1.
    groups : int, default 1
        Blocks of channels that are convolved separately.

    Returns
    -------
    Tensor, shape (batch, out_channels, out_h, out_w) or without batch
        out = (size + 2 padding - dilation (kernel - 1) - 1) // stride + 1.

    Raises
    ------
    ShapeError
        If shapes do not fit each other or the window does not fit the image.
    """
    out = _convolved("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)
    if out.ndim == 3 and out.grad_node is not None:
        show_unbatched(out, "ConvolutionBackward0", 0, x, weight, bias)
    return out


def _convolved(
    name: str,
    dims: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | Shape,
    padding: int | Shape | str,
    dilation: int | Shape,
    groups: int,
) -> Tensor:
    key = key_of(name, dims, x, weight, bias, (stride, padding, dilation, groups))
    checked = checked_calls[key] if key else None
    if checked is not None:
        if dims == 2:
            return _conv2d(x, weight, bias, checked.how)
        out = _conv2d(images(x, dims), images(weight, dims), bias, checked.how)
        return autocast_passthrough(out, x, dims)
    groups = _check_filters(name, x, weight, dims, groups)
    check_channels(name, x, weight, bias, groups)
    pixels, filters = images(x, dims), images(weight, dims)
    window = window_of(name, filters, stride, padding, dilation, dims)
    check_fit(name, pixels, window)
    if x.dtype in POOLED_INTEGERS:
        need_equal_integers(name, x, weight, bias)
        out = integer_conv2d(pixels, filters, window, groups)
        out = out if bias is None else out + reshape(bias, (bias.numel(), 1, 1))
        return autocast_passthrough(out, x, dims)
    if x.dtype.is_complex or weight.dtype.is_complex:
        real = Convolution(
            window, groups, convolution_mode(x.device, x.dtype.to_real())
        )
        out = of_parts(
            name, pixels, filters, lambda x, weight: _conv2d(x, weight, None, real)
        )
        out = out if bias is None else out + reshape(bias, (bias.numel(), 1, 1))
        return autocast_passthrough(out, x, dims)
    how = Convolution(window, groups, convolution_mode(x.device, x.dtype))
    if key:
        checked_calls.add(key, Checked(how))
    return autocast_passthrough(_conv2d(pixels, filters, bias, how), x, dims)


class Checked(NamedTuple):
    """Convolution whose arguments were checked; `size` is that of a transposed one."""

    how: Convolution
    size: Shape = (0, 0)


checked_calls: RecentCache[tuple[object, ...], Checked] = RecentCache(1024)
"""Convolutions of batches by what was checked: shapes, dtypes, arguments and mode.

To check them again takes twice as long as the rest of a call.
"""

_NUMBERS = frozenset({int, str})


def key_of(
    name: str,
    dims: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    given: tuple[object, ...],
) -> tuple[object, ...]:
    """Return the key of a call in `checked_calls`; empty if it is checked each time.

    That is without a batch, and if a number is no int, tuple of ints or name: a bool or
    a float is equal to an int, and not taken for one.
    """
    shape, dtype = x.layout.shape, x.array.value.dtype
    if len(shape) != dims + 2:
        return ()
    for each in given:
        kind = type(each)
        if kind is tuple:
            if not INTEGERS.issuperset(map(type, each)):  # type: ignore[call-overload]
                return ()
        elif kind not in _NUMBERS:
            return ()
    beside = None if bias is None else (bias.layout.shape, bias.array.value.dtype)
    mode = convolution_mode(x.device, dtype)
    shapes = name, shape, weight.layout.shape, beside
    return (*shapes, dtype, weight.array.value.dtype, *given, mode)


def check_bias_dtype(name: str, x: Tensor, bias: Tensor | None) -> None:
    """Raise `DTypeError` if a bias has another dtype than float images."""
    if bias is not None and x.dtype.is_float and bias.dtype is not x.dtype:
        raise DTypeError(
            f"{name}: x is {x.dtype.name}, bias is {bias.dtype.name}; they must be the"
            " same"
        )


def of_parts(
    name: str, x: Tensor, y: Tensor, product: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """Return a bilinear function of complex numbers, by that of their parts."""
    if x.dtype is not y.dtype:
        raise DTypeError(
            f"{name}: x is {x.dtype.name} and weight {y.dtype.name}; they must be of"
            " one dtype"
        )
    (a, b), (c, d) = ((_real_part(z), _imaginary_part(z)) for z in (x, y))
    real = product(a, c) - product(b, d)
    return _complex_of(real, product(a, d) + product(b, c))


def _check_filters(name: str, x: Tensor, weight: Tensor, dims: int, groups: int) -> int:
    """Return the number of groups, checked as the filters are."""
    check_images(name, x, dims, complexes=True, integers=True)
    if len(weight.layout.shape) != dims + 2:
        raise ShapeError(
            f"{name}: weight is {tuple(weight.shape)}; it must be {dims + 2}-D"
        )
    return check_groups(name, groups)


def check_groups(name: str, groups: int) -> int:
    """Return the number of groups of channels, or raise `ShapeError`."""
    groups = as_int(f"{name}: groups", groups)
    if not 1 <= groups <= MAX_GROUPS:
        raise ShapeError(
            f"{name}: groups is {groups}; it must be from 1 to {MAX_GROUPS}"
        )
    return groups


def check_channels(
    name: str, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int
) -> None:
    """Raise `ShapeError` if a convolution's channels do not fit each other.

    `x` may be without a batch.
    """
    out_channels, group_channels = weight.layout.shape[:2]
    channels = x.layout.shape[1 - len(weight.layout.shape)]
    if channels != group_channels * groups or out_channels % groups:
        raise ShapeError(
            f"{name}: x has {channels} channels, weight is {tuple(weight.shape)},"
            f" groups {groups}; x must have weight.shape[1] * groups ="
            f" {group_channels * groups} channels, and groups must divide"
            " weight.shape[0]"
        )
    _check_bias(name, bias, out_channels)


def check_transposed_channels(
    name: str, x: Tensor, weight: Tensor, bias: Tensor | None, groups: int
) -> None:
    """Raise `ShapeError` if a transposed convolution's channels do not fit."""
    in_channels, group_channels = weight.layout.shape[:2]
    channels = x.layout.shape[1 - len(weight.layout.shape)]
    if channels != in_channels or in_channels % groups:
        raise ShapeError(
            f"{name}: x has {channels} channels, weight is {tuple(weight.shape)},"
            f" groups {groups}; x must have weight.shape[0] = {in_channels}"
            " channels, which groups must divide"
        )
    _check_bias(name, bias, group_channels * groups)


def _check_bias(name: str, bias: Tensor | None, channels: int) -> None:
    if bias is not None and bias.shape != (channels,):
        raise ShapeError(
            f"{name}: bias is {tuple(bias.shape)}; it must be ({channels},)"
        )


def window_of(
    name: str,
    filters: Tensor,
    stride: int | Shape,
    padding: int | Shape | str,
    dilation: int | Shape,
    dims: int,
) -> Window:
    """Return the window of filters (..., height, width), or raise `ShapeError`."""
    kernel = (filters.layout.shape[-2], filters.layout.shape[-1])
    steps = pair(f"{name}: stride", stride, 1, dims)
    gaps = pair(f"{name}: dilation", dilation, 1, dims)
    if not isinstance(padding, str):
        zeros = pair(f"{name}: padding", padding, 0, dims)
        return Window(kernel, steps, zeros, gaps)
    if padding == "valid":
        return Window(kernel, steps, (0, 0), gaps)
    if padding != "same" or steps != (1, 1):
        raise ShapeError(
            f"{name}: padding is {padding!r} with stride {stride}; it must be numbers,"
            " 'valid', or 'same' with a stride of 1"
        )
    total = [size - 1 for size in Window(kernel, steps, (0, 0), gaps).reach]
    half = (total[0] // 2, total[1] // 2)
    return Window(kernel, steps, half, gaps, (total[0] % 2, total[1] % 2))


@autocast_low_precision
@unbatched_as("ConvolutionBackward0", "x", "weight", "bias", dims=(2,), dim=0)
def conv_transpose1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Shape = 1,
    padding: int | Shape = 0,
    output_padding: int | Shape = 0,
    groups: int = 1,
    dilation: int | Shape = 1,
) -> Tensor:
    """Return the transpose of `conv1d`; see `conv_transpose2d`.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, length) or (in_channels, length)
        Float.
    weight : Tensor, shape (in_channels, out_channels / groups, kernel), same dtype
    bias, stride, padding, output_padding, groups, dilation
        As in `conv_transpose2d`.

    Returns
    -------
    Tensor, shape (batch, out_channels, out) or (out_channels, out)
    """
    return _transposed(
        "conv_transpose1d",
        1, x, weight, bias, stride, padding, output_padding, groups, dilation,
    )  # fmt: skip


@autocast_low_precision
@unbatched_as("ConvolutionBackward0", "x", "weight", "bias", dims=(3,), dim=0)
def conv_transpose2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Shape = 1,
    padding: int | Shape = 0,
    output_padding: int | Shape = 0,
    groups: int = 1,
    dilation: int | Shape = 1,
) -> Tensor:
    """Return the transpose of `conv2d`: each pixel spreads over a window of the result.

    It is the gradient of `conv2d` with respect to its images, and that is its kernel.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, height, width) or without batch
        Float, complex or int64.
    weight : Tensor, shape (in_channels, out_channels / groups, kernel_h, kernel_w)
        Filters, of the same dtype.
    bias : Tensor, shape (out_channels,), or None
        Added to each output channel.
    stride, padding, dilation : int or (int, int)
        Of the convolution that this is the transpose of.
    output_padding : int or (int, int), default 0
        Size added to the result at one side; below `stride` or `dilation`.
    groups : int, default 1
        Blocks of channels that are treated separately.

    Returns
    -------
    Tensor, shape (batch, out_channels, out_h, out_w) or without batch
        out = (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding
        + 1.

    Raises
    ------
    ShapeError
        If shapes do not fit each other, or nothing is left of the result.
    """
    return _transposed(
        "conv_transpose2d",
        2, x, weight, bias, stride, padding, output_padding, groups, dilation,
    )  # fmt: skip


def _transposed(
    name: str,
    dims: int,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | Shape,
    padding: int | Shape,
    output_padding: int | Shape,
    groups: int,
    dilation: int | Shape,
) -> Tensor:
    given = stride, padding, output_padding, groups, dilation
    key = key_of(name, dims, x, weight, bias, given)
    checked = checked_calls[key] if key else None
    if checked is not None:
        pixels, filters = x, weight
        if dims == 1:
            pixels, filters = images(x, dims), images(weight, dims)
        out = _conv2d_input_vjp(pixels, filters, bias, checked.size, checked.how)
        return out if dims == 2 else autocast_passthrough(out, x, dims)
    groups = _check_filters(name, x, weight, dims, groups)
    if x.dtype in POOLED_INTEGERS:
        need_int64(name, x)
        need_equal_integers(name, x, weight, bias)
    check_transposed_channels(name, x, weight, bias, groups)
    pixels, filters = images(x, dims), images(weight, dims)
    window = window_of(name, filters, stride, padding, dilation, dims)
    added = pair(f"{name}: output_padding", output_padding, 0, dims)
    window, size = transposed_window(name, window, pixels.layout.shape[2:], added)
    if x.dtype in POOLED_INTEGERS:
        out = integer_conv_transpose2d(pixels, filters, size, window, groups)
        out = out if bias is None else out + reshape(bias, (bias.numel(), 1, 1))
        return autocast_passthrough(out, x, dims)
    mode = convolution_mode(x.device, x.dtype.to_real())
    how = Convolution(window, groups, mode)
    if x.dtype.is_complex or weight.dtype.is_complex:
        out = of_parts(
            name,
            pixels,
            filters,
            lambda x, weight: _conv2d_input_vjp(x, weight, None, size, how),
        )
        out = out if bias is None else out + reshape(bias, (bias.numel(), 1, 1))
        return autocast_passthrough(out, x, dims)
    check_bias_dtype(name, x, bias)
    if key:
        checked_calls.add(key, Checked(how, size))
    out = _conv2d_input_vjp(pixels, filters, bias, size, how)
    return autocast_passthrough(out, x, dims)


def transposed_window(
    name: str, window: Window, pixels: Shape, added: Pair
) -> tuple[Window, Pair]:
    """Return the window of the transpose, and the size of its result.

    Parameters
    ----------
    name : str
        Of the function.
    window : Window
        Of the convolution.
    pixels : (int, int)
        Size of what is spread.
    added : (int, int)
        Output padding.

    Raises
    ------
    ShapeError
        If the output padding is too large, or nothing is left of the result.
    """
    limits = tuple(map(max, window.stride, window.dilation))
    if any(more >= limit for more, limit in zip(added, limits)):
        raise ShapeError(
            f"{name}: output_padding is {added}; it must be below {limits}, the larger"
            " of stride and dilation"
        )
    # The gradient convolution must not see the output padding.
    window = window._replace(extra=(-added[0], -added[1]))
    size = _spread(window, pixels)
    if min(size) < 1:
        raise ShapeError(
            f"{name}: the result for an image of {tuple(pixels)} would be of size"
            f" {size}; padding {window.padding} is too much for it"
        )
    return window, size


def _spread(window: Window, size: Shape) -> Pair:
    """Return the size of images over which a window has `size` output pixels."""
    height, width = (
        (places - 1) * step + reach - 2 * pad - extra
        for places, step, reach, pad, extra in zip(
            size, window.stride, window.reach, window.padding, window.extra
        )
    )
    return height, width
