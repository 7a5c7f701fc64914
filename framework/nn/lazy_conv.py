"""Convolutions whose channels of inputs are known from the first call."""

from __future__ import annotations

from typing import Any

from ..base.dtype import DTypeLike
from ..base.errors import ShapeError
from ..base.shape import Shape
from ..tensor.factories import DeviceLike
from ..tensor.tensor import Tensor
from . import conv
from .lazy import LazyModuleMixin, UninitializedParameter, materialize


class _LazyConv(LazyModuleMixin):
    """Convolution whose `in_channels` is that of its first input."""

    dims: int
    in_channels: int
    out_channels: int
    groups: int
    kernel_size: Shape
    channels: Any
    weight: Any
    bias: Any

    def _set(
        self, out: int, bias: bool, device: DeviceLike, dtype: DTypeLike | None
    ) -> None:
        self.out_channels = out
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the parameters anew, if there are any."""
        if self.in_channels:
            super().reset_parameters()  # type: ignore[misc]  # the layer's

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Make the parameters for the channels of an input."""
        name = type(self).__name__
        if input.ndim not in (self.dims + 1, self.dims + 2):
            raise ShapeError(
                f"{name}: input is {tuple(input.shape)}; it must have {self.dims + 2}"
                f" dimensions, or {self.dims + 1} without batch"
            )
        found = input.shape[-self.dims - 1]
        if found % self.groups:
            raise ShapeError(
                f"{name}: input has {found} channels, groups is {self.groups}; groups"
                " must divide them"
            )
        self.in_channels = found
        materialize(self.weight, (*self.channels(), *self.kernel_size))
        materialize(self.bias, (self.out_channels,))
        self.reset_parameters()


class LazyConv1d(_LazyConv, conv.Conv1d):
    """`Conv1d` whose `in_channels` is that of its first input.

    Parameters
    ----------
    out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode
        See `Conv1d`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = conv.Conv1d

    def __init__(
        self,
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
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode,
            device, dtype,
        )  # fmt: skip
        self._set(out_channels, bias, device, dtype)


class LazyConv2d(_LazyConv, conv.Conv2d):
    """`Conv2d` whose `in_channels` is that of its first input.

    Parameters
    ----------
    out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode
        See `Conv2d`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = conv.Conv2d

    def __init__(
        self,
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
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode,
            device, dtype,
        )  # fmt: skip
        self._set(out_channels, bias, device, dtype)


class LazyConv3d(_LazyConv, conv.Conv3d):
    """`Conv3d` whose `in_channels` is that of its first input.

    Parameters
    ----------
    out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode
        See `Conv3d`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = conv.Conv3d

    def __init__(
        self,
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
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode,
            device, dtype,
        )  # fmt: skip
        self._set(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConv, conv.ConvTranspose1d):
    """`ConvTranspose1d` whose `in_channels` is that of its first input.

    Parameters
    ----------
    out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation
        See `ConvTranspose1d`.
    padding_mode : str, default "zeros"
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = conv.ConvTranspose1d

    def __init__(
        self,
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
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._set(out_channels, bias, device, dtype)


class LazyConvTranspose2d(_LazyConv, conv.ConvTranspose2d):
    """`ConvTranspose2d` whose `in_channels` is that of its first input.

    Parameters
    ----------
    out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation
        See `ConvTranspose2d`.
    padding_mode : str, default "zeros"
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = conv.ConvTranspose2d

    def __init__(
        self,
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
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._set(out_channels, bias, device, dtype)


class LazyConvTranspose3d(_LazyConv, conv.ConvTranspose3d):
    """`ConvTranspose3d` whose `in_channels` is that of its first input.

    Parameters
    ----------
    out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation
        See `ConvTranspose3d`.
    padding_mode : str, default "zeros"
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
    """

    cls_to_become = conv.ConvTranspose3d

    def __init__(
        self,
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
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._set(out_channels, bias, device, dtype)
