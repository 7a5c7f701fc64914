"""Pooling layers."""

from __future__ import annotations

from typing import ClassVar

from .. import ops
from ..base.shape import Shape
from .functional_module import FunctionalModule


class _Window(FunctionalModule):
    """A window that moves over signals or images."""

    shown: ClassVar[tuple[str, ...] | None] = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: int | Shape,
        stride: int | Shape | None = None,
        padding: int | Shape = 0,
    ) -> None:
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding


class _MaxPool(_Window):
    shown = None

    def __init__(
        self,
        kernel_size: int | Shape,
        stride: int | Shape | None = None,
        padding: int | Shape = 0,
        dilation: int | Shape = 1,
        *,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding)
        self.dilation = dilation
        self.ceil_mode = ceil_mode


class MaxPool1d(_MaxPool, function=ops.max_pool1d):
    """The largest element of each window of a signal; see `MaxPool2d`."""


class MaxPool2d(_MaxPool, function=ops.max_pool2d):
    """The largest element of each window of an image.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Size of the window.
    stride : int or (int, int), default `kernel_size`
    padding : int or (int, int), default 0
        At most half the kernel; padding never wins.
    dilation : int or (int, int), default 1
    ceil_mode : bool, default False
        Also pool a window that ends beyond the image.
    """


class _AvgPool(_Window):
    def __init__(
        self,
        kernel_size: int | Shape,
        stride: int | Shape | None = None,
        padding: int | Shape = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__(kernel_size, stride, padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad


class AvgPool1d(_AvgPool, function=ops.avg_pool1d):
    """The mean of each window of a signal; see `AvgPool2d`."""


class AvgPool2d(_AvgPool, function=ops.avg_pool2d):
    """The mean of each window of an image.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Size of the window.
    stride : int or (int, int), default `kernel_size`
    padding : int or (int, int), default 0
        With zeros, at most half the kernel.
    ceil_mode : bool, default False
        Also pool a window that ends beyond the image.
    count_include_pad : bool, default True
        Whether zeros of the padding count in the mean.
    divisor_override : int or None
        What to divide sums by instead of the number of elements.
    """

    def __init__(
        self,
        kernel_size: int | Shape,
        stride: int | Shape | None = None,
        padding: int | Shape = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override


class _Adaptive(FunctionalModule):
    def __init__(self, output_size: int | tuple[int | None, ...] | None) -> None:
        self.output_size = output_size


class _Adaptive1d(FunctionalModule):
    def __init__(self, output_size: int | Shape) -> None:
        self.output_size = output_size


class AdaptiveAvgPool1d(_Adaptive1d, function=ops.adaptive_avg_pool1d):
    """The mean of each of `output_size` parts of a signal, as even as possible."""


class AdaptiveAvgPool2d(_Adaptive, function=ops.adaptive_avg_pool2d):
    """The mean of each of the parts that divide an image evenly.

    Parameters
    ----------
    output_size : int or (int, int)
        Parts along height and width; None keeps the size.
    """


class AdaptiveMaxPool1d(_Adaptive1d, function=ops.adaptive_max_pool1d):
    """The largest element of each of `output_size` parts of a signal."""


class AdaptiveMaxPool2d(_Adaptive, function=ops.adaptive_max_pool2d):
    """The largest element of each of the parts of an image; see `AdaptiveAvgPool2d`."""
