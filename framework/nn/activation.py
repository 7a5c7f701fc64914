"""Activations: element-wise functions as layers."""

from __future__ import annotations

from typing import Literal

from .. import ops
from ..tensor.factories import full
from ..tensor.tensor import Tensor
from .functional_module import FunctionalModule
from .init import constant_
from .module import Module
from .parameter import Parameter


class ReLU(FunctionalModule, function=ops.relu):
    """max(x, 0)."""


class LeakyReLU(FunctionalModule, function=ops.leaky_relu):
    """`x` where it is positive, otherwise `negative_slope` times `x`.

    Parameters
    ----------
    negative_slope : float, default 0.01
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        self.negative_slope = negative_slope


class Sigmoid(FunctionalModule, function=ops.sigmoid):
    """1 / (1 + exp(-x))."""


class Tanh(FunctionalModule, function=ops.tanh):
    """The hyperbolic tangent."""


class SiLU(FunctionalModule, function=ops.silu):
    """`x` times its sigmoid."""


class GELU(FunctionalModule, function=ops.gelu):
    """`x` times the probability that a standard normal is smaller.

    Parameters
    ----------
    approximate : str, default "none"
        "tanh" takes an approximation by the hyperbolic tangent.
    """

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        self.approximate = approximate


class ReLU6(FunctionalModule, function=ops.relu6):
    """min(max(x, 0), 6)."""


class SELU(FunctionalModule, function=ops.selu):
    """The exponential linear unit that keeps mean and variance; see `ops.selu`."""


class Mish(FunctionalModule, function=ops.mish):
    """`x` times the hyperbolic tangent of its softplus."""


class Softsign(FunctionalModule, function=ops.softsign):
    """x / (1 + |x|)."""


class Hardswish(FunctionalModule, function=ops.hardswish):
    """`x` times its hard sigmoid."""


class Hardsigmoid(FunctionalModule, function=ops.hardsigmoid):
    """min(max(x / 6 + 1 / 2, 0), 1)."""


class LogSigmoid(FunctionalModule, function=ops.log_sigmoid):
    """The logarithm of the sigmoid."""


class _Exponential(FunctionalModule):
    """Has an exponential below 0, which tends to -`alpha`."""

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha


class ELU(_Exponential, function=ops.elu):
    """`x` where it is positive, otherwise alpha * (exp(x) - 1).

    Parameters
    ----------
    alpha : float, default 1
    """


class CELU(_Exponential, function=ops.celu):
    """`x` where it is positive, otherwise alpha * (exp(x / alpha) - 1).

    Parameters
    ----------
    alpha : float, default 1
    """


class Hardtanh(FunctionalModule, function=ops.hardtanh):
    """min(max(x, min_val), max_val).

    Parameters
    ----------
    min_val, max_val : float, default -1, 1
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        self.min_val = min_val
        self.max_val = max_val


class Softplus(FunctionalModule, function=ops.softplus):
    """log(1 + exp(beta * x)) / beta.

    Parameters
    ----------
    beta : float, default 1
    threshold : float, default 20
        Above which beta * x counts as linear.
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta = beta
        self.threshold = threshold


class _Along(FunctionalModule):
    """Works along one dimension."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim


class Softmax(_Along, function=ops.softmax):
    """Exponentials that sum to 1 along one dimension.

    Parameters
    ----------
    dim : int, default -1
    """


class LogSoftmax(_Along, function=ops.log_softmax):
    """The logarithm of the softmax along one dimension.

    Parameters
    ----------
    dim : int, default -1
    """


class GLU(_Along, function=ops.glu):
    """The first half of a dimension times the sigmoid of the second.

    Parameters
    ----------
    dim : int, default -1
    """


class PReLU(Module):
    """`x` where it is positive, otherwise a learned factor times `x`.

    Parameters
    ----------
    num_parameters : int, default 1
        One factor for all, or one for each channel, which is dimension 1.
    init : float, default 0.25
        What they start from.
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(full(num_parameters, init))

    def reset_parameters(self) -> None:
        """Set the factors to their initial value."""
        constant_(self.weight, self.init)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with negative elements scaled."""
        return ops.prelu(x, self.weight)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"num_parameters={self.num_parameters}"
