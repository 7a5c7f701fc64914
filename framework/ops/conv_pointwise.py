"""Convolutions with filters of one pixel: products with images as they lie in memory.

Of each image the filters, one line for each channel, are multiplied with its channels,
lines of pixels: a batch of products that share an operand. Nothing is copied where
lines of pixels are whole vectors.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..dispatch import Argument, At, Dispatch, Placed
from ..shape import Layout, Shape
from .gemm import large_product
from .window import Pair, Window

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

LEAST_PIXELS = 128
"""Pixels of an image that fill the columns of a tile."""


def forward(
    gpu: DeviceInfo,
    x: Placed,
    weight: Placed,
    bias: Placed | None,
    window: Window,
    mode: str,
) -> list[Dispatch] | None:
    """Return the dispatches of a convolution that is such a product, otherwise None.

    Parameters
    ----------
    gpu : DeviceInfo
    x, weight, bias : Placed
        Of one group.
    window : Window
    mode : str
        `UNITS` or `PLAIN`.
    """
    rows, depth = weight.shape[:2]
    filters = _view(weight, (x.shape[0], rows, depth), (0, depth, 1))
    found = _product(gpu, filters, x, window, mode, "x")
    if found is None or bias is None:
        return found
    *copies, product = found
    if product.push["out_"] != "out":
        return None
    push = {**product.push, "bias": "bias"}
    defines = {**product.defines, "BIAS": "1"}
    return [*copies, dataclasses.replace(product, push=push, defines=defines)]


def input_vjp(
    gpu: DeviceInfo,
    grad_out: Placed,
    weight: Placed,
    size: Pair,
    window: Window,
    mode: str,
) -> list[Dispatch] | None:
    """Return the dispatches of its gradient by images of a size, or None.

    Parameters as those of `forward`.
    """
    if size != grad_out.shape[2:]:
        return None
    depth, rows = weight.shape[:2]
    filters = _view(weight, (grad_out.shape[0], rows, depth), (0, 1, rows))
    return _product(gpu, filters, grad_out, window, mode, "grad_out")


def _product(
    gpu: DeviceInfo,
    filters: Placed,
    images: Placed,
    window: Window,
    mode: str,
    source: str,
) -> list[Dispatch] | None:
    """Return the product of filters with images that the op calls `source`."""
    pixels = math.prod(images.shape[2:])
    whole = pixels % (16 // images.dtype.itemsize) == 0 and pixels >= LEAST_PIXELS
    if window != Window((1, 1), (1, 1), (0, 0), window.dilation) or not whole:
        return None
    shape = (*images.shape[:2], pixels)
    columns = _view(images, shape, Layout.contiguous(shape).strides)
    found = large_product(gpu, filters, columns, mode)
    # A copy of images may as well have its channels last; see `conv_product`.
    if found is None or any(row.push.get("x") == At("b", 0) for row in found):
        return None
    names = {"a": "weight", "b": source}
    return [
        dataclasses.replace(
            row, push={key: _renamed(value, names) for key, value in row.push.items()}
        )
        for row in found
    ]


def _renamed(value: Argument, names: Mapping[str, str]) -> Argument:
    """Return an argument by what the op, not `large_product`, calls its inputs."""
    if isinstance(value, At) and isinstance(value.memory, str):
        return At(names.get(value.memory, value.memory), value.offset)
    return names.get(value, value) if isinstance(value, str) else value


def _view(x: Placed, shape: Shape, strides: Shape) -> Placed:
    return Placed(shape, x.dtype, Layout(shape, strides, x.layout.offset))
