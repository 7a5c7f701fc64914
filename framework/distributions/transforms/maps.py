"""Single maps: exponential, power, sigmoid, affine, stick-breaking and others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ... import ops
from ...base.docstring import shares_parameters
from ...tensor.tensor import Tensor
from .. import constraints
from ..distribution import counted, filled, softplus, sum_rightmost
from .transform import Transform


class Plain(Transform):
    """Map without parameters: equal to others of its class."""

    bijective = True

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


@shares_parameters(Transform)
class ExpTransform(Plain):
    """Exponential, y = exp(x)."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `x`."""
        return x


class PowerTransform(Transform):
    """y = x^exponent, of positive numbers.

    Parameters
    ----------
    exponent : float or Tensor
    cache_size : int, default 0
        See `Transform`.
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent
        self.sign = (
            exponent.sign()
            if isinstance(exponent, Tensor)
            else math.copysign(1, exponent)
        )

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |exponent y / x|."""
        return (self.exponent * y / x).abs().log()


@shares_parameters(Transform)
class SigmoidTransform(Plain):
    """y = 1 / (1 + exp(-x))."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return ops.sigmoid(x).clamp(min=1.1754943508222875e-38, max=1 - 2.0**-24)

    def _inverse(self, y: Tensor) -> Tensor:
        y = y.clamp(min=1.1754943508222875e-38, max=1 - 2.0**-24)
        return y.log() - ops.log1p(-y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return -softplus(-x) - softplus(x)."""
        return -softplus(-x) - softplus(x)


@shares_parameters(Transform)
class SoftplusTransform(Plain):
    """y = log(1 + exp(x))."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-ops.expm1(-y)).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return -softplus(-x)."""
        return -softplus(-x)


@shares_parameters(Transform)
class TanhTransform(Plain):
    """y = tanh(x)."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(1 - tanh(x)^2), also where that is tiny."""
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


@shares_parameters(Transform)
class AbsTransform(Plain):
    """Magnitude, y = |x|; the inverse is x = y."""

    bijective = False
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale x.

    Parameters
    ----------
    loc, scale : float or Tensor
    event_dim : int, default 0
        Dimensions of a value.
    cache_size : int, default 0
        See `Transform`.
    """

    bijective = True

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        event_dim: int = 0,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        if event_dim:
            self.domain = self.codomain = constraints.independent(
                constraints.real, event_dim
            )
        self.sign = (
            scale.sign() if isinstance(scale, Tensor) else math.copysign(1, scale)
        )

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |scale|, summed over a value."""
        if isinstance(self.scale, Tensor):
            each = self.scale.abs().log()
        else:
            each = filled(math.log(abs(self.scale)), x)
        shape = tuple(x.shape)
        return sum_rightmost(each.expand(shape), self.event_dim)


@shares_parameters(Transform)
class SoftmaxTransform(Plain):
    """y = softmax(x): onto shares, but not one to one."""

    bijective = False
    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return ops.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


@shares_parameters(Transform)
class StickBreakingTransform(Plain):
    """Map onto shares: each takes a part of what the ones before it left."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        n = x.shape[-1]
        offset = n + 1 - counted(n, x, 1)
        z = ops.sigmoid(x - offset.log())
        left = ops.cumprod(1 - z, -1)
        one = filled(1, left[..., :1])
        return ops.cat([z, one], -1) * ops.cat([one, left], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        n = y.shape[-1] - 1
        offset = n + 1 - counted(n, y, 1)
        left = (1 - ops.cumsum(y[..., :-1], -1)).clamp(min=1.1754943508222875e-38)
        return y[..., :-1].log() - left.log() + offset.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logarithm of the Jacobian's determinant."""
        n = x.shape[-1]
        offset = n + 1 - counted(n, x, 1)
        x = x - offset.log()
        return (-x + ops.log_sigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape with one share more."""
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape with one number less."""
        return (*shape[:-1], shape[-1] - 1)


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) of a distribution.

    Parameters
    ----------
    distribution : Distribution
        With a `cdf` and `icdf`.
    cache_size : int, default 0
        See `Transform`.
    """

    bijective = True
    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution
        self.domain = distribution.support

    def _call(self, x: Tensor) -> Tensor:
        result: Tensor = self.distribution.cdf(x)
        return result

    def _inverse(self, y: Tensor) -> Tensor:
        result: Tensor = self.distribution.icdf(y)
        return result

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logarithm of the density."""
        result: Tensor = self.distribution.log_prob(x)
        return result
