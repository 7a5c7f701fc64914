"""Convolutions and products under PyTorch's signatures; see `ops` for the details."""

from __future__ import annotations

from ... import ops
from ...autograd.tape import shown_as
from ...base.dtype import bool_
from ...base.errors import ShapeError
from ...base.shape import Shape
from ...dispatch.replayable import replayable
from ...tensor.tensor import Tensor

Sizes = int | Shape


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return `input` times the transposed weight, plus the bias.

    Parameters
    ----------
    input : Tensor, shape (..., in_features)
    weight : Tensor, shape (out_features, in_features), or (in_features,)
        Of the same dtype; one dimension gives a result without `out_features`.
    bias : Tensor, shape (out_features,), or None

    Returns
    -------
    Tensor, shape (..., out_features)

    Raises
    ------
    ShapeError
        If shapes do not fit.
    DTypeError
        If the dtypes differ.
    """
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
    """Return the cross-correlation of signals with filters.

    Parameters
    ----------
    input : Tensor, shape (batch, in_channels, length) or without batch, float
    weight : Tensor, shape (out_channels, in_channels / groups, kernel)
        Filters, of the same dtype.
    bias : Tensor, shape (out_channels,), or None
    stride, dilation : int or (int,), default 1
    padding : int or (int,), "valid" or "same", default 0
        Zeros at each side; "valid" is none, and "same" as many as keep the size, the
        odd one at the end, for a stride of 1.
    groups : int, default 1
        Blocks of channels that are convolved separately.

    Returns
    -------
    Tensor, shape (batch, out_channels, out) or without batch
        out = (size + 2 padding - dilation (kernel - 1) - 1) // stride + 1.

    Raises
    ------
    ShapeError
        If shapes do not fit each other, or the window does not fit the input.
    DTypeError
        If the dtypes differ.
    """
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
    """Return the cross-correlation of images with filters.

    Parameters
    ----------
    input : Tensor, shape (batch, in_channels, height, width) or without batch, float
    weight : Tensor, shape (out_channels, in_channels / groups, kernel_h, kernel_w)
        Filters, of the same dtype.
    bias : Tensor, shape (out_channels,), or None
    stride, dilation : int or (int, int), default 1
    padding : int or (int, int), "valid" or "same", default 0
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
        If shapes do not fit each other, or the window does not fit the input.
    DTypeError
        If the dtypes differ.
    """
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
    """Return the cross-correlation of volumes with filters.

    Parameters
    ----------
    input : Tensor, shape (batch, in_channels, depth, height, width) or without batch
        Float.
    weight : Tensor, shape (out_channels, in_channels / groups, *kernel)
        Filters, of the same dtype.
    bias : Tensor, shape (out_channels,), or None
    stride, dilation : int or (int, int, int), default 1
    padding : int or (int, int, int), "valid" or "same", default 0
        Zeros at each side; "valid" is none, and "same" as many as keep the size, the
        odd one at the end, for a stride of 1.
    groups : int, default 1
        Blocks of channels that are convolved separately.

    Returns
    -------
    Tensor, shape (batch, out_channels, out_d, out_h, out_w) or without batch
        out = (size + 2 padding - dilation (kernel - 1) - 1) // stride + 1.

    Raises
    ------
    ShapeError
        If shapes do not fit each other, or the window does not fit the input.
    DTypeError
        If the dtypes differ.
    """
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
    """Return the transpose of `conv1d`: elements spread over windows of the result.

    Parameters
    ----------
    input : Tensor, shape (batch, in_channels, length) or without batch, float
    weight : Tensor, shape (in_channels, out_channels / groups, kernel)
        Filters, of the same dtype.
    bias : Tensor, shape (out_channels,), or None
    stride, padding, dilation : int or (int,), default 1, 0, 1
        Of the convolution that this is the transpose of.
    output_padding : int or (int,), default 0
        Size added to the result at the end; below `stride` or `dilation`.
    groups : int, default 1
        Blocks of channels that are treated separately.

    Returns
    -------
    Tensor, shape (batch, out_channels, out) or without batch
        out = (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding +
        1.

    Raises
    ------
    ShapeError
        If shapes do not fit each other, or nothing is left of the result.
    DTypeError
        If the dtypes differ.
    """
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
    """Return the transpose of `conv2d`: elements spread over windows of the result.

    Parameters
    ----------
    input : Tensor, shape (batch, in_channels, height, width) or without batch, float
    weight : Tensor, shape (in_channels, out_channels / groups, kernel_h, kernel_w)
        Filters, of the same dtype.
    bias : Tensor, shape (out_channels,), or None
    stride, padding, dilation : int or (int, int), default 1, 0, 1
        Of the convolution that this is the transpose of.
    output_padding : int or (int, int), default 0
        Size added to the result at the end; below `stride` or `dilation`.
    groups : int, default 1
        Blocks of channels that are treated separately.

    Returns
    -------
    Tensor, shape (batch, out_channels, out_h, out_w) or without batch
        out = (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding +
        1.

    Raises
    ------
    ShapeError
        If shapes do not fit each other, or nothing is left of the result.
    DTypeError
        If the dtypes differ.
    """
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
    """Return the transpose of `conv3d`: elements spread over windows of the result.

    Parameters
    ----------
    input : Tensor, shape (batch, in_channels, depth, height, width) or without batch
        Float.
    weight : Tensor, shape (in_channels, out_channels / groups, *kernel)
        Filters, of the same dtype.
    bias : Tensor, shape (out_channels,), or None
    stride, padding, dilation : int or (int, int, int), default 1, 0, 1
        Of the convolution that this is the transpose of.
    output_padding : int or (int, int, int), default 0
        Size added to the result at the end; below `stride` or `dilation`.
    groups : int, default 1
        Blocks of channels that are treated separately.

    Returns
    -------
    Tensor, shape (batch, out_channels, out_d, out_h, out_w) or without batch
        out = (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding +
        1.

    Raises
    ------
    ShapeError
        If shapes do not fit each other, or nothing is left of the result.
    DTypeError
        If the dtypes differ.
    """
    return ops.conv_transpose3d(
        input, weight, bias, stride, padding, output_padding, groups, dilation
    )


@replayable
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


@shown_as("Im2ColBackward0", "input")
def unfold(
    input: Tensor,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Return the window at each place of images as a column.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or without batch
        Float or bool.
    kernel_size : int or (int, int)
        Size of the window.
    dilation, padding, stride : int or (int, int), default 1, 0, 1
        As in `conv2d`.

    Returns
    -------
    Tensor, shape (batch, channels * kernel_h * kernel_w, places) or without batch

    Raises
    ------
    ShapeError
        If `input` is no image, or the window does not fit it.
    """
    if input.dtype is bool_:
        found = unfold(input.float(), kernel_size, dilation, padding, stride)
        return found.bool()
    return ops.im2col(input, kernel_size, dilation, padding, stride)


@shown_as("Col2ImBackward0", "input")
@replayable
def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Return images: each pixel is the sum of what the columns have over it.

    It is the transpose of `unfold`.

    Parameters
    ----------
    input : Tensor, shape (batch, channels * kernel_h * kernel_w, places), float
        Or without batch.
    output_size : int or (int, int)
        Height and width of the images.
    kernel_size : int or (int, int)
        Size of the window.
    dilation, padding, stride : int or (int, int), default 1, 0, 1
        As in `conv2d`.

    Returns
    -------
    Tensor, shape (batch, channels, *output_size) or without batch

    Raises
    ------
    ShapeError
        If the columns are not those of such images.
    """
    return ops.col2im(input, output_size, kernel_size, dilation, padding, stride)
