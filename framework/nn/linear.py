"""Linear layers."""

from __future__ import annotations

import math

from ..base.validation import as_int
from ..tensor.factories import zeros
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module
from .parameter import Parameter


class Linear(Module):
    """y = x W^T + b.

    Parameters
    ----------
    in_features, out_features : int
        Sizes of the last dimension before and after.
    bias : bool, default True
        Whether there is a `b`.

    Attributes
    ----------
    weight : Parameter, shape (out_features, in_features)
        Drawn from U(-k, k) with k = 1 / sqrt(in_features).
    bias : Parameter, shape (out_features,), or None
        Drawn from the same.

    Examples
    --------
    >>> nn.Linear(3, 2)(fw.zeros((5, 3))).shape
    (5, 2)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features = in_features = as_int("Linear: in_features", in_features)
        self.out_features = out_features = as_int("Linear: out_features", out_features)
        self.weight = Parameter(zeros((out_features, in_features)))
        self.bias = Parameter(zeros(out_features)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init_like_pytorch(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the products plus the bias.

        Parameters
        ----------
        x : Tensor, shape (..., in_features)

        Returns
        -------
        Tensor, shape (..., out_features)
        """
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features},"
            f" bias={self.bias is not None}"
        )


class Identity(Module):
    """A layer that returns its input."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`."""
        return x


def init_like_pytorch(weight: Tensor, bias: Tensor | None) -> None:
    """Draw weight and bias from U(-k, k) with k = 1 / sqrt(fan_in)."""
    fan_in, _ = init.fans("reset_parameters", weight)
    bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
    init.uniform_(weight, -bound, bound)
    if bias is not None:
        init.uniform_(bias, -bound, bound)
