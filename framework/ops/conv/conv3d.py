"""Convolution over volumes, and its transpose: the public functions.

Their kernels are those of images, with windows along depth too. Where these have one
plane each, a volume's planes are images by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...autograd.unbatched import unbatched_as
from ...base.errors import ShapeError
from ...base.shape import Shape
from ...base.validation import as_int_or_ints
from ...dispatch.autocast_policy import autocast_low_precision
from ...dispatch.replayable import replayable
from ...kernels.conv.problem import Convolution
from ...kernels.conv.window import Window
from ...kernels.shader_types import check_float
from ...kernels.tensor_cores import convolution_mode
from ..images import POOLED_INTEGERS
from ..view import reshape, unsqueeze
from .conv import (
    Checked,
    check_bias_dtype,
    check_channels,
    check_groups,
    check_transposed_channels,
    checked_calls,
    key_of,
    of_parts,
    transposed_window,
    window_of,
)
from .conv2d import _conv2d, _conv2d_input_vjp
from .integer import (
    integer_conv3d,
    integer_conv_transpose3d,
    need_equal_integers,
    need_int64,
)

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

Triple = tuple[int, int, int]


def triple(name: str, value: int | Shape, least: int) -> Triple:
    """Return (depth, height, width) of an argument given as one number or three.

    Raises
    ------
    ShapeError
        If it is neither, or a number is below `least`.
    """
    numbers = as_int_or_ints(name, value)
    given = (numbers,) if isinstance(numbers, int) else numbers
    given = given * 3 if len(given) == 1 else given
    if len(given) != 3 or min(given) < least:
        raise ShapeError(
            f"{name} is {value}; it must be one number or (depth, height, width), each"
            f" at least {least}"
        )
    return given[0], given[1], given[2]


def check_volumes(
    name: str, x: Tensor, complexes: bool = False, integers: bool = False
) -> None:
    """Raise an error if `x` is no float batch of volumes, nor one alone.

    `complexes` and `integers` say whether one of such numbers is taken too.
    """
    taken = complexes and x.dtype.is_complex
    if not taken and not (integers and x.dtype in POOLED_INTEGERS):
        check_float(name, x)
    if len(x.layout.shape) not in (4, 5):
        raise ShapeError(
            f"{name}: x is {tuple(x.shape)}; it must be 5-D, or 4-D without a batch"
        )


def _batched(name: str, x: Tensor, weight: Tensor) -> Tensor:
    check_volumes(name, x, complexes=True, integers=True)
    if len(weight.layout.shape) != 5:
        raise ShapeError(f"{name}: weight is {tuple(weight.shape)}; it must be 5-D")
    return x if len(x.layout.shape) == 5 else unsqueeze(x, 0)


@autocast_low_precision
@unbatched_as("ConvolutionBackward0", "x", "weight", "bias", dims=(4,), dim=0)
@replayable
def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Shape = 1,
    padding: int | Shape | str = 0,
    dilation: int | Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of volumes with filters.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, depth, height, width) or without batch
        Float, complex or of an integer dtype.
    weight : Tensor, shape (out_channels, in_channels / groups, kernel_d, _h, _w)
        Filters, of the same dtype.
    bias, stride, padding, dilation, groups
        As in `conv2d`, of three dimensions.

    Returns
    -------
    Tensor, shape (batch, out_channels, out_d, out_h, out_w) or without batch

    Raises
    ------
    ShapeError
        If shapes do not fit each other or the window does not fit the volume.
    """
    name = "conv3d"
    key = key_of(name, 3, x, weight, bias, (stride, padding, dilation, groups))
    checked = checked_calls[key] if key else None
    if checked is not None:
        return _convolved(x, weight, bias, checked.how)
    volumes = _batched(name, x, weight)
    groups = check_groups(name, groups)
    check_channels(name, volumes, weight, bias, groups)
    depth, window = _windows(name, weight, stride, padding, dilation)
    planes, *size = volumes.layout.shape[2:]
    if not (depth.fits(planes, 1) and window.fits(size[0], size[1])):
        raise ShapeError(
            f"{name}: filters of {tuple(weight.shape[2:])} with dilation"
            f" {(depth.dilation[0], *window.dilation)} do not fit a volume of"
            f" {tuple(x.shape)} with padding {padding}"
        )
    if x.dtype in POOLED_INTEGERS:
        need_equal_integers(name, x, weight, bias)
        out = integer_conv3d(volumes, weight, depth, window, groups)
        out = _with_bias(out, bias)
    elif x.dtype.is_complex or weight.dtype.is_complex:
        mode = convolution_mode(x.device, x.dtype.to_real())
        how = _convolution(window, groups, mode, depth)
        out = of_parts(
            name, volumes, weight, lambda x, weight: _convolved(x, weight, None, how)
        )
        out = _with_bias(out, bias)
    else:
        check_bias_dtype(name, x, bias)
        mode = convolution_mode(x.device, x.dtype)
        how = _convolution(window, groups, mode, depth)
        if key:
            checked_calls.add(key, Checked(how))
        out = _convolved(volumes, weight, bias, how)
    return out if len(x.layout.shape) == 5 else reshape(out, out.layout.shape[1:])


def _windows(
    name: str,
    weight: Tensor,
    stride: int | Shape,
    padding: int | Shape | str,
    dilation: int | Shape,
) -> tuple[Window, Window]:
    """Return the windows along depth, of (planes, 1), and those of planes."""
    steps = triple(f"{name}: stride", stride, 1)
    gaps = triple(f"{name}: dilation", dilation, 1)
    taps = weight.layout.shape[2]
    reach = gaps[0] * (taps - 1)
    around: Shape | str
    extra = 0
    if isinstance(padding, str):
        if padding not in ("same", "valid") or (padding == "same" and max(steps) > 1):
            raise ShapeError(
                f"{name}: padding is {padding!r} with stride {stride}; it must be"
                " numbers, 'valid', or 'same' with a stride of 1"
            )
        total = reach if padding == "same" else 0
        before, extra, around = total // 2, total % 2, padding
    else:
        before, *sides = triple(f"{name}: padding", padding, 0)
        around = tuple(sides)
    depth = Window((taps, 1), (steps[0], 1), (before, 0), (gaps[0], 1), (extra, 0))
    return depth, window_of(name, weight, steps[1:], around, gaps[1:], 2)


def _convolution(window: Window, groups: int, mode: str, depth: Window) -> Convolution:
    """Return a convolution of volumes: of planes by themselves, if windows are so."""
    alone = Window((1, 1), (1, 1), (0, 0), depth.dilation)
    return Convolution(window, groups, mode, None if depth == alone else depth)


def _convolved(
    x: Tensor, weight: Tensor, bias: Tensor | None, how: Convolution
) -> Tensor:
    if how.depth is not None:
        return _conv2d(x, weight, bias, how)
    filters = _filters(weight)
    return _of_planes(x, how, lambda x: _conv2d(x, filters, bias, how))


def _filters(weight: Tensor) -> Tensor:
    """Return filters of one plane as those of images."""
    count, channels, _, *taps = weight.layout.shape
    return reshape(weight, (count, channels, *taps))


def _with_bias(out: Tensor, bias: Tensor | None) -> Tensor:
    return out if bias is None else out + reshape(bias, (bias.numel(), 1, 1, 1))


def _of_planes(
    planes: Tensor, how: Convolution, convolved: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return a convolution of planes; of windows of a pixel as that of one image."""
    one = Window((1, 1), (1, 1), (0, 0), how.window.dilation)
    if how.window != one:
        return convolved(planes)
    batch, channels, depth, height, width = planes.layout.shape
    out = convolved(reshape(planes, (batch, channels, depth * height, width)))
    return reshape(out, (batch, out.layout.shape[1], depth, height, width))


@autocast_low_precision
@unbatched_as("ConvolutionBackward0", "x", "weight", "bias", dims=(4,), dim=0)
@replayable
def conv_transpose3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Shape = 1,
    padding: int | Shape = 0,
    output_padding: int | Shape = 0,
    groups: int = 1,
    dilation: int | Shape = 1,
) -> Tensor:
    """Return the transpose of `conv3d`: each voxel spreads over a window of the result.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, depth, height, width) or without batch
        Float, complex or int64.
    weight : Tensor, shape (in_channels, out_channels / groups, kernel_d, _h, _w)
        Filters, of the same dtype.
    bias, stride, padding, output_padding, groups, dilation
        As in `conv_transpose2d`, of three dimensions.

    Returns
    -------
    Tensor, shape (batch, out_channels, out_d, out_h, out_w) or without batch

    Raises
    ------
    ShapeError
        If shapes do not fit each other, or nothing is left of the result.
    """
    name = "conv_transpose3d"
    given = stride, padding, output_padding, groups, dilation
    key = key_of(name, 3, x, weight, bias, given)
    checked = checked_calls[key] if key else None
    if checked is not None:
        return _spread(x, weight, bias, checked.size, checked.how)
    volumes = _batched(name, x, weight)
    if x.dtype in POOLED_INTEGERS:
        need_int64(name, x)
    groups = check_groups(name, groups)
    check_transposed_channels(name, volumes, weight, bias, groups)
    around = triple(f"{name}: padding", padding, 0)
    added = triple(f"{name}: output_padding", output_padding, 0)
    depth, window = _windows(name, weight, stride, around, dilation)
    planes, *plane = volumes.layout.shape[2:]
    deep = (planes - 1) * depth.stride[0] - 2 * around[0] + depth.reach[0] + added[0]
    if added[0] >= max(depth.stride[0], depth.dilation[0]) or deep < 1:
        raise ShapeError(
            f"{name}: the result would be {deep} deep with output_padding {added};"
            " it must be at least 1, and output_padding below the larger of stride and"
            " dilation"
        )
    # The gradient convolution must not see the output padding.
    depth = depth._replace(extra=(-added[0], 0))
    window, high_wide = transposed_window(
        name, window, tuple(plane), (added[1], added[2])
    )
    size = deep, *high_wide
    if x.dtype in POOLED_INTEGERS:
        need_equal_integers(name, x, weight, bias)
        out = integer_conv_transpose3d(volumes, weight, size, depth, window, groups)
        out = _with_bias(out, bias)
    elif x.dtype.is_complex or weight.dtype.is_complex:
        mode = convolution_mode(x.device, x.dtype.to_real())
        how = _convolution(window, groups, mode, depth)
        out = of_parts(
            name,
            volumes,
            weight,
            lambda x, weight: _spread(x, weight, None, size, how),
        )
        out = _with_bias(out, bias)
    else:
        check_bias_dtype(name, x, bias)
        mode = convolution_mode(x.device, x.dtype)
        how = _convolution(window, groups, mode, depth)
        if key:
            checked_calls.add(key, Checked(how, size))
        out = _spread(volumes, weight, bias, size, how)
    return out if len(x.layout.shape) == 5 else reshape(out, out.layout.shape[1:])


def _spread(
    x: Tensor, weight: Tensor, bias: Tensor | None, size: Shape, how: Convolution
) -> Tensor:
    """Return the transposed convolution of volumes, whose result has a size."""
    if how.depth is not None:
        return _conv2d_input_vjp(x, weight, bias, size, how)
    filters = _filters(weight)

    def spread(x: Tensor) -> Tensor:
        high = size[1] if len(x.layout.shape) == 5 else x.layout.shape[2]
        return _conv2d_input_vjp(x, filters, bias, (high, size[2]), how)

    return _of_planes(x, how, spread)
