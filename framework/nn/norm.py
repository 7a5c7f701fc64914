"""Normalisation layers over dimensions, groups of channels, and single channels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..base.docstring import shares_parameters
from ..base.dtype import DTypeLike, int32
from ..base.errors import ShapeError
from ..base.validation import as_int, as_int_or_ints
from ..tensor.factories import DeviceLike, ones, zeros
from ..tensor.tensor import Tensor
from . import functional, init
from .batchnorm import NormBase
from .functional_module import FunctionalModule
from .module import Module
from .parameter import Parameter


def _shape_of(name: str, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    given = as_int_or_ints(f"{name}: normalized_shape", normalized_shape)
    return (given,) if isinstance(given, int) else given


class LayerNorm(Module):
    """Normalises the last dimensions to mean 0 and variance 1.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        Sizes of these dimensions.
    eps : float, default 1e-5
        Added to the variance.
    elementwise_affine : bool, default True
        Whether there is a scale `weight`.
    bias : bool, default True
        Whether there is a shift `bias` beside it.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the parameters.

    Notes
    -----
    Source: Ba, Kiros and Hinton, arXiv:1607.06450.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape_of("LayerNorm", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        scale = Parameter(ones(shape, **made)) if elementwise_affine else None
        self.register_parameter("weight", scale)
        shifted = elementwise_affine and bias
        shift = Parameter(zeros(shape, **made)) if shifted else None
        self.register_parameter("bias", shift)

    def reset_parameters(self) -> None:
        """Set scale to 1 and shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` normalised, scaled and shifted."""
        return ops.layer_norm(
            input, self.normalized_shape, self.weight, self.bias, self.eps
        )

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"{self.normalized_shape}, eps={self.eps},"
            f" elementwise_affine={self.elementwise_affine},"
            f" bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides by the root mean square over the last dimensions.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        Sizes of these dimensions.
    eps : float or None
        Added to the mean square; see `ops.rms_norm`.
    elementwise_affine : bool, default True
        Whether there is a scale `weight`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the parameters.

    Notes
    -----
    Source: Zhang and Sennrich, arXiv:1910.07467.
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape_of("RMSNorm", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        scale = Parameter(ones(shape, **made)) if elementwise_affine else None
        self.register_parameter("weight", scale)

    def reset_parameters(self) -> None:
        """Set the scale to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` normalised and scaled."""
        return ops.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"{self.normalized_shape}, eps={self.eps},"
            f" elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Normalises groups of channels of each sample to mean 0 and variance 1.

    Parameters
    ----------
    num_groups : int
        Groups of as many neighbouring channels each.
    num_channels : int
        Size of dimension 1, a multiple of `num_groups`.
    eps : float, default 1e-5
        Added to the variance.
    affine : bool, default True
        Whether there is a scale `weight`.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of the parameters.
    bias : bool, default True
        Whether there is a shift `bias` beside it.

    Raises
    ------
    ShapeError
        If the groups do not divide the channels.

    Notes
    -----
    Source: Wu and He, arXiv:1803.08494.
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        num_groups = as_int("GroupNorm: num_groups", num_groups)
        num_channels = as_int("GroupNorm: num_channels", num_channels)
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(
                f"GroupNorm: num_groups is {num_groups}, num_channels {num_channels};"
                " the groups must divide the channels"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        scale = Parameter(ones(num_channels, **made)) if affine else None
        self.register_parameter("weight", scale)
        shifted = affine and bias
        shift = Parameter(zeros(num_channels, **made)) if shifted else None
        self.register_parameter("bias", shift)

    def reset_parameters(self) -> None:
        """Set scale to 1 and shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return (batch, channels, ...) normalised, scaled and shifted."""
        return ops.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps},"
            f" affine={self.affine}, bias={self.bias is not None}"
        )


class _InstanceNorm(NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features,
            eps,
            momentum,
            affine,
            track_running_stats,
            device,
            dtype,
            bias=bias,
        )

    def check(self, input: Tensor) -> None:
        """Raise `ShapeError` if the layer does not accept the shape.

        Another number of channels is a warning where there are no parameters for them.
        """
        dims = self.shapes[0]
        fits = input.ndim in (dims - 1, dims)
        if fits and input.shape[1 - dims] != self.num_features:
            fits = not self.affine and self.running_mean is None
            warnings.warn(
                f"{type(self).__name__}: input has {input.shape[1 - dims]} channels,"
                f" num_features is {self.num_features}",
                stacklevel=3,
            )
        if not fits:
            raise ShapeError(
                f"{type(self).__name__}: input is {tuple(input.shape)};"
                f" it must be {self.expected.format(self.num_features)}, or without"
                " batch"
            )

    def forward(self, input: Tensor) -> Tensor:
        """Return `input` normalised; in evaluation with the running statistics."""
        self.check(input)
        alone = input.ndim < self.shapes[0]
        out = ops.instance_norm(
            ops.unsqueeze(input, 0) if alone else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            self.momentum or 0.0,
            self.eps,
        )
        return ops.squeeze(out, 0) if alone else out


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each image to mean 0 and variance 1.

    Parameters
    ----------
    num_features : int
        Channels.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float, default 0.1
        Share of each batch in the running statistics.
    affine : bool, default False
        Whether there are a scale `weight` and a shift `bias`.
    track_running_stats : bool, default False
        Whether there are `running_mean` and `running_var`, used in evaluation.
    device : Device, str or None, default the host
    dtype : DType, str or None, default float32
        Of parameters and statistics.
    bias : bool, default True
        Whether there is a shift beside the scale.

    Notes
    -----
    Source: Ulyanov, Vedaldi and Lempitsky, arXiv:1607.08022.
    """

    shapes = (4,)
    expected = "(batch, {0}, height, width)"


@shares_parameters(InstanceNorm2d)
class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sequence; see `InstanceNorm2d`."""

    shapes = (3,)
    expected = "(batch, {0}, length)"


@shares_parameters(InstanceNorm2d)
class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each volume; see `InstanceNorm2d`."""

    shapes = (5,)
    expected = "(batch, {0}, depth, height, width)"


class LocalResponseNorm(FunctionalModule, function=functional.local_response_norm):
    """Divides by a power of the mean square in neighbouring channels.

    Parameters
    ----------
    size : int
        Channels in the mean.
    alpha, beta, k : float, default 1e-4, 0.75, 1
        Each element is divided by (k + alpha * mean)^beta.

    Notes
    -----
    Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep
    Convolutional Neural Networks, 2012.
    """

    def __init__(
        self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
    ) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(Module):
    """Divides images by a power of the squares in neighbouring channels.

    Parameters
    ----------
    size : int
        Channels in the window; even ones count as one fewer.
    alpha, beta, k : float, default 1e-4, 0.75, 1
        Each element is divided by (k + alpha / size * sum)^beta.

    Notes
    -----
    The result is PyTorch's, which counts the first channel in the windows that have
    left it too; `LocalResponseNorm` does not. The gradient is its derivative, while
    PyTorch's is that of other windows.
    """

    def __init__(
        self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1
    ) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Return (batch, channels, height, width) normalised."""
        if input.ndim != 4:
            raise ShapeError(
                f"CrossMapLRN2d: input is {tuple(input.shape)}; it must be (batch,"
                " channels,"
                " height, width)"
            )
        if input.numel() == 0:
            return input
        batch, channels = input.shape[:2]
        reach = (self.size - 1) // 2
        squares = ops.reshape(ops.square(input), (batch, 1, channels, -1))
        padded = ops.pad(squares, (0, 0, reach, reach))
        sums = ops.avg_pool2d(padded, (2 * reach + 1, 1), 1) * (2.0 * reach + 1.0)
        numbers = ops.arange_like(input.detach(), (channels, 1), 0, 1, int32)
        first = ops.narrow(squares, 2, 0, 1)
        sums = sums + ops.where(numbers > reach, first, 0.0)
        scale = ops.reshape(sums, input.shape) * (self.alpha / self.size) + self.k
        return input * ops.pow(scale, -self.beta)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
