"""Max pooling over signals and images: the public functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...autograd.unbatched import unbatched_as
from ...base.errors import ShapeError
from ...base.shape import Shape
from ...dispatch.replayable import replayable
from ...eager.base_tensor import operand
from ...kernels.conv.window import Pair, Window
from ..images import (
    POOLED_INTEGERS,
    autocast_passthrough,
    check_images,
    images,
    output_size,
    pooling_window,
)
from ..indexing.scatter import gather, index_select
from ..reduce.common import as_places
from ..reduce.minmax import argmax
from ..view import expand, reshape
from .max_pool2d import _adaptive_max_pool2d, _max_pool2d

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

MOST_ELEMENTS = 1 << 16
"""Along a dimension: the shader of parts multiplies two such numbers in 32 bits."""


@unbatched_as("MaxPool2DWithIndicesBackward0", "x", dims=(2, 3), dim=-2)
@replayable
def max_pool1d(
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None = None,
    padding: int | Shape = 0,
    dilation: int | Shape = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the largest element of each window of signals; see `max_pool2d`.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, length) or (channels, length)
        Float.
    kernel_size, stride, padding, dilation, ceil_mode
        As in `max_pool2d`.

    Returns
    -------
    Tensor, shape (batch, channels, out) or (channels, out)
    """
    window = pooling_window(
        "max_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode, 1
    )
    return _like(x, 1, _max_pool2d(images(x, 1), window))[0]


@unbatched_as("MaxPool2DWithIndicesBackward0", "x", dims=(2, 3), dim=-2)
@replayable
def max_pool1d_with_indices(
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None = None,
    padding: int | Shape = 0,
    dilation: int | Shape = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return what `max_pool1d` does, and where each element was."""
    window = pooling_window(
        "max_pool1d", x, kernel_size, stride, padding, dilation, ceil_mode, 1, True
    )
    return with_places(_like(x, 1, largest(images(x, 1), window)))


@replayable
def max_pool2d(
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None = None,
    padding: int | Shape = 0,
    dilation: int | Shape = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the largest element of each window.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, height, width) or without batch
        Float, or signed integers or uint8. Padding never wins; a NaN in
        a window does.
    kernel_size : int or (int, int)
        Size of the window.
    stride : int or (int, int), default `kernel_size`
    padding : int or (int, int), default 0
        At most half the kernel.
    dilation : int or (int, int), default 1
    ceil_mode : bool, default False
        Whether a window that sticks out at the end counts, unless it starts in the
        padding.

    Returns
    -------
    Tensor, shape (batch, channels, out_h, out_w) or without batch
        Sizes as in `conv2d`. The gradient goes to the first of equal elements.

    Raises
    ------
    ShapeError
        If `x` is no image, the window does not fit, or padding exceeds half of it.
    """
    window = pooling_window(
        "max_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode, 2, True
    )
    return _like(x, 2, largest(images(x, 2), window))[0]


@replayable
def max_pool2d_with_indices(
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None = None,
    padding: int | Shape = 0,
    dilation: int | Shape = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return what `max_pool2d` does, and where each element was.

    Parameters
    ----------
    x, kernel_size, stride, padding, dilation, ceil_mode
        As in `max_pool2d`.

    Returns
    -------
    tuple of Tensor
        The elements, and their row-major positions in the plane.
    """
    window = pooling_window(
        "max_pool2d", x, kernel_size, stride, padding, dilation, ceil_mode, 2, True
    )
    return with_places(_like(x, 2, largest(images(x, 2), window)))


def largest(pixels: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Return the largest elements, and their places in the plane, also of integers."""
    if pixels.dtype not in POOLED_INTEGERS:
        return _max_pool2d(pixels, window)
    *batch, height, width = pixels.layout.shape
    rows, columns = (_taps(window, (height, width), dim) for dim in range(2))
    flat = rows[:, None, :, None] * width + columns[None, :, None, :]
    shape = (*flat.shape[:2], math.prod(window.kernel))
    table = operand(pixels, flat.reshape(-1).astype(np.int32))
    planes = reshape(pixels, (*batch, height * width))
    values = reshape(index_select(planes, 2, table), (*batch, *shape))
    best = argmax(values, -1, keepdim=True)
    places = expand(reshape(table, shape), values.layout.shape)
    found = (gather(each, -1, best) for each in (values, places))
    out, chosen = (reshape(each, (*batch, *shape[:2])) for each in found)
    return out, chosen


def _taps(window: Window, size: Pair, dim: int) -> np.ndarray:
    """Return where the elements of each window lie along a dimension, of (out, kernel).

    Those in the padding are replaced by the nearest element of the window that is not.
    """
    kernel, step = window.kernel[dim], window.dilation[dim]
    start = np.arange(window.output(*size)[dim]) * window.stride[dim]
    start = (start - window.padding[dim])[:, None]
    last = (size[dim] - 1 - start) // step
    return np.asarray(start + np.clip(np.arange(kernel), -(start // step), last) * step)


def _like(x: Tensor, dims: int, found: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return elements and positions in the dimensions that `x` has."""
    out, places = found
    return autocast_passthrough(out, x, dims), autocast_passthrough(places, x, dims)


def with_places(found: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return elements, and positions in the dtype that users get."""
    return found[0], as_places(found[1])


@unbatched_as("AdaptiveMaxPool2DBackward0", "x", dims=(2, 3), dim=-2)
@replayable
def adaptive_max_pool1d(x: Tensor, output_size: int | Shape) -> Tensor:
    """Return the largest element of each of the parts that divide signals evenly.

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
    return _parts("adaptive_max_pool1d", 1, x, output_size)[0]


@shown_as("AdaptiveMaxPool2DBackward0", "x")
@replayable
def adaptive_max_pool2d(
    x: Tensor, output_size: int | tuple[int | None, ...] | None
) -> Tensor:
    """Return the largest element of each of the parts that divide images evenly.

    Part i of n covers the elements from floor(i size / n) to before
    ceil((i + 1) size / n).

    Parameters
    ----------
    x : Tensor, shape (batch, channels, height, width) or without batch
        Float. A NaN wins.
    output_size : int or (int, int)
        Parts along height and width; None keeps the size.

    Returns
    -------
    Tensor, shape (batch, channels, *output_size) or without batch
        The gradient goes to the first of equal elements.

    Raises
    ------
    ShapeError
        If `x` is no image, a number is below 1, or a size above 65,536.
    """
    return _parts("adaptive_max_pool2d", 2, x, output_size)[0]


@unbatched_as("AdaptiveMaxPool2DBackward0", "x", dims=(2, 3), dim=-2)
@replayable
def adaptive_max_pool1d_with_indices(
    x: Tensor, output_size: int | Shape
) -> tuple[Tensor, Tensor]:
    """Return what `adaptive_max_pool1d` does, and where each element was."""
    return with_places(_parts("adaptive_max_pool1d", 1, x, output_size))


@shown_as("AdaptiveMaxPool2DBackward0", "x")
@replayable
def adaptive_max_pool2d_with_indices(
    x: Tensor, output_size: int | tuple[int | None, ...] | None
) -> tuple[Tensor, Tensor]:
    """Return what `adaptive_max_pool2d` does, and where each element was.

    Returns
    -------
    tuple of Tensor
        The elements, and their row-major positions in the plane.
    """
    return with_places(_parts("adaptive_max_pool2d", 2, x, output_size))


def _parts(
    name: str, dims: int, x: Tensor, wanted: int | tuple[int | None, ...] | None
) -> tuple[Tensor, Tensor]:
    check_images(name, x, dims)
    pixels = images(x, dims)
    size = output_size(name, wanted, pixels, dims)
    return _like(x, dims, largest_of_parts(name, pixels, size))


def largest_of_parts(name: str, pixels: Tensor, size: Pair) -> tuple[Tensor, Tensor]:
    """Return the largest element of each part of (batch, channels, height, width).

    Raises
    ------
    ShapeError
        If a size is 0 or too large.
    """
    (height, width), (out_h, out_w) = pixels.layout.shape[2:], size
    if not 0 < min(height, width) <= max(height, width, out_h, out_w) <= MOST_ELEMENTS:
        raise ShapeError(
            f"{name}: x is {tuple(pixels.shape)}, output_size {size}; sizes must be"
            " from 1 to"
            f" {MOST_ELEMENTS}"
        )
    if height % out_h == 0 and width % out_w == 0:
        # Parts of the same size are adjacent windows.
        part = (height // out_h, width // out_w)
        return _max_pool2d(pixels, Window(part, part, (0, 0), (1, 1)))
    return _adaptive_max_pool2d(pixels, size)
