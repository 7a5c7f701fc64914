"""Normal distribution and those of its exponential and its absolute value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .. import ops
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import LOG_2_PI, ExponentialFamily, Number, broadcast_all, filled

SQRT_2 = math.sqrt(2)


class Normal(ExponentialFamily):
    """Normal distribution.

    Parameters
    ----------
    loc : float or Tensor
        Mean.
    scale : float or Tensor
        Standard deviation, above 0.
    validate_args : bool, optional
        See `Distribution`.

    Examples
    --------
    >>> round(Normal(0.0, 1.0).log_prob(fw.tensor(0.0)).item(), 4)
    -0.9189
    """

    has_rsample = True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    _parameters = {"loc": 0, "scale": 0}

    def __init__(
        self, loc: Number, scale: Number, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """`scale`."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """Square of `scale`."""
        return self.scale.square()

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return `loc` plus `scale` times standard normal draws."""
        shape = self._extended_shape(sample_shape)
        return self.loc + ops.draw_normal(self.loc, shape, self.loc.dtype) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        return -0.5 * z.square() - self.scale.log() - 0.5 * LOG_2_PI

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * ops.erfc((self.loc - value) / (self.scale * SQRT_2))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        return self.loc + self.scale * ops.erfinv(2 * value - 1) * SQRT_2

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return 0.5 + 0.5 * LOG_2_PI + self.scale.log()


class HalfNormal(Normal):
    """Distribution of the absolute value of a normal variable of mean 0.

    Parameters
    ----------
    scale : float or Tensor
        Standard deviation of that variable, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, scale: Number, validate_args: bool | None = None) -> None:
        super().__init__(0.0, scale, validate_args)

    @property
    def mean(self) -> Tensor:
        """`scale` times sqrt(2 / pi)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        """0."""
        return filled(0, self.scale)

    @property
    def variance(self) -> Tensor:
        """`scale`^2 (1 - 2 / pi)."""
        return self.scale.square() * (1 - 2 / math.pi)

    @property
    def stddev(self) -> Tensor:
        """Square root of the variance."""
        return self.variance.sqrt()

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return absolute values of normal draws."""
        return super().rsample(sample_shape).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        log_prob = super().log_prob(value) + math.log(2)
        return ops.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return ops.erf(value / (self.scale * SQRT_2))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        return super().icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return super().entropy() - math.log(2)
