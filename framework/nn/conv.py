"""Convolution layers, and transposed ones."""

from __future__ import annotations

from .. import ops
from ..base.errors import ShapeError
from ..base.shape import Shape
from ..base.validation import as_int
from ..kernels.conv.window import pair
from ..tensor.factories import zeros
from .functional_module import FunctionalModule
from .linear import init_like_pytorch
from .parameter import Parameter


class Convolution(FunctionalModule):
    """Base of convolutions and their transposes.

    Subclasses say of how many dimensions they are, and what the filters' shape starts
    with.
    """

    dims: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Shape,
        stride: int | Shape,
        padding: int | Shape | str,
        dilation: int | Shape,
        groups: int,
        bias: bool,
    ) -> None:
        name = type(self).__name__
        in_channels = as_int(f"{name}: in_channels", in_channels)
        out_channels = as_int(f"{name}: out_channels", out_channels)
        groups = as_int(f"{name}: groups", groups)
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ShapeError(
                f"{name}: groups is {groups}, in_channels {in_channels},"
                f" out_channels {out_channels}; groups must divide both"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self.sizes("kernel_size", kernel_size, 1)
        self.stride = self.sizes("stride", stride, 1)
        self.padding: Shape | str = (
            padding if isinstance(padding, str) else self.sizes("padding", padding, 0)
        )
        self.dilation = self.sizes("dilation", dilation, 1)
        self.groups = groups
        self.weight = Parameter(zeros((*self.channels(), *self.kernel_size)))
        self.bias = Parameter(zeros(out_channels)) if bias else None
        self.reset_parameters()

    def sizes(self, name: str, value: int | Shape, least: int) -> Shape:
        """Return an argument as one number per dimension."""
        given = pair(f"{type(self).__name__}: {name}", value, least, self.dims)
        return given[2 - self.dims :]

    def channels(self) -> Shape:
        """Return the first two sizes of the filters."""
        return self.out_channels, self.in_channels // self.groups

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init_like_pytorch(self.weight, self.bias)

    def details(self) -> list[tuple[str, object, object]]:
        """Return name, value and default of what `repr` shows where it differs."""
        return [
            ("padding", self.padding, (0,) * self.dims),
            ("dilation", self.dilation, (1,) * self.dims),
            ("groups", self.groups, 1),
            ("bias", self.bias is not None, True),
        ]

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        text = (
            f"{self.in_channels}, {self.out_channels},"
            f" kernel_size={self.kernel_size}, stride={self.stride}"
        )
        for name, value, default in self.details():
            if value != default:
                text += f", {name}={value}"
        return text


class _Direct(Convolution):
    options = ("weight", "bias", "stride", "padding", "dilation", "groups")

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Shape,
        stride: int | Shape = 1,
        padding: int | Shape | str = 0,
        dilation: int | Shape = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
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


class Conv1d(_Direct, function=ops.conv1d):
    """Cross-correlation of signals with learned filters.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after.
    kernel_size : int or (int,)
        Length of the filters.
    stride, padding, dilation, groups, bias
        As in `Conv2d`.

    Attributes
    ----------
    weight : Parameter, shape (out_channels, in_channels / groups, length)
        Drawn from U(-k, k) with k = 1 / sqrt(in_channels / groups * length).
    bias : Parameter, shape (out_channels,), or None
        Drawn from the same.
    """

    dims = 1


class Conv2d(_Direct, function=ops.conv2d):
    """Cross-correlation of images with learned filters.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after.
    kernel_size : int or (int, int)
        Height and width of the filters.
    stride, dilation : int or (int, int), default 1
        Of height and width.
    padding : int or (int, int), "valid" or "same", default 0
        With zeros; see `ops.conv2d`.
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

    dims = 2


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
