"""How a window moves over an image, for convolution and pooling alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..arguments import as_int_or_ints, as_ints
from ..errors import ShapeError
from ..shape import Shape, ceil_div
from .element import check_float
from .movement import reshape

if TYPE_CHECKING:
    from ..tensor import Tensor

Pair = tuple[int, int]


class Window(NamedTuple):
    """How a window moves over an image; each pair is (height, width).

    Attributes
    ----------
    padding : (int, int)
        At both sides.
    extra : (int, int)
        More padding at the bottom and at the right; less if it is negative.
    """

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    extra: Pair = (0, 0)

    @property
    def reach(self) -> Pair:
        """The size of the window with its gaps."""
        reaches = (d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel))
        return tuple(reaches)  # type: ignore[return-value]  # of two

    def output(self, height: int, width: int) -> Pair:
        """Return the size of the result; below 1 where the window does not fit."""
        free = self.room(height, width)
        sizes = (room // step + 1 for room, step in zip(free, self.stride))
        return tuple(sizes)  # type: ignore[return-value]  # of two

    def room(self, height: int, width: int) -> Pair:
        """Return how far a window can move in the padded image."""
        sides = zip((height, width), self.padding, self.extra, self.reach)
        rooms = (size + 2 * pad + extra - reach for size, pad, extra, reach in sides)
        return tuple(rooms)  # type: ignore[return-value]  # of two

    def rounded_up(self, height: int, width: int) -> Window:
        """Return the window with padding for one more place where a part is left over.

        Not where that place would begin in the padding at the end.
        """
        extra = [0, 0]
        for k, size in enumerate((height, width)):
            room, step = self.room(height, width)[k], self.stride[k]
            last = ceil_div(room, step) * step
            if last < size + self.padding[k]:
                extra[k] = last - room
        return self._replace(extra=(extra[0], extra[1]))

    def patches(self, x: np.ndarray, fill: float) -> np.ndarray:
        """Return (batch, channels, out_h, out_w, kernel_h, kernel_w), over a copy."""
        step_h, step_w = self.dilation
        sides = zip(self.padding, x.shape[2:], self.padded(*x.shape[2:]))
        around = [(pad, whole - size - pad) for pad, size, whole in sides]
        padded = np.pad(x, ((0, 0), (0, 0), *around), constant_values=fill)
        batch, channels, row, column = padded.strides
        return np.lib.stride_tricks.as_strided(
            padded,
            (*x.shape[:2], *self.output(*x.shape[2:]), *self.kernel),
            (
                batch, channels, row * self.stride[0], column * self.stride[1],
                row * step_h, column * step_w,
            ),
        )  # fmt: skip

    def added_up(self, patches: np.ndarray, size: Pair) -> np.ndarray:
        """Return images of a size: of each element, the sum over its patches."""
        out_h, out_w = patches.shape[2:4]
        padded = np.zeros((*patches.shape[:2], *self.padded(*size)), patches.dtype)
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                row, column = i * self.dilation[0], j * self.dilation[1]
                padded[
                    :, :,
                    row : row + out_h * self.stride[0] : self.stride[0],
                    column : column + out_w * self.stride[1] : self.stride[1],
                ] += patches[..., i, j]  # fmt: skip
        top, left = self.padding
        return padded[:, :, top : top + size[0], left : left + size[1]]

    def padded(self, height: int, width: int) -> Pair:
        """Return the size of an image with all that windows and padding cover."""
        sides = zip((height, width), self.padding, self.extra)
        whole = (size + 2 * pad + max(extra, 0) for size, pad, extra in sides)
        return tuple(whole)  # type: ignore[return-value]  # of two

    def constants(self) -> dict[str, int]:
        """Return the specialization constants that the shaders share."""
        names = ("KERNEL", "STRIDE", "PADDING", "DILATION")
        return {
            f"{name}_{side}": pair[k]
            for name, pair in zip(names, self)
            for k, side in enumerate("HW")
        }


def pair(name: str, value: int | Shape, least: int, dims: int = 2) -> Pair:
    """Return (height, width) of an argument given as one number or one per dimension.

    Along a height that is not there it is `least`, which changes nothing.

    Raises
    ------
    ShapeError
        If it is neither, or a number is below `least`.
    """
    numbers = as_int_or_ints(name, value)
    given = (numbers,) * dims if isinstance(numbers, int) else numbers
    if len(given) != dims or min(given) < least:
        forms = "one number or (height, width), each" if dims == 2 else "one number,"
        raise ShapeError(f"{name} is {value}; it must be {forms} at least {least}")
    return (least, given[0]) if dims == 1 else (given[0], given[1])


def images(x: Tensor, dims: int) -> Tensor:
    """Return signals or images, in a batch or alone, as (batch, channels, h, w)."""
    batch = x.shape[: x.ndim - dims - 1] or (1,)
    height = (1,) * (2 - dims)
    channels, *size = x.shape[x.ndim - dims - 1 :]
    return reshape(x, (*batch, channels, *height, *size))


def as_given(out: Tensor, x: Tensor, dims: int) -> Tensor:
    """Return a result for `images(x, dims)` with as many dimensions as `x`."""
    batch = out.shape[: x.ndim - dims - 1]
    return reshape(out, (*batch, out.shape[1], *out.shape[4 - dims :]))


def check_images(name: str, x: Tensor, dims: int) -> None:
    """Raise an error if `x` is no float batch of signals or images, nor one alone."""
    check_float(name, x)
    if x.ndim not in (dims + 1, dims + 2):
        raise ShapeError(
            f"{name}: x is {x.shape}; it must be {dims + 2}-D, or {dims + 1}-D without"
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
) -> Window:
    """Return the window of a pooling over signals or images `x`.

    Raises
    ------
    ShapeError
        If it does not fit, or an argument is out of range.
    """
    check_images(name, x, dims)
    kernel = pair(f"{name}: kernel_size", kernel_size, 1, dims)
    window = Window(
        kernel,
        kernel if stride is None else pair(f"{name}: stride", stride, 1, dims),
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
    sizes = x.shape[4 - dims :]
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
    """Raise `ShapeError` if a window has no place in the images `x`."""
    if min(window.output(*x.shape[2:])) < 1 or min(window.kernel) < 1:
        raise ShapeError(
            f"{name}: a window of {window.kernel} with dilation {window.dilation} does"
            f" not fit an image of {x.shape[2:]} with padding {window.padding}"
        )
