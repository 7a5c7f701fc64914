"""How a window moves over an image, for convolution and pooling alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..errors import ShapeError

if TYPE_CHECKING:
    from ..tensor import Tensor

Pair = tuple[int, int]


class Window(NamedTuple):
    """How a window moves over an image; each pair is (height, width)."""

    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair

    def output(self, height: int, width: int) -> Pair:
        """Return the size of the result; below 1 where the window does not fit."""
        sizes = (height, width)
        return tuple(  # type: ignore[return-value]
            (
                sizes[k]
                + 2 * self.padding[k]
                - self.dilation[k] * (self.kernel[k] - 1)
                - 1
            )
            // self.stride[k]
            + 1
            for k in (0, 1)
        )

    def patches(self, x: np.ndarray, fill: float) -> np.ndarray:
        """Return (batch, channels, out_h, out_w, kernel_h, kernel_w), over a copy."""
        (top, left), (step_h, step_w) = self.padding, self.dilation
        padded = np.pad(
            x, ((0, 0), (0, 0), (top, top), (left, left)), constant_values=fill
        )
        batch, channels, row, column = padded.strides
        return np.lib.stride_tricks.as_strided(
            padded,
            (*x.shape[:2], *self.output(*x.shape[2:]), *self.kernel),
            (
                batch, channels, row * self.stride[0], column * self.stride[1],
                row * step_h, column * step_w,
            ),
        )  # fmt: skip

    def constants(self) -> dict[str, int]:
        """Return the specialization constants that the shaders share."""
        names = ("KERNEL", "STRIDE", "PADDING", "DILATION")
        return {
            f"{name}_{side}": pair[k]
            for name, pair in zip(names, self)
            for k, side in enumerate("HW")
        }


def pair(name: str, value: int | Pair, least: int) -> Pair:
    """Return (height, width) of an argument given as one number or two.

    Raises
    ------
    ShapeError
        If it is neither, or a number is below `least`.
    """
    both = (value, value) if isinstance(value, int) else tuple(value)
    if len(both) != 2 or min(both) < least:
        raise ShapeError(
            f"{name} is {value}; it must be one number or (height, width),"
            f" each at least {least}"
        )
    return both


def check_fit(name: str, x: Tensor, window: Window) -> None:
    """Raise `ShapeError` if a window has no place in the images `x`."""
    if min(window.output(*x.shape[2:])) < 1 or min(window.kernel) < 1:
        raise ShapeError(
            f"{name}: a window of {window.kernel} with dilation {window.dilation} does"
            f" not fit an image of {x.shape[2:]} with padding {window.padding}"
        )
