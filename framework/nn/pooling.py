"""Pooling layers: by windows, and by parts that divide a size evenly."""

from __future__ import annotations

from typing import ClassVar

from ..base.docstring import shares_parameters
from ..base.shape import Shape
from . import functional
from .functional_module import FunctionalModule

Sizes = int | Shape
Wanted = int | tuple[int | None, ...] | None


class _Window(FunctionalModule):
    """A window that moves over signals, images or volumes."""

    shown: ClassVar[tuple[str, ...] | None] = ("kernel_size", "stride", "padding")

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding


class _MaxPool(_Window):
    shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__(kernel_size, stride, padding)
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode


@shares_parameters(functional.max_pool1d)
class MaxPool1d(_MaxPool, function=functional.max_pool1d):
    """The largest element of each window of a signal; see `MaxPool2d`."""


class MaxPool2d(_MaxPool, function=functional.max_pool2d):
    """The largest element of each window of an image.

    Parameters
    ----------
    kernel_size : int or (int, int)
        Size of the window.
    stride : int or (int, int), default `kernel_size`
    padding : int or (int, int), default 0
        At most half the kernel; padding never wins.
    dilation : int or (int, int), default 1
    return_indices : bool, default False
        Whether positions in the image are returned too, for `MaxUnpool2d`.
    ceil_mode : bool, default False
        Also pool a window that ends beyond the image.
    """


@shares_parameters(functional.max_pool3d)
class MaxPool3d(_MaxPool, function=functional.max_pool3d):
    """The largest element of each window of a volume; see `MaxPool2d`."""


def _each(value: Sizes) -> Shape:
    return (value,) if isinstance(value, int) else tuple(value)


@shares_parameters(functional.avg_pool1d)
class AvgPool1d(_Window, function=functional.avg_pool1d):
    """The mean of each window of a signal; see `AvgPool2d`."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        steps = kernel_size if stride is None else stride
        super().__init__(_each(kernel_size), _each(steps), _each(padding))
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad


class _AvgPool(_Window):
    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override


class AvgPool2d(_AvgPool, function=functional.avg_pool2d):
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


@shares_parameters(functional.avg_pool3d)
class AvgPool3d(_AvgPool, function=functional.avg_pool3d):
    """The mean of each window of a volume; see `AvgPool2d`."""


class _Powers(FunctionalModule):
    def __init__(
        self,
        norm_type: float,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode


@shares_parameters(functional.lp_pool1d)
class LPPool1d(_Powers, function=functional.lp_pool1d):
    """The p-norm of each window of a signal; see `LPPool2d`."""


class LPPool2d(_Powers, function=functional.lp_pool2d):
    """The p-norm of each window of an image; see `functional.lp_pool2d`.

    Parameters
    ----------
    norm_type : float
        The p.
    kernel_size : int or (int, int)
        Size of the window.
    stride : int or (int, int), default `kernel_size`
    ceil_mode : bool, default False
        Also pool a window that ends beyond the image.
    """


@shares_parameters(functional.lp_pool3d)
class LPPool3d(_Powers, function=functional.lp_pool3d):
    """The p-norm of each window of a volume; see `LPPool2d`."""


class _AdaptiveAvg(FunctionalModule):
    def __init__(self, output_size: Wanted) -> None:
        super().__init__()
        self.output_size = output_size


@shares_parameters(functional.adaptive_avg_pool1d)
class AdaptiveAvgPool1d(_AdaptiveAvg, function=functional.adaptive_avg_pool1d):
    """The mean of each of `output_size` parts of a signal, as even as possible."""


class AdaptiveAvgPool2d(_AdaptiveAvg, function=functional.adaptive_avg_pool2d):
    """The mean of each of the parts that divide an image evenly.

    Parameters
    ----------
    output_size : int or (int, int)
        Parts along height and width; None keeps the size.
    """


@shares_parameters(functional.adaptive_avg_pool3d)
class AdaptiveAvgPool3d(_AdaptiveAvg, function=functional.adaptive_avg_pool3d):
    """The mean of each of the parts of a volume; see `AdaptiveAvgPool2d`."""


class _AdaptiveMax(FunctionalModule):
    shown = ("output_size",)

    def __init__(self, output_size: Wanted, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices


@shares_parameters(functional.adaptive_max_pool1d)
class AdaptiveMaxPool1d(_AdaptiveMax, function=functional.adaptive_max_pool1d):
    """The largest element of each of `output_size` parts of a signal."""


@shares_parameters(functional.adaptive_max_pool2d)
class AdaptiveMaxPool2d(_AdaptiveMax, function=functional.adaptive_max_pool2d):
    """The largest element of each of the parts of an image; see `AdaptiveAvgPool2d`.

    With `return_indices` positions in the image are returned too.
    """


@shares_parameters(functional.adaptive_max_pool3d)
class AdaptiveMaxPool3d(_AdaptiveMax, function=functional.adaptive_max_pool3d):
    """The largest element of each of the parts of a volume; see `AdaptiveMaxPool2d`."""
