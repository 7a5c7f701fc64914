"""Initial values of parameters, drawn from the library's own generator.

The functions change a tensor in place and return it. Draws are made on the host, so
`fw.manual_seed` gives the same values whatever the tensor's device.
"""

from __future__ import annotations

import math

from ..autograd.engine import no_grad
from ..base.errors import ShapeError
from ..tensor.random import rand, randn
from ..tensor.tensor import Tensor


def calculate_gain(nonlinearity: str, param: float = 0.01) -> float:
    """Return the factor that keeps the variance of activations through a function.

    Parameters
    ----------
    nonlinearity : str
        "linear", "conv2d", "sigmoid", "tanh", "relu" or "leaky_relu".
    param : float, default 0.01
        The negative slope of "leaky_relu".

    Raises
    ------
    ValueError
        If the function is none of these.
    """
    gains = {
        "linear": 1.0,
        "conv2d": 1.0,
        "sigmoid": 1.0,
        "tanh": 5.0 / 3.0,
        "relu": math.sqrt(2.0),
        "leaky_relu": math.sqrt(2.0 / (1.0 + param**2)),
    }
    if nonlinearity not in gains:
        raise ValueError(
            f"calculate_gain: nonlinearity is {nonlinearity!r};"
            f" accepted: {', '.join(gains)}"
        )
    return gains[nonlinearity]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Fill with draws from the uniform distribution over [a, b)."""
    return _assign(tensor, rand(tensor.shape) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fill with draws from a normal distribution."""
    return _assign(tensor, randn(tensor.shape) * std + mean)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    with no_grad():
        return tensor.fill_(val)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill from U(-a, a) with a = gain * sqrt(6 / (fan_in + fan_out)).

    Notes
    -----
    Source: Glorot and Bengio, "Understanding the difficulty of training deep
    feedforward neural networks", AISTATS 2010.
    """
    bound = gain * math.sqrt(6.0 / sum(fans("xavier_uniform_", tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill from N(0, std^2) with std = gain * sqrt(2 / (fan_in + fan_out))."""
    std = gain * math.sqrt(2.0 / sum(fans("xavier_normal_", tensor)))
    return normal_(tensor, 0.0, std)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
) -> Tensor:
    """Fill from U(-b, b) with b = gain * sqrt(3 / fan).

    Parameters
    ----------
    tensor : Tensor, shape (out, in, ...)
        Weights.
    a : float, default 0
        Negative slope of the "leaky_relu" that follows.
    mode : str, default "fan_in"
        "fan_in" keeps the variance forward, "fan_out" backward.
    nonlinearity : str, default "leaky_relu"
        What follows; see `calculate_gain`.

    Notes
    -----
    Source: He et al., "Delving deep into rectifiers", arXiv:1502.01852.
    """
    std = _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
) -> Tensor:
    """Fill from N(0, std^2) with std = gain / sqrt(fan); see `kaiming_uniform_`."""
    std = _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity)
    return normal_(tensor, 0.0, std)


def fans(name: str, tensor: Tensor) -> tuple[int, int]:
    """Return how many inputs and outputs each element of a weight connects.

    Raises
    ------
    ShapeError
        If the tensor has fewer than two dimensions.
    """
    if tensor.ndim < 2:
        raise ShapeError(
            f"{name}: the tensor is {tuple(tensor.shape)}; it must be (out, in, ...)"
        )
    out_size, in_size, *kernel = tensor.shape
    field = math.prod(kernel)
    return in_size * field, out_size * field


def _kaiming_std(
    name: str, tensor: Tensor, a: float, mode: str, nonlinearity: str
) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{name}: mode is {mode!r}; it must be 'fan_in' or 'fan_out'")
    fan_in, fan_out = fans(name, tensor)
    gain = calculate_gain(nonlinearity, a)
    return gain / math.sqrt(fan_in if mode == "fan_in" else fan_out)


def _assign(tensor: Tensor, values: Tensor) -> Tensor:
    with no_grad():
        return tensor.copy_(values)
