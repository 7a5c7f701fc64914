"""Group normalisation layers."""

from __future__ import annotations

from .. import ops
from ..base.errors import ShapeError
from ..base.validation import as_int
from ..tensor.factories import ones, zeros
from ..tensor.tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter


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
