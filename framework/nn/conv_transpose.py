"""Transposed convolution layers."""

from __future__ import annotations

from .. import ops
from ..base.shape import Shape
from .conv import Convolution


class _Transposed(Convolution):
    options = (
        "weight",
        "bias",
        "stride",
        "padding",
        "output_padding",
        "groups",
        "dilation",
    )

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Shape,
        stride: int | Shape = 1,
        padding: int | Shape = 0,
        output_padding: int | Shape = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Shape = 1,
    ) -> None:
        self.output_padding = self.sizes("output_padding", output_padding, 0)
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
        )

    def channels(self) -> Shape:
        """Return the first two sizes of the filters."""
        return self.in_channels, self.out_channels // self.groups

    def details(self) -> list[tuple[str, object, object]]:
        """Return name, value and default of what `repr` shows where it differs."""
        padding, dilation, *rest = super().details()
        added = ("output_padding", self.output_padding, (0,) * self.dims)
        return [padding, dilation, added, *rest]


class ConvTranspose1d(_Transposed, function=ops.conv_transpose1d):
    """Transposed convolution of signals: each element scatters a learned filter.

    Parameters are those of `ConvTranspose2d`, of one dimension.

    Attributes
    ----------
    weight : Parameter, shape (in_channels, out_channels / groups, length)
        Drawn from U(-k, k) with k = 1 / sqrt(out_channels / groups * length).
    bias : Parameter, shape (out_channels,), or None
        Drawn from the same.
    """

    dims = 1


class ConvTranspose2d(_Transposed, function=ops.conv_transpose2d):
    """Transposed convolution of images: each pixel scatters a learned filter.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after.
    kernel_size : int or (int, int)
        Height and width of the windows.
    stride, padding : int or (int, int), default 1, 0
        Of the convolution that this is the transpose of.
    output_padding : int or (int, int), default 0
        Size added to the result at one side.
    groups : int, default 1
        Blocks of channels that are treated separately; divides both channel counts.
    bias : bool, default True
        Whether a number is added to each output channel.
    dilation : int or (int, int), default 1
        Of the windows.

    Attributes
    ----------
    weight : Parameter, shape (in_channels, out_channels / groups, height, width)
        Drawn from U(-k, k) with k = 1 / sqrt(out_channels / groups * height * width).
    bias : Parameter, shape (out_channels,), or None
        Drawn from the same.

    Raises
    ------
    ShapeError
        If sizes are out of range or `groups` does not divide the channels.

    Examples
    --------
    >>> nn.ConvTranspose2d(4, 1, 2, stride=2)(fw.zeros((2, 4, 8, 8))).shape
    (2, 1, 16, 16)
    """

    dims = 2
