"""Average pooling over signals and images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...autograd.tape import shown_as
from ...autograd.unbatched import unbatched_as
from ...base.errors import ShapeError
from ...base.shape import Shape
from ...base.validation import as_int
from ...dispatch.replayable import replayable
from ..images import (
    autocast_passthrough,
    check_images,
    images,
    output_size,
    pooling_window,
)
from ..reduce.sum import mean
from ..view import reshape
from .filter_weights import Averages, Shares
from .integer_average import integer_averages, is_integer
from .resample import resampled

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def is_one_part(output_size: object) -> bool:
    """Return whether an adaptive pool has one part, whose mean is PyTorch's `mean`."""
    sizes = output_size if isinstance(output_size, tuple | list) else (output_size,)
    return {*sizes} == {1}


def _node(x: Tensor, output_size: object) -> str:
    one = is_one_part(output_size)
    return "MeanBackward1" if one else "AdaptiveAvgPool2DBackward0"


@unbatched_as("AvgPool2DBackward0", "x", dims=(2, 3), dim=-2)
@replayable
def avg_pool1d(
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None = None,
    padding: int | Shape = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window of signals; see `avg_pool2d`.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, length) or (channels, length)
        Float or int64, whose means are cut towards 0.
    kernel_size, stride, padding, ceil_mode, count_include_pad
        As in `avg_pool2d`.

    Returns
    -------
    Tensor, shape (batch, channels, out) or (channels, out)
    """
    name = "avg_pool1d"
    divide_by, _ = divisor(name, count_include_pad, None)
    given = (kernel_size, stride, padding, ceil_mode)
    return _averages(name, 1, x, *given, divide_by, None)


@shown_as("AvgPool2DBackward0", "x")
@replayable
def avg_pool2d(
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None = None,
    padding: int | Shape = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, height, width) or without batch
        Float or int64, whose means are cut towards 0.
    kernel_size : int or (int, int)
        Size of the window.
    stride : int or (int, int), default `kernel_size`
    padding : int or (int, int), default 0
        Zeros at each side, at most half the kernel.
    ceil_mode : bool, default False
        Whether a window that sticks out at the end counts, unless it starts in the
        padding.
    count_include_pad : bool, default True
        Whether the zeros of the padding count in the mean.
    divisor_override : int or None
        What the sum is divided by instead.

    Returns
    -------
    Tensor, shape (batch, channels, out_h, out_w) or without batch

    Raises
    ------
    ShapeError
        If the window does not fit, or an argument is out of range.
    """
    name = "avg_pool2d"
    divide_by, factor = divisor(name, count_include_pad, divisor_override)
    given = (kernel_size, stride, padding, ceil_mode)
    out = _averages(name, 2, x, *given, divide_by, divisor_override)
    return out if factor is None or is_integer(out) else out * factor


def divisor(
    name: str, count_include_pad: bool, override: int | None
) -> tuple[str, float | None]:
    """Return what `Averages` divides by, and what its results are multiplied by."""
    if override is None:
        return "padded" if count_include_pad else "inside", None
    override = as_int(f"{name}: divisor_override", override)
    if override == 0:
        raise ShapeError(f"{name}: divisor_override is 0; it must be another number")
    return "nothing", 1.0 / override


def _averages(
    name: str,
    dims: int,
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None,
    padding: int | Shape,
    ceil_mode: bool,
    divide_by: str,
    override: int | None,
) -> Tensor:
    whole = is_integer(x)
    given = (kernel_size, stride, padding, 1, ceil_mode)
    window = pooling_window(name, x, *given, dims, integers=whole)
    pixels = images(x, dims)
    size = pixels.shape[2:]
    out = window.output(*size)
    rules = {
        2 + k: Averages(
            size[k],
            out[k],
            window.kernel[k],
            window.stride[k],
            window.padding[k],
            divide_by,
        )
        for k in range(2 - dims, 2)
    }
    if whole:
        found = integer_averages(pixels, [*rules.values()], override)
    else:
        found = resampled(name, pixels, rules)
    return autocast_passthrough(found, x, dims)


@unbatched_as("AdaptiveAvgPool2DBackward0", "x", dims=(2, 3), dim=-2)
@replayable
def adaptive_avg_pool1d(x: Tensor, output_size: int | Shape) -> Tensor:
    """Return means over parts that divide signals evenly.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, length) or (channels, length)
        Float.
    output_size : int
        Number of parts.

    Returns
    -------
    Tensor, shape (batch, channels, output_size) or (channels, output_size)
    """
    return _shares("adaptive_avg_pool1d", 1, x, output_size)


@shown_as(_node, "x")
@replayable
def adaptive_avg_pool2d(
    x: Tensor, output_size: int | tuple[int | None, ...] | None
) -> Tensor:
    """Return means over parts that divide images evenly.

    Part i of n covers the elements from floor(i size / n) to before
    ceil((i + 1) size / n).

    Parameters
    ----------
    x : Tensor, shape (batch, channels, height, width) or without batch
        Float.
    output_size : int or (int, int)
        Parts along height and width; None keeps the size.

    Returns
    -------
    Tensor, shape (batch, channels, *output_size) or without batch

    Raises
    ------
    ShapeError
        If `x` is no image, or a number is below 1.
    """
    return _shares("adaptive_avg_pool2d", 2, x, output_size)


def _shares(
    name: str, dims: int, x: Tensor, wanted: int | tuple[int | None, ...] | None
) -> Tensor:
    check_images(name, x, dims)
    pixels = images(x, dims)
    batch, channels, height, width = pixels.shape
    out_h, out_w = output_size(name, wanted, pixels, dims)
    if min(height, width) > 0 and height % out_h == 0 and width % out_w == 0:
        # Parts of the same size are rows of a larger shape.
        parts = (batch, channels, out_h, height // out_h, out_w, width // out_w)
        return autocast_passthrough(mean(reshape(pixels, parts), (3, 5)), x, dims)
    rules = {2: Shares(height, out_h), 3: Shares(width, out_w)}
    kept = {dim: rule for dim, rule in rules.items() if dims == 2 or dim == 3}
    return autocast_passthrough(resampled(name, pixels, kept), x, dims)
