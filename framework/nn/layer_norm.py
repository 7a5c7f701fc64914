"""Layer normalisation layers: over the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from .. import ops
from ..base.validation import as_int_or_ints
from ..tensor.factories import ones, zeros
from ..tensor.tensor import Tensor
from . import init
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
