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
    """Return the mean of each window of signals; see `ops.avg_pool2d`."""
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
    """Return the mean of each window of images; see `ops.avg_pool2d`."""
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
    """Return the mean of each window of volumes; see `ops.avg_pool2d`."""
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
    """Return the largest element of each window of signals, and its position."""
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
    """Return the largest element of each window of signals; see `ops.max_pool2d`."""
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
    """Return the largest element of each window of images, and its position."""
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
    """Return the largest element of each window of images; see `ops.max_pool2d`."""
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
    """Return the largest element of each window of volumes, and its position."""
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
    """Return the largest element of each window of volumes; see `ops.max_pool2d`."""
    window = (kernel_size, stride, padding, dilation, ceil_mode)
    if return_indices:
        return max_pool3d_with_indices(input, *window)
    return ops.max_pool3d(input, *window)


def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """Return means over parts that divide signals evenly."""
    return ops.adaptive_avg_pool1d(input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Wanted) -> Tensor:
    """Return means over parts that divide images evenly."""
    return ops.adaptive_avg_pool2d(input, output_size)


@autocast_float32_on_host
def adaptive_avg_pool3d(input: Tensor, output_size: Wanted) -> Tensor:
    """Return means over parts that divide volumes evenly."""
    return ops.adaptive_avg_pool3d(input, output_size)


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> Found:
    """Return the largest element of each part of signals, and its position."""
    return _wide(ops.adaptive_max_pool1d_with_indices(input, output_size))


def adaptive_max_pool1d(
    input: Tensor, output_size: Sizes, return_indices: bool = False
) -> Any:
    """Return the largest element of each of the parts that divide signals evenly."""
    if return_indices:
        return adaptive_max_pool1d_with_indices(input, output_size)
    return ops.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Wanted, return_indices: bool = False
) -> Found:
    """Return the largest element of each part of images, and its position."""
    return _wide(ops.adaptive_max_pool2d_with_indices(input, output_size))


def adaptive_max_pool2d(
    input: Tensor, output_size: Wanted, return_indices: bool = False
) -> Any:
    """Return the largest element of each of the parts that divide images evenly."""
    if return_indices:
        return adaptive_max_pool2d_with_indices(input, output_size)
    return ops.adaptive_max_pool2d(input, output_size)


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Wanted, return_indices: bool = False
) -> Found:
    """Return the largest element of each part of volumes, and its position."""
    return _wide(ops.adaptive_max_pool3d_with_indices(input, output_size))


@autocast_float32_on_host
def adaptive_max_pool3d(
    input: Tensor, output_size: Wanted, return_indices: bool = False
) -> Any:
    """Return the largest element of each of the parts that divide volumes evenly."""
    if return_indices:
        return adaptive_max_pool3d_with_indices(input, output_size)
    return ops.adaptive_max_pool3d(input, output_size)
