"""Distributions of shares: beta, Dirichlet, Kumaraswamy."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .. import ops
from ..tensor.tensor import Tensor
from . import constraints
from .distribution import (
    EULER,
    Distribution,
    ExponentialFamily,
    Number,
    broadcast_all,
)
from .gamma import LEAST, standard_gamma


class Dirichlet(ExponentialFamily):
    """Dirichlet distribution, over shares of a whole.

    Parameters
    ----------
    concentration : Tensor, shape (..., n)
        Above 0.
    validate_args : bool, optional
        See `Distribution`.

    Raises
    ------
    ValueError
        If `concentration` has no dimension.
    """

    has_rsample = True
    arg_constraints = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    _parameters = {"concentration": 1}

    def __init__(
        self, concentration: Tensor, validate_args: bool | None = None
    ) -> None:
        if concentration.ndim < 1:
            raise ValueError(
                "Dirichlet: concentration has no dimension; it must have at least one"
            )
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        """Concentrations over their sum."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """Most probable shares; one corner where no concentration is above 1."""
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        corner = (self.concentration < 1).all(-1, True)
        largest = ops.one_hot(self.concentration.argmax(-1), mode.shape[-1])
        return ops.where(corner, largest.to(mode.dtype), mode)

    @property
    def variance(self) -> Tensor:
        """Variance of each share."""
        total = self.concentration.sum(-1, True)
        return (
            self.concentration
            * (total - self.concentration)
            / (total.square() * (total + 1))
        )

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return gamma draws over their sums."""
        drawn = standard_gamma(self.concentration, self._extended_shape(sample_shape))
        return drawn / drawn.sum(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return (
            ops.xlogy(self.concentration - 1.0, value).sum(-1)
            + ops.lgamma(self.concentration.sum(-1))
            - ops.lgamma(self.concentration).sum(-1)
        )

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        alpha = self.concentration
        total = alpha.sum(-1)
        return (
            ops.lgamma(alpha).sum(-1)
            - ops.lgamma(total)
            - (alpha.shape[-1] - total) * ops.digamma(total)
            - ((alpha - 1.0) * ops.digamma(alpha)).sum(-1)
        )


class Beta(ExponentialFamily):
    """Beta distribution, over one share.

    Parameters
    ----------
    concentration1, concentration0 : float or Tensor
        alpha and beta, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    has_rsample = True
    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    _parameters = {"concentration1": 0, "concentration0": 0}

    def __init__(
        self,
        concentration1: Number,
        concentration0: Number,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(
            concentration1, concentration0
        )
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Alpha / (alpha + beta)."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """Most probable share."""
        both = ops.stack([self.concentration1, self.concentration0], -1)
        return Dirichlet(both, validate_args=False).mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """Variance of the share."""
        total = self.concentration1 + self.concentration0
        product = self.concentration1 * self.concentration0
        return product / (total.square() * (total + 1))

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return a gamma draw over the sum of two."""
        shape = self._extended_shape(sample_shape)
        first = standard_gamma(self.concentration1, shape)
        return first / (first + standard_gamma(self.concentration0, shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        first, second = self.concentration1, self.concentration0
        return (
            ops.xlogy(first - 1.0, value)
            + ops.xlogy(second - 1.0, 1.0 - value)
            + ops.lgamma(first + second)
            - ops.lgamma(first)
            - ops.lgamma(second)
        )

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        first, second = self.concentration1, self.concentration0
        total = first + second
        return (
            ops.lgamma(first)
            + ops.lgamma(second)
            - ops.lgamma(total)
            - (first - 1.0) * ops.digamma(first)
            - (second - 1.0) * ops.digamma(second)
            + (total - 2.0) * ops.digamma(total)
        )


class Kumaraswamy(Distribution):
    """Kumaraswamy distribution, close to beta, with a closed form.

    Parameters
    ----------
    concentration1, concentration0 : float or Tensor
        alpha and beta, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    has_rsample = True
    arg_constraints = Beta.arg_constraints
    support = constraints.unit_interval
    _parameters = {"concentration1": 0, "concentration0": 0}

    def __init__(
        self,
        concentration1: Number,
        concentration0: Number,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(
            concentration1, concentration0
        )
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _moment(self, order: int) -> Tensor:
        first = 1 + order / self.concentration1
        second = self.concentration0
        log_beta = ops.lgamma(first) + ops.lgamma(second) - ops.lgamma(first + second)
        return second * log_beta.exp()

    @property
    def mean(self) -> Tensor:
        """First moment."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """Most probable share; NaN where a concentration is below 1.

        PyTorch's is NaN everywhere.
        """
        first, second = self.concentration1, self.concentration0
        mode = ((first - 1) / (first * second - 1)) ** (1 / first)
        return ops.where((first < 1) | (second < 1), math.nan, mode)

    @property
    def variance(self) -> Tensor:
        """Second moment less the squared mean."""
        return self._moment(2) - self.mean.square()

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return the quantiles of uniform draws."""
        shape = self._extended_shape(sample_shape)
        drawn = ops.draw_uniform(self.concentration1, shape, self.concentration1.dtype)
        return self.icdf(drawn)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        first, second = self.concentration1, self.concentration0
        return (
            first.log()
            + second.log()
            + ops.xlogy(first - 1, value)
            + ops.xlogy(second - 1, -ops.expm1(first * value.log()))
        )

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        inner = ops.log1p(-(value**self.concentration1))
        return -ops.expm1(self.concentration0 * inner)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        inner = -ops.expm1(ops.log1p(-value) / self.concentration0)
        return ops.clamp_min(inner, LEAST) ** (1 / self.concentration1)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        first, second = self.concentration1, self.concentration0
        harmonic = ops.digamma(second + 1) + EULER
        return (
            (1 - 1 / second) + (1 - 1 / first) * harmonic - first.log() - second.log()
        )
