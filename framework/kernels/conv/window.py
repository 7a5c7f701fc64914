"""Window geometry of convolution and pooling."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...base.errors import ShapeError
from ...base.shape import Shape, ceil_div
from ...base.validation import as_int_or_ints
from ...ir.lazy_graph import EXACT_TYPES

if TYPE_CHECKING:
    pass

Pair = tuple[int, int]


class Window(NamedTuple):
    """Window geometry: kernel, stride, padding, dilation; each pair is (height, width).

    Attributes
    ----------
    padding : (int, int)
        On both sides.
    extra : (int, int)
        Additional padding at the bottom and at the right, which may be negative.
    """

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    extra: Pair = (0, 0)

    @property
    def reach(self) -> Pair:
        """Extent of the dilated window."""
        reaches = (d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel))
        return tuple(reaches)  # type: ignore[return-value]  # of two

    def output(self, height: int, width: int) -> Pair:
        """Return the size of the result; below 1 where the window does not fit."""
        free = self.room(height, width)
        sizes = (room // step + 1 for room, step in zip(free, self.stride))
        return tuple(sizes)  # type: ignore[return-value]  # of two

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - windows are few, and small
    def fits(self, height: int, width: int) -> bool:
        """Return whether there is a result."""
        return min(self.output(height, width)) >= 1 and min(self.kernel) >= 1

    def room(self, height: int, width: int) -> Pair:
        """Return the distance a window can move in the padded image."""
        sides = zip((height, width), self.padding, self.extra, self.reach)
        rooms = (size + 2 * pad + extra - reach for size, pad, extra, reach in sides)
        return tuple(rooms)  # type: ignore[return-value]  # of two

    def rounded_up(self, height: int, width: int) -> Window:
        """Return the window in ceil mode: padded at the end for a last partial step.

        No window is added that would begin in the padding at the end.
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

    def overlap_add(self, patches: np.ndarray, size: Pair) -> np.ndarray:
        """Return images of a size (col2im): each element sums its patches."""
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
        """Return the size of an image with its padding."""
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


EXACT_TYPES.add(Window)


def pair(name: str, value: int | Shape, least: int, dims: int = 2) -> Pair:
    """Return (height, width) of an argument given as one number or one per dimension.

    A missing height becomes `least`, which has no effect.

    Raises
    ------
    ShapeError
        If it is neither, or a number is below `least`.
    """
    if type(value) is int and value >= least and dims == 2:
        return value, value
    numbers = as_int_or_ints(name, value)
    if not isinstance(numbers, int) and len(numbers) == 1:
        numbers = numbers[0]
    given = (numbers,) * dims if isinstance(numbers, int) else numbers
    if len(given) != dims or min(given) < least:
        forms = "one number or (height, width), each" if dims == 2 else "one number,"
        raise ShapeError(f"{name} is {value}; it must be {forms} at least {least}")
    return (least, given[0]) if dims == 1 else (given[0], given[1])
