"""Activations: element-wise functions as layers."""

from __future__ import annotations

from typing import Literal

from .. import ops
from ..creation import full
from ..tensor import Tensor
from .init import constant_
from .module import Module
from .parameter import Parameter


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


class ReLU6(Module):
    """min(max(x, 0), 6)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return each element, but at least 0 and at most 6."""
        return ops.relu6(x)


class SELU(Module):
    """The exponential linear unit that keeps mean and variance; see `ops.selu`."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the scaled exponential linear unit of each element."""
        return ops.selu(x)


class Mish(Module):
    """`x` times the hyperbolic tangent of its softplus."""

    def forward(self, x: Tensor) -> Tensor:
        """Return each element times that tangent."""
        return ops.mish(x)


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return each element divided so."""
        return ops.softsign(x)


class Hardswish(Module):
    """`x` times its hard sigmoid."""

    def forward(self, x: Tensor) -> Tensor:
        """Return each element times its hard sigmoid."""
        return ops.hardswish(x)


class Hardsigmoid(Module):
    """min(max(x / 6 + 1 / 2, 0), 1)."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the piecewise linear logistic function of each element."""
        return ops.hardsigmoid(x)


class LogSigmoid(Module):
    """The logarithm of the sigmoid."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the logarithm of the sigmoid of each element."""
        return ops.log_sigmoid(x)


class ELU(Module):
    """`x` where it is positive, otherwise alpha * (exp(x) - 1).

    Parameters
    ----------
    alpha : float, default 1
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Return the exponential linear unit of each element."""
        return ops.elu(x, self.alpha)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"alpha={self.alpha}"


class CELU(Module):
    """`x` where it is positive, otherwise alpha * (exp(x / alpha) - 1).

    Parameters
    ----------
    alpha : float, default 1
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def forward(self, x: Tensor) -> Tensor:
        """Return the exponential linear unit of each element."""
        return ops.celu(x, self.alpha)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"alpha={self.alpha}"


class Hardtanh(Module):
    """min(max(x, min_val), max_val).

    Parameters
    ----------
    min_val, max_val : float, default -1, 1
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0) -> None:
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, x: Tensor) -> Tensor:
        """Return each element, or the nearest bound where it is beyond one."""
        return ops.hardtanh(x, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Softplus(Module):
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

    def forward(self, x: Tensor) -> Tensor:
        """Return the softplus of each element."""
        return ops.softplus(x, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softmax(Module):
    """Exponentials that sum to 1 along one dimension.

    Parameters
    ----------
    dim : int, default -1
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Return the shares of the exponentials."""
        return ops.softmax(x, self.dim)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of the softmax along one dimension.

    Parameters
    ----------
    dim : int, default -1
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Return the logarithms of those shares."""
        return ops.log_softmax(x, self.dim)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"dim={self.dim}"


class GLU(Module):
    """The first half of a dimension times the sigmoid of the second.

    Parameters
    ----------
    dim : int, default -1
    """

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        """Return one half gated by the other."""
        return ops.glu(x, self.dim)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"dim={self.dim}"


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
        """Set the factors to what they started from."""
        constant_(self.weight, self.init)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with negative elements scaled."""
        return ops.prelu(x, self.weight)

    def extra_repr(self) -> str:
        """Return the arguments that `repr` shows."""
        return f"num_parameters={self.num_parameters}"
