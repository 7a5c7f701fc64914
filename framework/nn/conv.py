"""Convolution layers."""

from __future__ import annotations

from .. import ops
from ..creation import zeros
from ..errors import ShapeError
from ..ops.window import Pair, pair
from ..tensor import Tensor
from .linear import init_like_pytorch
from .module import Module
from .parameter import Parameter


class Conv2d(Module):
    """Cross-correlation of images with learned filters.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after.
    kernel_size : int or (int, int)
        Height and width of the filters.
    stride, padding, dilation : int or (int, int), default 1, 0, 1
        Of height and width; padding is with zeros.
    groups : int, default 1
        Blocks of channels that are convolved separately; divides both channel counts.
    bias : bool, default True
        Whether a number is added to each output channel.

    Attributes
    ----------
    weight : Parameter, shape (out_channels, in_channels / groups, height, width)
        Drawn from U(-k, k) with k = 1 / sqrt(in_channels / groups * height * width).
    bias : Parameter, shape (out_channels,), or None
        Drawn from the same.

    Raises
    ------
    ShapeError
        If sizes are out of range or `groups` does not divide the channels.

    Examples
    --------
    >>> nn.Conv2d(1, 4, 3, padding=1)(fw.zeros((2, 1, 8, 8))).shape
    (2, 4, 8, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Pair,
        stride: int | Pair = 1,
        padding: int | Pair = 0,
        dilation: int | Pair = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ShapeError(
                f"Conv2d: groups is {groups}, in_channels {in_channels}, out_channels"
                f" {out_channels}; groups must divide both"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = pair("Conv2d: kernel_size", kernel_size, 1)
        self.stride = pair("Conv2d: stride", stride, 1)
        self.padding = pair("Conv2d: padding", padding, 0)
        self.dilation = pair("Conv2d: dilation", dilation, 1)
        self.groups = groups
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(zeros(shape))
        self.bias = Parameter(zeros(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init_like_pytorch(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolved images.

        Parameters
        ----------
        x : Tensor, shape (batch, in_channels, height, width)

        Returns
        -------
        Tensor, shape (batch, out_channels, out_h, out_w)
            Sizes as in `ops.conv2d`.
        """
        return ops.conv2d(
            x,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            self.groups,
        )

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        text = (
            f"{self.in_channels}, {self.out_channels},"
            f" kernel_size={self.kernel_size}, stride={self.stride}"
        )
        for name, value, default in (
            ("padding", self.padding, (0, 0)),
            ("dilation", self.dilation, (1, 1)),
            ("groups", self.groups, 1),
            ("bias", self.bias is not None, True),
        ):
            if value != default:
                text += f", {name}={value}"
        return text
