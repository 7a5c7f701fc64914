"""Fold and unfold layers: images into patches, and patches summed into images."""

from __future__ import annotations

from .. import ops
from ..base.shape import Shape
from .functional_module import FunctionalModule


class Unfold(FunctionalModule, function=ops.im2col):
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
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride


class Fold(Unfold, function=ops.col2im):
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
