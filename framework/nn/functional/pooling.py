"""Pooling under PyTorch's signatures.

With `return_indices` the maxima come with their row-major positions, as int64.
"""

from __future__ import annotations

from typing import Any

from ... import ops
from ...base.dtype import int64
from ...base.shape import Shape
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...tensor.tensor import Tensor

Sizes = int | Shape
Wanted = int | tuple[int | None, ...] | None
Found = tuple[Tensor, Tensor]


def _wide(found: Found) -> Found:
    return found[0], found[1].to(int64)


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Return the mean of each window of signals.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or without batch
        Float or int64, whose means are cut towards 0.
    kernel_size : int or (int,)
        Size of the window.
    stride : int or (int,), default `kernel_size`
    padding : int or (int,), default 0
        Zeros at each side, at most half the kernel.
    ceil_mode : bool, default False
        Whether a window that sticks out at the end counts, unless it starts in the
        padding.
    count_include_pad : bool, default True
        Whether the zeros of the padding count in the mean.

    Returns
    -------
    Tensor, shape (batch, channels, out) or without batch

    Raises
    ------
    ShapeError
        If the window does not fit, or an argument is out of range.
    """
    return ops.avg_pool1d(
        input, kernel_size, stride, padding, ceil_mode, count_include_pad
    )


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of images.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or without batch
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
        What the sum is divided by instead; not 0.

    Returns
    -------
    Tensor, shape (batch, channels, out_h, out_w) or without batch

    Raises
    ------
    ShapeError
        If the window does not fit, or an argument is out of range.
    """
    return ops.avg_pool2d(
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


@autocast_float32_on_host
def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of volumes.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float or int64, whose means are cut towards 0.
    kernel_size : int or (int, int, int)
        Size of the window.
    stride : int or (int, int, int), default `kernel_size`
    padding : int or (int, int, int), default 0
        Zeros at each side, at most half the kernel.
    ceil_mode : bool, default False
        Whether a window that sticks out at the end counts, unless it starts in the
        padding.
    count_include_pad : bool, default True
        Whether the zeros of the padding count in the mean.
    divisor_override : int or None
        What the sum is divided by instead; not 0.

    Returns
    -------
    Tensor, shape (batch, channels, out_d, out_h, out_w) or without batch

    Raises
    ------
    ShapeError
        If the window does not fit, or an argument is out of range.
    """
    return ops.avg_pool3d(
        input,
        kernel_size,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor_override,
    )


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Found:
    """Return the largest element of each window of signals, and its position.

    Parameters
    ----------
    input, kernel_size, stride, padding, dilation, ceil_mode
        As in `max_pool1d`, and its errors.
    return_indices : bool
        Without effect.

    Returns
    -------
    tuple of Tensor, shape of what `max_pool1d` returns
        The elements, and their row-major positions as int64.
    """
    return _wide(
        ops.max_pool1d_with_indices(
            input, kernel_size, stride, padding, dilation, ceil_mode
        )
    )


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window of signals.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or without batch, float
        Padding never wins; a NaN in a window does.
    kernel_size : int or (int,)
        Size of the window.
    stride : int or (int,), default `kernel_size`
    padding : int or (int,), default 0
        At most half the kernel.
    dilation : int or (int,), default 1
    ceil_mode : bool, default False
        Whether a window that sticks out at the end counts, unless it starts in the
        padding.
    return_indices : bool, default False
        Whether positions are returned too.

    Returns
    -------
    Tensor, shape (batch, channels, out) or without batch
        With `return_indices` a pair of it and the row-major positions in the input's
        signal, int64. The first of equal elements has the position and the gradient.

    Raises
    ------
    ShapeError
        If `input` has other dimensions, the window does not fit, or padding exceeds
        half of it.
    """
    window = (kernel_size, stride, padding, dilation, ceil_mode)
    if return_indices:
        return max_pool1d_with_indices(input, *window)
    return ops.max_pool1d(input, *window)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Found:
    """Return the largest element of each window of images, and its position.

    Parameters
    ----------
    input, kernel_size, stride, padding, dilation, ceil_mode
        As in `max_pool2d`, and its errors.
    return_indices : bool
        Without effect.

    Returns
    -------
    tuple of Tensor, shape of what `max_pool2d` returns
        The elements, and their row-major positions as int64.
    """
    return _wide(
        ops.max_pool2d_with_indices(
            input, kernel_size, stride, padding, dilation, ceil_mode
        )
    )


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window of images.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or without batch, float
        Padding never wins; a NaN in a window does.
    kernel_size : int or (int, int)
        Size of the window.
    stride : int or (int, int), default `kernel_size`
    padding : int or (int, int), default 0
        At most half the kernel.
    dilation : int or (int, int), default 1
    ceil_mode : bool, default False
        Whether a window that sticks out at the end counts, unless it starts in the
        padding.
    return_indices : bool, default False
        Whether positions are returned too.

    Returns
    -------
    Tensor, shape (batch, channels, out_h, out_w) or without batch
        With `return_indices` a pair of it and the row-major positions in the input's
        plane, int64. The first of equal elements has the position and the gradient.

    Raises
    ------
    ShapeError
        If `input` has other dimensions, the window does not fit, or padding exceeds
        half of it.
    """
    window = (kernel_size, stride, padding, dilation, ceil_mode)
    if return_indices:
        return max_pool2d_with_indices(input, *window)
    return ops.max_pool2d(input, *window)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Found:
    """Return the largest element of each window of volumes, and its position.

    Parameters
    ----------
    input, kernel_size, stride, padding, dilation, ceil_mode
        As in `max_pool3d`, and its errors.
    return_indices : bool
        Without effect.

    Returns
    -------
    tuple of Tensor, shape of what `max_pool3d` returns
        The elements, and their row-major positions as int64.
    """
    return _wide(
        ops.max_pool3d_with_indices(
            input, kernel_size, stride, padding, dilation, ceil_mode
        )
    )


@autocast_float32_on_host
def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Return the largest element of each window of volumes.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float. Padding never wins; a NaN in a window does.
    kernel_size : int or (int, int, int)
        Size of the window.
    stride : int or (int, int, int), default `kernel_size`
    padding : int or (int, int, int), default 0
        At most half the kernel.
    dilation : int or (int, int, int), default 1
    ceil_mode : bool, default False
        Whether a window that sticks out at the end counts, unless it starts in the
        padding.
    return_indices : bool, default False
        Whether positions are returned too.

    Returns
    -------
    Tensor, shape (batch, channels, out_d, out_h, out_w) or without batch
        With `return_indices` a pair of it and the row-major positions in the input's
        volume, int64. The first of equal elements has the position and the gradient.

    Raises
    ------
    ShapeError
        If `input` has other dimensions, the window does not fit, or padding exceeds
        half of it.
    """
    window = (kernel_size, stride, padding, dilation, ceil_mode)
    if return_indices:
        return max_pool3d_with_indices(input, *window)
    return ops.max_pool3d(input, *window)


def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """Return means over parts that divide signals evenly.

    Part i of n is from floor(i * size / n) to ceil((i + 1) * size / n); parts may
    overlap.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or without batch, float
    output_size : int or (int,)
        How many parts, each at least 1.

    Returns
    -------
    Tensor, shape (batch, channels, output_size) or without batch

    Raises
    ------
    ShapeError
        If `input` has other dimensions, or a size is below 1.
    """
    return ops.adaptive_avg_pool1d(input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Wanted) -> Tensor:
    """Return means over parts that divide images evenly.

    Part i of n is from floor(i * size / n) to ceil((i + 1) * size / n); parts may
    overlap.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or without batch, float
    output_size : int or (int or None, int or None)
        How many parts, each at least 1; None keeps the size.

    Returns
    -------
    Tensor, shape (batch, channels, *output_size) or without batch

    Raises
    ------
    ShapeError
        If `input` has other dimensions, or a size is below 1.
    """
    return ops.adaptive_avg_pool2d(input, output_size)


@autocast_float32_on_host
def adaptive_avg_pool3d(input: Tensor, output_size: Wanted) -> Tensor:
    """Return means over parts that divide volumes evenly.

    Part i of n is from floor(i * size / n) to ceil((i + 1) * size / n); parts may
    overlap.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float.
    output_size : int, or three of int or None
        How many parts, each at least 1; None keeps the size.

    Returns
    -------
    Tensor, shape (batch, channels, *output_size) or without batch

    Raises
    ------
    ShapeError
        If `input` has other dimensions, or a size is below 1.
    """
    return ops.adaptive_avg_pool3d(input, output_size)


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> Found:
    """Return the largest element of each part of signals, and its position.

    Parameters
    ----------
    input, output_size
        As in `adaptive_max_pool1d`, and its errors.
    return_indices : bool
        Without effect.

    Returns
    -------
    tuple of Tensor
        The elements, and their row-major positions in the input as int64.
    """
    return _wide(ops.adaptive_max_pool1d_with_indices(input, output_size))


def adaptive_max_pool1d(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> Any:
    """Return the largest element of each of the parts that divide signals evenly.

    The parts are those of `adaptive_avg_pool1d`; a NaN in a part wins.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or without batch, float
    output_size : int or (int,)
        How many parts, each at least 1.
    return_indices : bool, default False
        Whether row-major positions in the input are returned too, as int64.

    Returns
    -------
    Tensor, or tuple of Tensor
        Of shape (batch, channels, output_size) or without batch.

    Raises
    ------
    ShapeError
        If `input` has other dimensions, or a size is below 1.
    """
    if return_indices:
        return adaptive_max_pool1d_with_indices(input, output_size)
    return ops.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Wanted, return_indices: bool = False
) -> Found:
    """Return the largest element of each part of images, and its position.

    Parameters
    ----------
    input, output_size
        As in `adaptive_max_pool2d`, and its errors.
    return_indices : bool
        Without effect.

    Returns
    -------
    tuple of Tensor
        The elements, and their row-major positions in the input as int64.
    """
    return _wide(ops.adaptive_max_pool2d_with_indices(input, output_size))


def adaptive_max_pool2d(
    input: Tensor, output_size: Wanted, return_indices: bool = False
) -> Any:
    """Return the largest element of each of the parts that divide images evenly.

    The parts are those of `adaptive_avg_pool2d`; a NaN in a part wins.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or without batch, float
    output_size : int or (int or None, int or None)
        How many parts, each at least 1; None keeps the size.
    return_indices : bool, default False
        Whether row-major positions in the input are returned too, as int64.

    Returns
    -------
    Tensor, or tuple of Tensor
        Of shape (batch, channels, *output_size) or without batch.

    Raises
    ------
    ShapeError
        If `input` has other dimensions, or a size is below 1.
    """
    if return_indices:
        return adaptive_max_pool2d_with_indices(input, output_size)
    return ops.adaptive_max_pool2d(input, output_size)


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Wanted, return_indices: bool = False
) -> Found:
    """Return the largest element of each part of volumes, and its position.

    Parameters
    ----------
    input, output_size
        As in `adaptive_max_pool3d`, and its errors.
    return_indices : bool
        Without effect.

    Returns
    -------
    tuple of Tensor
        The elements, and their row-major positions in the input as int64.
    """
    return _wide(ops.adaptive_max_pool3d_with_indices(input, output_size))


@autocast_float32_on_host
def adaptive_max_pool3d(
    input: Tensor, output_size: Wanted, return_indices: bool = False
) -> Any:
    """Return the largest element of each of the parts that divide volumes evenly.

    The parts are those of `adaptive_avg_pool3d`; a NaN in a part wins.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float.
    output_size : int, or three of int or None
        How many parts, each at least 1; None keeps the size.
    return_indices : bool, default False
        Whether row-major positions in the input are returned too, as int64.

    Returns
    -------
    Tensor, or tuple of Tensor
        Of shape (batch, channels, *output_size) or without batch.

    Raises
    ------
    ShapeError
        If `input` has other dimensions, or a size is below 1.
    """
    if return_indices:
        return adaptive_max_pool3d_with_indices(input, output_size)
    return ops.adaptive_max_pool3d(input, output_size)
