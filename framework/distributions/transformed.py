"""Distributions of transformed variables: log-normal, Pareto, Weibull, relaxed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .. import ops
from ..tensor.tensor import Tensor
from . import constraints
from .bernoulli import Bernoulli, Trials
from .categorical import Categorical
from .constraints import Constraint, dependent_property
from .derived import TransformedDistribution
from .distribution import (
    Distribution,
    Number,
    broadcast_all,
    clamp_probs,
    filled,
    softplus,
)
from .gamma import Exponential
from .location_scale import SMALLEST
from .normal import Normal
from .transforms import (
    AffineTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    StickBreakingTransform,
)


class LogNormal(TransformedDistribution):
    """Distribution of the exponential of a normal variable.

    Parameters
    ----------
    loc : float or Tensor
        Mean of the logarithm.
    scale : float or Tensor
        Standard deviation of the logarithm, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    arg_constraints = Normal.arg_constraints
    support = constraints.positive
    base_dist: Normal

    def __init__(
        self, loc: Number, scale: Number, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> LogNormal:
        """Return the distribution with parameters expanded to a batch shape."""
        base = self.base_dist.expand(batch_shape)
        return LogNormal(base.loc, base.scale, validate_args=False)

    @property
    def loc(self) -> Tensor:
        """Mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """exp(mu + sigma^2 / 2)."""
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        """exp(mu - sigma^2)."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """(exp(sigma^2) - 1) exp(2 mu + sigma^2)."""
        square = self.scale.square()
        return ops.expm1(square) * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return self.base_dist.entropy() + self.loc


class Pareto(TransformedDistribution):
    """Pareto distribution, of type 1.

    Parameters
    ----------
    scale : float or Tensor
        Smallest value, above 0.
    alpha : float or Tensor
        Exponent, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(
        self, scale: Number, alpha: Number, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args)
        both = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(base, both, validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Pareto:
        """Return the distribution with parameters expanded to a batch shape."""
        shape = tuple(batch_shape)
        scale, alpha = self.scale.expand(shape), self.alpha.expand(shape)
        return Pareto(scale, alpha, validate_args=False)

    @dependent_property
    def support(self) -> Constraint:
        """From `scale` on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """Infinite up to alpha = 1."""
        mean = self.alpha * self.scale / (self.alpha - 1)
        return ops.where(self.alpha > 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        """`scale`."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """Infinite up to alpha = 2."""
        less = self.alpha - 1
        variance = self.scale.square() * self.alpha / (less.square() * (less - 1))
        return ops.where(self.alpha > 2, variance, math.inf)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha


class GeneralizedPareto(Distribution):
    """Generalised Pareto distribution, of what exceeds a threshold.

    Parameters
    ----------
    loc : float or Tensor
        Threshold.
    scale : float or Tensor
        Above 0.
    concentration : float or Tensor
        Shape: above 0 with a heavy tail, 0 exponential, below 0 with an end.
    validate_args : bool, optional
        See `Distribution`.
    """

    has_rsample = True
    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    _parameters = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(
        self,
        loc: Number,
        scale: Number,
        concentration: Number,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(
            loc, scale, concentration
        )
        super().__init__(self.loc.shape, validate_args=validate_args)

    @dependent_property
    def support(self) -> Constraint:
        """From `loc` on, with an end if the concentration is below 0."""
        end = self.loc - self.scale / self.concentration
        end = ops.where(self.concentration < 0, end, math.inf)
        return constraints.interval(self.loc, end)

    @property
    def mean(self) -> Tensor:
        """Infinite from a concentration of 1 on."""
        mean = self.loc + self.scale / (1 - self.concentration)
        return ops.where(self.concentration < 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        """`loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinite from a concentration of 0.5 on."""
        less = 1 - self.concentration
        variance = (self.scale / less).square() / (1 - 2 * self.concentration)
        return ops.where(self.concentration < 0.5, variance, math.inf)

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return the quantiles of uniform draws."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.draw_uniform(self.loc, shape, self.loc.dtype))

    @property
    def _is_exponential(self) -> Tensor:
        return self.concentration.abs() < 1e-6

    @property
    def _divisor(self) -> Tensor:
        return ops.where(self._is_exponential, 1.0, self.concentration)

    def _log_survival(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        return ops.where(
            self._is_exponential, -z, -ops.log1p(self._divisor * z) / self._divisor
        )

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return (1 + self.concentration) * self._log_survival(value) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return -ops.expm1(self._log_survival(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        rest = ops.log1p(-value)
        curved = ops.expm1(-self._divisor * rest) / self._divisor
        return self.loc + self.scale * ops.where(self._is_exponential, -rest, curved)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return self.scale.log() + self.concentration + 1


class Weibull(TransformedDistribution):
    """Weibull distribution.

    Parameters
    ----------
    scale : float or Tensor
        lambda, above 0.
    concentration : float or Tensor
        k, above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    arg_constraints = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive

    def __init__(
        self, scale: Number, concentration: Number, validate_args: bool | None = None
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(filled(1, self.scale), validate_args)
        power = PowerTransform(self.concentration.reciprocal())
        both = [power, AffineTransform(0, self.scale)]
        super().__init__(base, both, validate_args)

    def expand(self, batch_shape: Iterable[int], _instance: Any = None) -> Weibull:
        """Return the distribution with parameters expanded to a batch shape."""
        shape = tuple(batch_shape)
        scale, k = self.scale.expand(shape), self.concentration.expand(shape)
        return Weibull(scale, k, validate_args=False)

    def _moment(self, order: int) -> Tensor:
        return ops.lgamma(1 + order / self.concentration).exp()

    @property
    def mean(self) -> Tensor:
        """Lambda gamma(1 + 1 / k)."""
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        """0 up to k = 1."""
        k = self.concentration
        # The clamp keeps a negative base from the power.
        return self.scale * ((k - 1) / k).clamp(min=0) ** (1 / k)

    @property
    def variance(self) -> Tensor:
        """lambda^2 (gamma(1 + 2 / k) - gamma(1 + 1 / k)^2)."""
        return self.scale.square() * (self._moment(2) - self._moment(1).square())

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        k = self.concentration
        return 0.57721566490153286060 * (1 - 1 / k) + (self.scale / k).log() + 1


class LogitRelaxedBernoulli(Trials):
    """Distribution of the log odds of a relaxed Bernoulli variable.

    Parameters
    ----------
    temperature : Tensor or float
        Above 0; towards 0 draws tend to 0 and 1.
    probs, logits : float or Tensor, optional
        See `Bernoulli`.
    validate_args : bool, optional
        See `Distribution`.
    """

    has_rsample = True
    arg_constraints = Bernoulli.arg_constraints
    support = constraints.real

    def __init__(
        self,
        temperature: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._set(probs, logits)
        super().__init__(self.param_shape, validate_args=validate_args)

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return logistic draws moved by the log odds, over the temperature."""
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(ops.draw_uniform(self._param, shape, self._param.dtype))
        return (u.log() - ops.log1p(-u) + self.logits) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        t = self.temperature
        log_t = t.log() if isinstance(t, Tensor) else math.log(t)
        apart = self.logits - value * t
        return log_t + apart - 2 * softplus(apart)


class RelaxedBernoulli(TransformedDistribution):
    """Bernoulli distribution relaxed to shares, so that its draws have gradients.

    Parameters
    ----------
    temperature : Tensor or float
        Above 0; towards 0 draws tend to 0 and 1.
    probs, logits : float or Tensor, optional
        See `Bernoulli`.
    validate_args : bool, optional
        See `Distribution`.

    Notes
    -----
    Source: Maddison, Mnih and Teh, arXiv:1611.00712.
    """

    arg_constraints = Bernoulli.arg_constraints
    support = constraints.unit_interval
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args)

    @property
    def temperature(self) -> Number:
        """Temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs


class ExpRelaxedCategorical(Distribution):
    """Distribution of the logarithm of a relaxed one-hot row.

    Parameters
    ----------
    temperature : Tensor or float
        Above 0.
    probs, logits : Tensor, shape (..., classes), optional
        See `Categorical`.
    validate_args : bool, optional
        See `Distribution`.
    """

    has_rsample = True
    arg_constraints = Categorical.arg_constraints
    support = constraints.real_vector

    def __init__(
        self,
        temperature: Number,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    def expand(
        self, batch_shape: Iterable[int], _instance: Any = None
    ) -> ExpRelaxedCategorical:
        """Return the distribution with parameters expanded to a batch shape."""
        logits = self._categorical.expand(batch_shape).logits
        return ExpRelaxedCategorical(self.temperature, None, logits, False)

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self._categorical.probs

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return Gumbel draws moved by the logits, over the temperature, normalised."""
        shape = self._extended_shape(sample_shape)
        drawn = ops.draw_exponential(self.logits, shape, self.logits.dtype)
        gumbel = -ops.clamp_min(drawn, SMALLEST).log()
        scores = (self.logits + gumbel) / self.temperature
        return scores - ops.logsumexp(scores, -1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        t, count = self.temperature, self._event_shape[0]
        log_t = t.log() if isinstance(t, Tensor) else math.log(t)
        score = self.logits - value * t
        score = (score - ops.logsumexp(score, -1, True)).sum(-1)
        return score + math.lgamma(count) + log_t * (count - 1)


class RelaxedOneHotCategorical(TransformedDistribution):
    """One-hot distribution relaxed to shares, so that its draws have gradients.

    Parameters
    ----------
    temperature : Tensor or float
        Above 0; towards 0 draws tend to one-hot rows.
    probs, logits : Tensor, shape (..., classes), optional
        See `Categorical`.
    validate_args : bool, optional
        See `Distribution`.

    Notes
    -----
    Source: Jang, Gu and Poole, arXiv:1611.01144.
    """

    arg_constraints = Categorical.arg_constraints
    support = constraints.simplex
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Number,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    @property
    def temperature(self) -> Number:
        """Temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs


class LogisticNormal(TransformedDistribution):
    """Distribution of shares made of normal variables by stick-breaking.

    Parameters
    ----------
    loc : float or Tensor, shape (..., n)
    scale : float or Tensor, shape (..., n)
        Above 0.
    validate_args : bool, optional
        See `Distribution`.
    """

    arg_constraints = Normal.arg_constraints
    support = constraints.simplex

    def __init__(
        self, loc: Number, scale: Number, validate_args: bool | None = None
    ) -> None:
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    @property
    def _normal(self) -> Normal:
        base: Any = self.base_dist
        normal: Normal = getattr(base, "base_dist", base)
        return normal

    @property
    def loc(self) -> Tensor:
        """Means of the normal variables."""
        return self._normal.loc

    @property
    def scale(self) -> Tensor:
        """Deviations of the normal variables."""
        return self._normal.scale
