"""Image batches (N, C, H, W) from signals and images, and windows over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.dtype import INT, uint8
from ..base.errors import ShapeError
from ..base.shape import Shape
from ..base.validation import as_ints
from ..kernels.conv.window import Pair, Window, pair
from ..kernels.shader_types import check_float
from .view import reshape

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor


def images(x: Tensor, dims: int) -> Tensor:
    """Return signals or images, in a batch or alone, as (batch, channels, h, w)."""
    batch = x.layout.shape[: len(x.layout.shape) - dims - 1] or (1,)
    height = (1,) * (2 - dims)
    channels, *size = x.layout.shape[len(x.layout.shape) - dims - 1 :]
    return reshape(x, (*batch, channels, *height, *size))


def autocast_passthrough(out: Tensor, x: Tensor, dims: int) -> Tensor:
    """Return a result for `images(x, dims)` with as many dimensions as `x`."""
    batch = out.layout.shape[: len(x.layout.shape) - dims - 1]
    return reshape(out, (*batch, out.layout.shape[1], *out.layout.shape[4 - dims :]))


POOLED_INTEGERS = (uint8, *INT)
"""Dtypes without fractions that images may have, of which the largest are taken."""


def check_images(
    name: str, x: Tensor, dims: int, complexes: bool = False, integers: bool = False
) -> None:
    """Raise an error if `x` is no float batch of signals or images, nor one alone.

    `complexes` and `integers` say whether one of such numbers is taken too.
    """
    taken = complexes and x.dtype.is_complex
    if not taken and not (integers and x.dtype in POOLED_INTEGERS):
        check_float(name, x)
    if len(x.layout.shape) not in (dims + 1, dims + 2):
        raise ShapeError(
            f"{name}: x is {tuple(x.shape)}; it must be {dims + 2}-D, or {dims + 1}-D"
            " without"
            " a batch"
        )


def pooling_window(
    name: str,
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None,
    padding: int | Shape,
    dilation: int | Shape,
    ceil_mode: bool,
    dims: int,
    integers: bool = False,
) -> Window:
    """Return the window of a pooling over signals or images `x`, perhaps of integers.

    Raises
    ------
    ShapeError
        If it does not fit, or an argument is out of range.
    """
    check_images(name, x, dims, integers=integers)
    kernel = pair(f"{name}: kernel_size", kernel_size, 1, dims)
    steps = kernel
    if stride is not None and stride not in ((), []):
        steps = pair(f"{name}: stride", stride, 1, dims)
    window = Window(
        kernel,
        steps,
        pair(f"{name}: padding", padding, 0, dims),
        pair(f"{name}: dilation", dilation, 1, dims),
    )
    if any(2 * pad > size for pad, size in zip(window.padding, kernel)):
        raise ShapeError(
            f"{name}: padding is {window.padding}; it must be at most half of the"
            f" kernel {kernel}"
        )
    pixels = images(x, dims)
    if ceil_mode:
        window = window.rounded_up(*pixels.shape[2:])
    check_fit(name, pixels, window)
    return window


def output_size(
    name: str, value: int | tuple[int | None, ...] | None, x: Tensor, dims: int
) -> Pair:
    """Return (height, width) of a wanted size; None keeps that of the images `x`.

    Raises
    ------
    ShapeError
        If there are not as many numbers as dimensions, or one is below 1.
    """
    given = value if isinstance(value, tuple | list) else (value,) * dims
    sizes = x.layout.shape[4 - dims :]
    filled = as_ints(
        f"{name}: output_size",
        [old if new is None else new for old, new in zip(sizes, given)],
        "an int, None, or a sequence of these",
    )
    if len(given) != dims or min(filled) < 1:
        forms = "one number or (height, width), each" if dims == 2 else "one number,"
        raise ShapeError(
            f"{name}: output_size is {value}; it must be {forms} at least 1"
        )
    return (1, filled[0]) if dims == 1 else (filled[0], filled[1])


def check_fit(name: str, x: Tensor, window: Window) -> None:
    """Raise `ShapeError` if a window does not fit into the images `x`."""
    if not window.fits(*x.layout.shape[2:]):
        raise ShapeError(
            f"{name}: a window of {window.kernel} with dilation {window.dilation} does"
            f" not fit an image of {tuple(x.shape[2:])} with padding {window.padding}"
        )
