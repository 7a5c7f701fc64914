"""Convolution layers, and transposed ones."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..base.docstring import shares_parameters
from ..base.dtype import DTypeLike
from ..base.errors import ShapeError
from ..base.shape import Shape
from ..base.validation import as_int, as_int_or_ints
from ..tensor.factories import DeviceLike, zeros
from ..tensor.tensor import Tensor
from .functional_module import FunctionalModule
from .linear import init_like_pytorch
from .parameter import Parameter

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


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
        output_padding: int | Shape,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: DeviceLike,
        dtype: DTypeLike | None,
    ) -> None:
        super().__init__()
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
        self.padding: Shape | str = self._padding(padding)
        self.dilation = self.sizes("dilation", dilation, 1)
        self.output_padding = self.sizes("output_padding", output_padding, 0)
        self.groups = groups
        if padding_mode not in PADDING_MODES:
            raise ValueError(
                f"{name}: padding_mode is {padding_mode!r}; it must be one of"
                f" {PADDING_MODES}"
            )
        self.padding_mode = padding_mode
        self.transposed = False
        self.weight = Parameter(
            zeros((*self.channels(), *self.kernel_size), dtype=dtype, device=device)
        )
        self.register_parameter("bias", None)
        if bias:
            self.bias = Parameter(zeros(out_channels, dtype=dtype, device=device))
        self.reset_parameters()

    def _padding(self, padding: int | Shape | str) -> Shape | str:
        if not isinstance(padding, str):
            return self.sizes("padding", padding, 0)
        if padding not in ("same", "valid"):
            raise ValueError(
                f"{type(self).__name__}: padding is {padding!r}; it must be numbers,"
                " 'valid' or 'same'"
            )
        if padding == "same" and max(self.stride) > 1:
            raise ValueError(
                f"{type(self).__name__}: padding is 'same' with a stride of"
                f" {self.stride}; the stride must be 1"
            )
        return padding

    def sizes(self, name: str, value: int | Shape | str, least: int) -> Shape:
        """Return an argument as one number per dimension."""
        where = f"{type(self).__name__}: {name}"
        numbers = as_int_or_ints(where, value)
        given = (numbers,) if isinstance(numbers, int) else numbers
        # As in PyTorch a list of one number will do, but for the filters' shape.
        if isinstance(numbers, int) or (len(given) == 1 and name != "kernel_size"):
            given = given * self.dims
        if len(given) != self.dims or min(given) < least:
            forms = "one number" if self.dims == 1 else f"one number or {self.dims}"
            raise ShapeError(
                f"{where} is {value}; it must be {forms}, at least {least}"
            )
        return given

    def channels(self) -> Shape:
        """Return the first two sizes of the filters."""
        return self.out_channels, self.in_channels // self.groups

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init_like_pytorch(self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        text = (
            f"{self.in_channels}, {self.out_channels},"
            f" kernel_size={self.kernel_size}, stride={self.stride}"
        )
        nothing = (0,) * self.dims
        for name, default in (
            ("padding", nothing),
            ("dilation", (1,) * self.dims),
            ("output_padding", nothing),
            ("groups", 1),
        ):
            value = getattr(self, name)
            if value != default:
                text += f", {name}={value}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
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
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Return the cross-correlation of `input` with the filters."""
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(
        self, input: Tensor, weight: Tensor, bias: Tensor | None
    ) -> Tensor:
        """Return the cross-correlation with other filters of the same kind."""
        padding: int | Shape | str = self.padding
        if self.padding_mode != "zeros":
            input = ops.pad(
                input, self._reversed_padding_repeated_twice, self.padding_mode
            )
            padding = 0
        out: Tensor = type(self)._function(
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )
        return out

    @property
    def _reversed_padding_repeated_twice(self) -> Shape:
        """The padding as `ops.pad` takes it, under PyTorch's name: from the last."""
        around: list[int] = []
        for dim in reversed(range(self.dims)):
            if self.padding == "valid":
                around += [0, 0]
            elif isinstance(self.padding, str):
                total = self.dilation[dim] * (self.kernel_size[dim] - 1)
                around += [total // 2, total - total // 2]
            else:
                around += [self.padding[dim]] * 2
        return tuple(around)


class Conv1d(_Direct, function=ops.conv1d):
    """Cross-correlation of signals with learned filters.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after.
    kernel_size : int or (int,)
        Length of the filters.
    stride, padding, dilation, groups, bias, padding_mode, device, dtype
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
    padding_mode : str, default "zeros"
        What the padding is: "zeros", "reflect", "replicate" or "circular"; see
        `ops.pad`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the parameters.

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
    torch.Size([2, 4, 8, 8])
    """

    dims = 2


class Conv3d(_Direct, function=ops.conv3d):
    """Cross-correlation of volumes with learned filters.

    Parameters
    ----------
    in_channels, out_channels : int
        Channels before and after.
    kernel_size : int or (int, int, int)
        Depth, height and width of the filters.
    stride, padding, dilation, groups, bias, padding_mode, device, dtype
        As in `Conv2d`, of three dimensions.

    Attributes
    ----------
    weight : Parameter, shape (out_channels, in_channels / groups, depth, height, width)
        Drawn from U(-k, k) with k = 1 / sqrt(in_channels / groups * volume).
    bias : Parameter, shape (out_channels,), or None
        Drawn from the same.
    """

    dims = 3


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
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f"{type(self).__name__}: padding_mode is {padding_mode!r}; it must be"
                " 'zeros'"
            )
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.transposed = True

    def channels(self) -> Shape:
        """Return the first two sizes of the filters."""
        return self.in_channels, self.out_channels // self.groups

    def forward(
        self, input: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        """Return the transposed convolution.

        Parameters
        ----------
        input : Tensor
        output_size : sequence of int or None
            Size of the result, or its whole shape; `output_padding` follows from it.

        Raises
        ------
        ShapeError
            If the result cannot have that size.
        """
        added = self.output_padding
        if output_size is not None:
            added = self._output_padding(input, tuple(output_size))
        out: Tensor = type(self)._function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            added,
            self.groups,
            self.dilation,
        )
        return out

    def _output_padding(self, input: Tensor, wanted: Shape) -> Shape:
        """Return the output padding that gives a size."""
        lead = input.ndim - self.dims
        size = wanted[lead:] if len(wanted) == input.ndim else wanted
        sides = zip(
            input.shape[lead:],
            self.stride,
            self.sizes("padding", self.padding, 0),
            self.dilation,
            self.kernel_size,
        )
        least = [
            (places - 1) * step - 2 * pad + gap * (taps - 1) + 1
            for places, step, pad, gap, taps in sides
        ]
        if len(size) != self.dims or any(
            not 0 <= new - old < step
            for new, old, step in zip(size, least, self.stride)
        ):
            most = [old + step - 1 for old, step in zip(least, self.stride)]
            raise ShapeError(
                f"{type(self).__name__}: output_size is {wanted}; for an input of"
                f" {tuple(input.shape)} it must be from {least} to {most}"
            )
        return tuple(new - old for new, old in zip(size, least))


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
    padding_mode : str, default "zeros"
        No other is taken.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the parameters.

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
    torch.Size([2, 1, 16, 16])
    """

    dims = 2


@shares_parameters(ConvTranspose2d)
class ConvTranspose1d(_Transposed, function=ops.conv_transpose1d):
    """Transposed convolution of signals: each element scatters a learned filter.

    Parameters are as in `ConvTranspose2d`, but of one dimension.

    Attributes
    ----------
    weight : Parameter, shape (in_channels, out_channels / groups, length)
        Drawn from U(-k, k) with k = 1 / sqrt(out_channels / groups * length).
    bias : Parameter, shape (out_channels,), or None
        Drawn from the same.
    """

    dims = 1


@shares_parameters(ConvTranspose2d)
class ConvTranspose3d(_Transposed, function=ops.conv_transpose3d):
    """Transposed convolution of volumes: each voxel scatters a learned filter.

    Parameters are as in `ConvTranspose2d`, but of three dimensions.

    Attributes
    ----------
    weight : Parameter, shape (in_channels, out_channels / groups, depth, height, width)
        Drawn from U(-k, k) with k = 1 / sqrt(out_channels / groups * volume).
    bias : Parameter, shape (out_channels,), or None
        Drawn from the same.
    """

    dims = 3
