"""Pooling layers."""

from __future__ import annotations

from .. import ops
from ..ops.window import Pair
from ..tensor import Tensor
from .module import Module


class MaxPool2d(Module):
    """The largest element of each window of an image.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Size of the window.
    stride : int or (int, int), default `kernel_size`
    padding : int or (int, int), default 0
        At most half the kernel; padding never wins.
    dilation : int or (int, int), default 1
    """

    def __init__(
        self,
        kernel_size: int | Pair,
        stride: int | Pair | None = None,
        padding: int | Pair = 0,
        dilation: int | Pair = 1,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation

    def forward(self, x: Tensor) -> Tensor:
        """Return the pooled images.

        Parameters
        ----------
        x : Tensor, shape (batch, channels, height, width)

        Returns
        -------
        Tensor, shape (batch, channels, out_h, out_w)
        """
        return ops.max_pool2d(
            x, self.kernel_size, self.stride, self.padding, self.dilation
        )

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride},"
            f" padding={self.padding}, dilation={self.dilation}"
        )
