"""im2col and col2im: windows of images as columns, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT
from ...base.errors import ShapeError
from ...base.shape import Shape, TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.conv.columns import col2im_dispatch, im2col_dispatch
from ...kernels.conv.window import Pair, Window, pair
from ..elementwise.complex_numbers import by_parts
from ..images import check_fit, check_images, images
from ..view import reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=FLOAT, typed="x")
def _im2col(x: Tensor, window: Window) -> Tensor:
    """Return (batch, channels, taps, pixels): the window at each output pixel."""


@_im2col.spec
def _im2col_spec(x: TensorSpec, window: Window) -> TensorSpec:
    places = math.prod(window.output(*x.shape[2:]))
    return TensorSpec((*x.shape[:2], math.prod(window.kernel), places), x.dtype)


@_im2col.kernel
def _im2col_kernel(gpu: DeviceInfo, x: StridedSpec, window: Window) -> Dispatch:
    return im2col_dispatch(x, window)


@_im2col.vjp
def _im2col_vjp(grad: Tensor, x_spec: TensorSpec, window: Window) -> Tensor:
    height, width = x_spec.shape[2:]
    return _col2im(grad, (height, width), window)


@_im2col.reference
def _im2col_reference(x: np.ndarray, window: Window) -> np.ndarray:
    return window.patches(x, 0).transpose(0, 1, 4, 5, 2, 3)


@primitive(dtypes=FLOAT, typed="x")
def _col2im(x: Tensor, size: Pair, window: Window) -> Tensor:
    """Return images: each pixel is the sum of the window elements that cover it."""


@_col2im.spec
def _col2im_spec(x: TensorSpec, size: Pair, window: Window) -> TensorSpec:
    return TensorSpec((*x.shape[:2], *size), x.dtype)


@_col2im.kernel
def _col2im_kernel(
    gpu: DeviceInfo, x: StridedSpec, size: Pair, window: Window
) -> Dispatch:
    out = TensorSpec((*x.shape[:2], *size), x.dtype)
    return col2im_dispatch(gpu, out, window)


@_col2im.vjp
def _col2im_vjp(grad: Tensor, window: Window) -> Tensor:
    return _im2col(grad, window)


@_col2im.reference
def _col2im_reference(x: np.ndarray, size: Pair, window: Window) -> np.ndarray:
    places = window.output(*size)
    columns = x.reshape(*x.shape[:2], *window.kernel, *places)
    return window.overlap_add(columns.transpose(0, 1, 4, 5, 2, 3), size)


def im2col(
    x: Tensor,
    kernel_size: int | Shape,
    dilation: int | Shape = 1,
    padding: int | Shape = 0,
    stride: int | Shape = 1,
) -> Tensor:
    """Return the window at each place of images as a column.

    PyTorch calls it `torch.nn.functional.unfold`.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, height, width) or without batch
        Float.
    kernel_size : int or (int, int)
        Size of the window.
    dilation, padding, stride : int or (int, int)
        As in `conv2d`.

    Returns
    -------
    Tensor, shape (batch, channels * kernel_h * kernel_w, places) or without batch

    Raises
    ------
    ShapeError
        If `x` is no image or the window does not fit it.
    """
    check_images("im2col", x, 2, complexes=True)
    pixels = images(x, 2)
    window = _window("im2col", kernel_size, dilation, padding, stride)
    check_fit("im2col", pixels, window)
    if x.dtype.is_complex:
        columns = by_parts(lambda part: _im2col(part, window), pixels)
    else:
        columns = _im2col(pixels, window)
    _, channels, taps, places = columns.shape
    return reshape(columns, (*x.layout.shape[:-3], channels * taps, places))


def windows_joined(x: Tensor, size: Pair, window: Window) -> Tensor:
    """Return images of the sums of windows; of complex numbers too."""
    if x.dtype.is_complex:
        return by_parts(lambda part: _col2im(part, size, window), x)
    return _col2im(x, size, window)


def _window(
    name: str,
    kernel_size: int | Shape,
    dilation: int | Shape,
    padding: int | Shape,
    stride: int | Shape,
) -> Window:
    return Window(
        pair(f"{name}: kernel_size", kernel_size, 1),
        pair(f"{name}: stride", stride, 1),
        pair(f"{name}: padding", padding, 0),
        pair(f"{name}: dilation", dilation, 1),
    )


def col2im(
    x: Tensor,
    output_size: int | Shape,
    kernel_size: int | Shape,
    dilation: int | Shape = 1,
    padding: int | Shape = 0,
    stride: int | Shape = 1,
) -> Tensor:
    """Return images: each pixel is the sum of what the columns have over it.

    The transpose of `im2col`; PyTorch calls it `torch.nn.functional.fold`.

    Parameters
    ----------
    x : Tensor, shape (batch, channels * kernel_h * kernel_w, places) or without batch
        Float.
    output_size : int or (int, int)
        Height and width of the images.
    kernel_size, dilation, padding, stride : int or (int, int)
        As in `im2col`.

    Returns
    -------
    Tensor, shape (batch, channels, *output_size) or without batch

    Raises
    ------
    ShapeError
        If the columns are not those of such images.
    """
    size = pair("col2im: output_size", output_size, 1)
    window = _window("col2im", kernel_size, dilation, padding, stride)
    places, taps = window.output(*size), math.prod(window.kernel)
    count = math.prod(places) if min(places) > 0 else 0
    if (
        len(x.layout.shape) not in (2, 3)
        or x.layout.shape[-2] % taps
        or x.layout.shape[-1] != count
    ):
        raise ShapeError(
            f"col2im: x is {tuple(x.shape)}; for images of {size} and windows of"
            f" {window.kernel} it must be (batch, channels * {taps}, {count}), or"
            " without batch"
        )
    batch = x.layout.shape[0] if len(x.layout.shape) == 3 else 1
    channels = x.layout.shape[-2] // taps
    out = windows_joined(reshape(x, (batch, channels, taps, count)), size, window)
    return reshape(out, (*x.layout.shape[:-2], channels, *size))
