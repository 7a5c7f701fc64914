"""Distributions of a location and a scale: uniform, Laplace, Cauchy, Gumbel."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .. import ops
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint, dependent_property
from .distribution import EULER, Distribution, Number, broadcast_all, filled

SMALLEST = 2.0**-25
"""Takes the place of a draw of 0, whose logarithm would be infinite."""


class Uniform(Distribution):
    """Uniform distribution from `low` to before `high`.

    Parameters
    ----------
    low, high : float or Tensor
        `low` is below `high`.
    validate_args : bool, optional
        See `Distribution`.

    Raises
    ------
    ValueError
        If `low` is not below `high` and arguments are checked.
    """

    has_rsample = True
    arg_constraints = {"low": constraints.dependent, "high": constraints.dependent}
    _parameters = {"low": 0, "high": 0}

    def __init__(
        self, low: Number, high: Number, validate_args: bool | None = None
    ) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    def _check_parameters(self) -> None:
        if not bool((self.low < self.high).detach().all()):
            raise ValueError(
                f"Uniform: low is {self.low!r}, high is {self.high!r}; low must be"
                " below high"
            )

    @dependent_property
    def support(self) -> Constraint:
        """From `low` to `high`."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """Middle."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: every value is as probable."""
        return self.high * math.nan

    @property
    def stddev(self) -> Tensor:
        """Length over sqrt(12)."""
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        """Squared length over 12."""
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return `low` plus the length times draws from [0, 1)."""
        shape = self._extended_shape(sample_shape)
        drawn = ops.draw_uniform(self.low, shape, self.low.dtype)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (value < self.high)
        return ops.where(inside, -(self.high - self.low).log(), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return (self.high - self.low).log()


class _LocationScale(Distribution):
    """Distribution of `loc` plus `scale` times a standard variable."""

    has_rsample = True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    _parameters = {"loc": 0, "scale": 0}

    def __init__(
        self, loc: Number, scale: Number, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def _draws(self, sample_shape: Iterable[int]) -> Tensor:
        """Return uniform draws from (0, 1)."""
        shape = self._extended_shape(sample_shape)
        drawn = ops.draw_uniform(self.loc, shape, self.loc.dtype)
        return ops.clamp_min(drawn, SMALLEST)

    def _standardized(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale


class Laplace(_LocationScale):
    """Laplace distribution: two exponential distributions, back to back.

    Parameters
    ----------
    loc : float or Tensor
        Mean.
    scale : float or Tensor
        Mean distance from it, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    @property
    def mean(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Twice the square of `scale`."""
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        """sqrt(2) times `scale`."""
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return the quantiles of uniform draws."""
        return self.icdf(self._draws(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        return -self._standardized(value).abs() - (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        z = self._standardized(value)
        return 0.5 - 0.5 * z.sign() * ops.expm1(-z.abs())

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * ops.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """Cauchy distribution, which has no mean.

    Parameters
    ----------
    loc : float or Tensor
        Median.
    scale : float or Tensor
        Half width at half the height, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    @property
    def mean(self) -> Tensor:
        """NaN."""
        return self.loc * math.nan

    @property
    def mode(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinity."""
        return filled(math.inf, self.loc)

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return the quantiles of uniform draws."""
        return self.icdf(self._draws(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        z = self._standardized(value)
        return -math.log(math.pi) - self.scale.log() - ops.log1p(z.square())

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        return ops.atan(self._standardized(value)) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        return ops.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return math.log(4 * math.pi) + self.scale.log()


class HalfCauchy(Cauchy):
    """Distribution of the absolute value of a Cauchy variable of median 0.

    Parameters
    ----------
    scale : float or Tensor
        Its scale, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative

    def __init__(self, scale: Number, validate_args: bool | None = None) -> None:
        super().__init__(0.0, scale, validate_args)

    @property
    def mean(self) -> Tensor:
        """Infinity."""
        return filled(math.inf, self.scale)

    @property
    def mode(self) -> Tensor:
        """0."""
        return filled(0, self.scale)

    @property
    def variance(self) -> Tensor:
        """Infinity."""
        return filled(math.inf, self.scale)

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return absolute values of Cauchy draws."""
        return super().rsample(sample_shape).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        log_prob = super().log_prob(value) + math.log(2)
        return ops.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        return 2 * super().cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        return super().icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return super().entropy() - math.log(2)


class Gumbel(_LocationScale):
    """Gumbel distribution, of the largest of many variables.

    Parameters
    ----------
    loc : float or Tensor
        Mode.
    scale : float or Tensor
        Above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    @property
    def mean(self) -> Tensor:
        """`loc` plus Euler's constant times `scale`."""
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """Pi / sqrt(6) times `scale`."""
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        """Square of `stddev`."""
        return self.stddev.square()

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return the quantiles of uniform draws."""
        return self.icdf(self._draws(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        z = self._standardized(value)
        return -z - (-z).exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        return (-(-self._standardized(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return self.scale.log() + (1 + EULER)
