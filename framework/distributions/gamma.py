"""Gamma distribution, and those of what is made of its variables."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .. import ops
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import Distribution, ExponentialFamily, Number, broadcast_all, filled

LEAST = 1.1754943508222875e-38
"""Smallest normal float32, in the place of draws of 0."""


def standard_gamma(concentration: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return draws of scale 1, with gradients to the concentration."""
    drawn: Tensor = ops.draw_gamma(concentration.expand(shape))
    return ops.clamp_min(drawn, LEAST)


class Gamma(ExponentialFamily):
    """Gamma distribution.

    Parameters
    ----------
    concentration : float or Tensor
        Shape, alpha, above 0.
    rate : float or Tensor
        Inverse scale, beta, above 0.
    validate_args : bool, optional
        See `Distribution`.

    Notes
    -----
    Draws: Marsaglia and Tsang, A Simple Method for Generating Gamma Variables, 2000.
    Their gradient is implicit: Figurnov, Mohamed and Mnih, arXiv:1805.08498.
    """

    has_rsample = True
    arg_constraints = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support: Any = constraints.nonnegative
    _parameters = {"concentration": 0, "rate": 0}

    def __init__(
        self, concentration: Number, rate: Number, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Alpha / beta."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """(alpha - 1) / beta, at least 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """Alpha / beta^2."""
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws, with gradients to both parameters."""
        shape = self._extended_shape(sample_shape)
        return standard_gamma(self.concentration, shape) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return (
            ops.xlogy(self.concentration, self.rate)
            + ops.xlogy(self.concentration - 1, value)
            - self.rate * value
            - ops.lgamma(self.concentration)
        )

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return ops.igamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        alpha = self.concentration
        return (
            alpha
            - self.rate.log()
            + ops.lgamma(alpha)
            + (1.0 - alpha) * ops.digamma(alpha)
        )


class Chi2(Gamma):
    """Chi-squared distribution, of the sum of `df` squared standard normal variables.

    Parameters
    ----------
    df : float or Tensor
        Degrees of freedom, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Number, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class InverseGamma(Gamma):
    """Distribution of the inverse of a gamma variable.

    Parameters
    ----------
    concentration, rate : float or Tensor
        Those of the gamma distribution, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    support = constraints.positive

    @property
    def mean(self) -> Tensor:
        """Beta / (alpha - 1); infinite up to alpha = 1."""
        mean = self.rate / (self.concentration - 1)
        return ops.where(self.concentration > 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        """Beta / (alpha + 1)."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """Infinite up to alpha = 2."""
        alpha = self.concentration
        variance = self.rate.square() / ((alpha - 1).square() * (alpha - 2))
        return ops.where(alpha > 2, variance, math.inf)

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws, with gradients to both parameters."""
        return super().rsample(sample_shape).reciprocal()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return (
            ops.xlogy(self.concentration, self.rate)
            - (self.concentration + 1) * value.log()
            - self.rate / value
            - ops.lgamma(self.concentration)
        )

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return 1 - ops.igamma(self.concentration, self.rate / value)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        alpha = self.concentration
        return (
            alpha
            + self.rate.log()
            + ops.lgamma(alpha)
            - (1 + alpha) * ops.digamma(alpha)
        )


class Exponential(ExponentialFamily):
    """Exponential distribution.

    Parameters
    ----------
    rate : float or Tensor
        Inverse of the mean, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    has_rsample = True
    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    _parameters = {"rate": 0}

    def __init__(self, rate: Number, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Inverse of the rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """0."""
        return filled(0, self.rate)

    @property
    def stddev(self) -> Tensor:
        """Inverse of the rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """Inverse of the squared rate."""
        return self.rate.square().reciprocal()

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws of mean 1 over the rate."""
        shape = self._extended_shape(sample_shape)
        return ops.draw_exponential(self.rate, shape, self.rate.dtype) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return -ops.expm1(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        return -ops.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return 1.0 - self.rate.log()


class StudentT(Distribution):
    """Student's t-distribution.

    Parameters
    ----------
    df : float or Tensor
        Degrees of freedom, above 0.
    loc : float or Tensor, default 0.0
        Median.
    scale : float or Tensor, default 1.0
        Above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    has_rsample = True
    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    _parameters = {"df": 0, "loc": 0, "scale": 0}

    def __init__(
        self,
        df: Number,
        loc: Number = 0.0,
        scale: Number = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """`loc`; NaN up to one degree of freedom."""
        return ops.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinite up to two degrees of freedom, NaN up to one."""
        variance = self.scale.square() * self.df / (self.df - 2)
        variance = ops.where(self.df > 2, variance, math.inf)
        return ops.where(self.df > 1, variance, math.nan)

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return normal draws over the root of chi-squared ones."""
        shape = self._extended_shape(sample_shape)
        normal = ops.draw_normal(self.df, shape, self.df.dtype)
        chi2 = 2 * standard_gamma(0.5 * self.df, shape)
        return self.loc + self.scale * normal * (chi2 / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        norm = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + ops.lgamma(0.5 * self.df)
            - ops.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * ops.log1p(z.square() / self.df) - norm

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        half = 0.5 * self.df
        log_beta = ops.lgamma(half) + math.lgamma(0.5) - ops.lgamma(half + 0.5)
        return (
            self.scale.log()
            + (half + 0.5) * (ops.digamma(half + 0.5) - ops.digamma(half))
            + 0.5 * self.df.log()
            + log_beta
        )


class FisherSnedecor(Distribution):
    """F-distribution: the ratio of two chi-squared variables over their degrees.

    Parameters
    ----------
    df1, df2 : float or Tensor
        Degrees of freedom, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    has_rsample = True
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    _parameters = {"df1": 0, "df2": 0}

    def __init__(
        self, df1: Number, df2: Number, validate_args: bool | None = None
    ) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """NaN for `df2` up to 2."""
        return ops.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """NaN for `df1` up to 2."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return ops.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        """NaN for `df2` up to 4."""
        less = self.df2 - 2
        over = self.df1 * less.square() * (self.df2 - 4)
        variance = 2 * self.df2.square() * (self.df1 + less) / over
        return ops.where(self.df2 > 4, variance, math.nan)

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return ratios of gamma draws."""
        shape = self._extended_shape(sample_shape)
        first = standard_gamma(self.df1 * 0.5, shape) / self.df1
        second = standard_gamma(self.df2 * 0.5, shape) / self.df2
        return ops.clamp_min(first / second, LEAST)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        first, second = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        norm = ops.lgamma(first + second) - ops.lgamma(first) - ops.lgamma(second)
        rest = first * ratio.log() + (first - 1) * value.log()
        return norm + rest - (first + second) * ops.log1p(ratio * value)
