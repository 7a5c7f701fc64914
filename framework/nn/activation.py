"""Activations: element-wise functions as layers."""

from __future__ import annotations

from typing import Literal

from .. import ops
from ..tensor import Tensor
from .module import Module


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with negative elements replaced by 0."""
        return ops.relu(x)


class LeakyReLU(Module):
    """`x` where it is positive, otherwise `negative_slope` times `x`.

    Parameters
    ----------
    negative_slope : float, default 0.01
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with negative elements scaled."""
        return ops.leaky_relu(x, self.negative_slope)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"negative_slope={self.negative_slope}"


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the logistic function of each element."""
        return ops.sigmoid(x)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the hyperbolic tangent of each element."""
        return ops.tanh(x)


class SiLU(Module):
    """`x` times its sigmoid."""

    def forward(self, x: Tensor) -> Tensor:
        """Return each element times its sigmoid."""
        return ops.silu(x)


class GELU(Module):
    """`x` times the probability that a standard normal is smaller.

    Parameters
    ----------
    approximate : str, default "none"
        "tanh" takes an approximation by the hyperbolic tangent.
    """

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        """Return each element times that probability."""
        return ops.gelu(x, self.approximate)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"approximate={self.approximate!r}"
