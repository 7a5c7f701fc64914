"""Layers that cut images into patches and add them up again."""

from __future__ import annotations

from .. import ops
from ..shape import Shape
from ..tensor import Tensor
from .module import Module


class Unfold(Module):
    """Patches of images as columns; see `ops.im2col`.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Size of a patch.
    dilation, padding, stride : int or (int, int), default 1, 0, 1
    """

    def __init__(
        self,
        kernel_size: int | Shape,
        dilation: int | Shape = 1,
        padding: int | Shape = 0,
        stride: int | Shape = 1,
    ) -> None:
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels * patch, patches) of images."""
        return ops.im2col(x, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation},"
            f" padding={self.padding}, stride={self.stride}"
        )


class Fold(Unfold):
    """Images as sums of the patches in columns; see `ops.col2im`.

    Parameters
    ----------
    output_size : int or (int, int)
        Size of the images.
    kernel_size, dilation, padding, stride
        As in `Unfold`.
    """

    def __init__(
        self,
        output_size: int | Shape,
        kernel_size: int | Shape,
        dilation: int | Shape = 1,
        padding: int | Shape = 0,
        stride: int | Shape = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height, width) from columns."""
        return ops.col2im(
            x,
            self.output_size,
            self.kernel_size,
            self.dilation,
            self.padding,
            self.stride,
        )

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"output_size={self.output_size}, {super().extra_repr()}"
