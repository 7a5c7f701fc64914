"""Convolutions and products under PyTorch's signatures; see `ops` for the details."""

from __future__ import annotations

from ... import ops
from ...base.dtype import bool_
from ...base.errors import ShapeError
from ...base.shape import Shape
from ...tensor.tensor import Tensor

Sizes = int | Shape


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `input` times the transposed weight, plus the bias."""
    return ops.linear(input, weight, bias)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of signals with filters."""
    return ops.conv1d(input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of images with filters."""
    return ops.conv2d(input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of volumes with filters."""
    return ops.conv3d(input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return the transpose of `conv1d`."""
    return ops.conv_transpose1d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return the transpose of `conv2d`."""
    return ops.conv_transpose2d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Return the transpose of `conv3d`."""
    return ops.conv_transpose3d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Return the cross-correlation of signals whose channels come last.

    Parameters
    ----------
    input : Tensor, shape (length, batch, in_channels)
    weight : Tensor, shape (kernel, in_channels, out_channels)
    bias : Tensor, shape (out_channels,)
    pad : int, default 0
        Zeros at both ends.

    Returns
    -------
    Tensor, shape (out, batch, out_channels)

    Raises
    ------
    ShapeError
        If a tensor is not 3-D, or shapes do not fit.
    """
    if len(input.layout.shape) != 3 or len(weight.layout.shape) != 3:
        raise ShapeError(
            f"conv_tbc: input is {tuple(input.shape)}, weight {tuple(weight.shape)};"
            " both must be 3-D"
        )
    signals = ops.permute(input, (1, 2, 0))
    filters = ops.permute(weight, (2, 1, 0))
    return ops.permute(ops.conv1d(signals, filters, bias, 1, pad), (2, 0, 1))


def unfold(
    input: Tensor,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Return the window at each place of images as a column; see `ops.im2col`."""
    if input.dtype is bool_:
        found = unfold(input.float(), kernel_size, dilation, padding, stride)
        return found.bool()
    return ops.im2col(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Return images as sums of the patches in columns; see `ops.col2im`."""
    return ops.col2im(input, output_size, kernel_size, dilation, padding, stride)
