"""Normalisation layers over dimensions, groups of channels, and single channels."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..base.errors import ShapeError
from ..base.validation import as_int, as_int_or_ints
from ..tensor.factories import ones, zeros
from ..tensor.tensor import Tensor
from . import init
from .batchnorm import NormBase
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

    Notes
    -----
    Source: Ba, Kiros and Hinton, arXiv:1607.06450.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
    ) -> None:
        self.normalized_shape = _shape_of("LayerNorm", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        self.weight = Parameter(ones(shape)) if elementwise_affine else None
        self.bias = Parameter(zeros(shape)) if elementwise_affine and bias else None

    def reset_parameters(self) -> None:
        """Set scale to 1 and shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` normalised, scaled and shifted."""
        return ops.layer_norm(
            x, self.normalized_shape, self.weight, self.bias, self.eps
        )

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"{self.normalized_shape}, eps={self.eps},"
            f" elementwise_affine={self.elementwise_affine}"
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

    Notes
    -----
    Source: Zhang and Sennrich, arXiv:1910.07467.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
    ) -> None:
        self.normalized_shape = _shape_of("RMSNorm", normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        self.weight = Parameter(ones(shape)) if elementwise_affine else None

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

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        bias: bool = True,
    ) -> None:
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
        self.weight = Parameter(ones(num_channels)) if affine else None
        self.bias = Parameter(zeros(num_channels)) if affine and bias else None

    def reset_parameters(self) -> None:
        """Set scale to 1 and shift to 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, ...) normalised, scaled and shifted."""
        return ops.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

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
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` normalised; in evaluation with the running statistics, if any."""
        self.check(x)
        return ops.instance_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            self.momentum or 0.0,
            self.eps,
        )


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sequence; see `InstanceNorm2d`."""

    shapes = (3,)
    expected = "(batch, {0}, length)"


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each image to mean 0 and variance 1.

    Parameters
    ----------
    num_features : int
        Size of dimension 1.
    eps : float, default 1e-5
        Added to the variance.
    momentum : float, default 0.1
        Share of each batch in the running statistics.
    affine : bool, default False
        Whether there are a scale `weight` and a shift `bias`.
    track_running_stats : bool, default False
        Whether there are `running_mean` and `running_var`, used in evaluation.

    Notes
    -----
    Source: Ulyanov, Vedaldi and Lempitsky, arXiv:1607.08022.
    """

    shapes = (4,)
    expected = "(batch, {0}, height, width)"
