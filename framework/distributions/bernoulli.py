"""Distributions of trials: Bernoulli, binomial, geometric, negative binomial."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .. import ops
from ..autograd.grad_mode import no_grad
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint, dependent_property
from .distribution import (
    Distribution,
    ExponentialFamily,
    Number,
    broadcast_all,
    clamp_probs,
    counted,
    exactly_one,
    filled,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    softplus,
)
from .gamma import standard_gamma


class Trials(Distribution):
    """Distribution of trials whose probability is given as `probs` or as `logits`."""

    _parameters = {"probs": 0, "logits": 0}

    def _set(self, probs: Number | None, logits: Number | None) -> None:
        exactly_one(type(self).__name__, probs, logits)
        if probs is not None:
            (self.probs,) = broadcast_all(probs)
        if logits is not None:
            (self.logits,) = broadcast_all(logits)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Tensor:
        """Log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @property
    def _param(self) -> Tensor:
        """What was given."""
        return self.probs if "probs" in vars(self) else self.logits

    @property
    def param_shape(self) -> tuple[int, ...]:
        """Shape of the probabilities."""
        return tuple(self._param.shape)


class Bernoulli(Trials, ExponentialFamily):
    """Bernoulli distribution: 1 with a probability, otherwise 0.

    Parameters
    ----------
    probs : float or Tensor, optional
        Probability of 1.
    logits : float or Tensor, optional
        Its log odds; give exactly one of the two.
    validate_args : bool, optional
        See `Distribution`.
    """

    has_enumerate_support = True
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean

    def __init__(
        self,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set(probs, logits)
        super().__init__(self.param_shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """`probs`."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """1 or 0; NaN where both are as probable."""
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return ops.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        """P (1 - p)."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws without a gradient."""
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of `value`."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return value * logits - softplus(logits)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return softplus(self.logits) - self.logits * self.probs

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return 0 and 1, along the first dimension."""
        values = counted(2, self._param, 0)
        values = values.reshape((2, *(1,) * len(self._batch_shape)))
        return values.expand((2, *self._batch_shape)) if expand else values


class Geometric(Trials):
    """Geometric distribution: failures before the first success.

    Parameters
    ----------
    probs : float or Tensor, optional
        Probability of success, above 0.
    logits : float or Tensor, optional
        Its log odds; give exactly one of the two.
    validate_args : bool, optional
        See `Distribution`.
    """

    arg_constraints = {
        "probs": constraints.interval(1e-45, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set(probs, logits)
        super().__init__(self.param_shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """1 / p - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        """0."""
        return filled(0, self.probs)

    @property
    def variance(self) -> Tensor:
        """(1 / p - 1) / p."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws without a gradient."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            drawn = ops.draw_exponential(self.probs, shape, self.probs.dtype)
            return (drawn / -ops.log1p(-self.probs)).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of `value`."""
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        # 0 times log(0) of a certain success is 0.
        failures = ops.xlogy(value, 1 - probs)
        return failures + probs.log()

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return (softplus(self.logits) - self.logits * self.probs) / self.probs


class Binomial(Trials):
    """Binomial distribution: successes among `total_count` trials.

    Parameters
    ----------
    total_count : int or Tensor, default 1
        Trials, at least 0.
    probs : float or Tensor, optional
        Probability of success.
    logits : float or Tensor, optional
        Its log odds; give exactly one of the two.
    validate_args : bool, optional
        See `Distribution`.

    Notes
    -----
    Draws are those of `framework.binomial`, whose cost does not grow with the trials.
    """

    has_enumerate_support = True
    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    _parameters = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self,
        total_count: Number = 1,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        exactly_one("Binomial", probs, logits)
        if probs is not None:
            self.total_count, self.probs = broadcast_all(total_count, probs)
        if logits is not None:
            self.total_count, self.logits = broadcast_all(total_count, logits)
        self.total_count = self.total_count.to(self._param.dtype)
        super().__init__(self.param_shape, validate_args=validate_args)

    @dependent_property(is_discrete=True)
    def support(self) -> Constraint:
        """From 0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """N p."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """Most probable number."""
        mode = ((self.total_count + 1) * self.probs).floor()
        return ops.clamp_max(mode, self.total_count)

    @property
    def variance(self) -> Tensor:
        """N p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws without a gradient."""
        shape = self._extended_shape(sample_shape)
        return ops.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of `value`."""
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = ops.lgamma(n + 1) - ops.lgamma(value + 1) - ops.lgamma(n - value + 1)
        return ways + value * self.logits - n * softplus(self.logits)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats; all numbers of trials must be equal."""
        values = self.enumerate_support(False)
        log_prob = Binomial(
            self.total_count, logits=self.logits, validate_args=False
        ).log_prob(values)
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return 0 to the number of trials, along the first dimension.

        Raises
        ------
        NotImplementedError
            If the numbers of trials differ.
        """
        most = int(self.total_count.max().item())
        if int(self.total_count.min().item()) != most:
            raise NotImplementedError(
                "Binomial.enumerate_support: numbers of trials differ; they must be one"
            )
        values = counted(1 + most, self._param, 0)
        values = values.reshape((-1, *(1,) * len(self._batch_shape)))
        return values.expand((1 + most, *self._batch_shape)) if expand else values


class NegativeBinomial(Trials):
    """Negative binomial distribution: successes before `total_count` failures.

    Parameters
    ----------
    total_count : float or Tensor
        Failures that end the trials, above 0; need not be whole.
    probs : float or Tensor, optional
        Probability of success, below 1.
    logits : float or Tensor, optional
        Its log odds; give exactly one of the two.
    validate_args : bool, optional
        See `Distribution`.
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameters = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self,
        total_count: Number,
        probs: Number | None = None,
        logits: Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        exactly_one("NegativeBinomial", probs, logits)
        if probs is not None:
            self.total_count, self.probs = broadcast_all(total_count, probs)
        if logits is not None:
            self.total_count, self.logits = broadcast_all(total_count, logits)
        self.total_count = self.total_count.to(self._param.dtype)
        super().__init__(self.param_shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """N exp(logits)."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """Most probable number."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """Mean over 1 - p."""
        return self.mean / ops.sigmoid(-self.logits)

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return Poisson draws of gamma rates, without a gradient."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            rate = standard_gamma(self.total_count, shape) * self.logits.exp()
            return ops.poisson(rate)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of `value`."""
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        plain = n * ops.log_sigmoid(-self.logits) + value * ops.log_sigmoid(self.logits)
        norm = ops.lgamma(1.0 + value) + ops.lgamma(n) - ops.lgamma(n + value)
        return plain - ops.where(n + value == 0.0, 0.0, norm)


class ContinuousBernoulli(Trials, ExponentialFamily):
    """Continuous Bernoulli distribution, over shares.

    Parameters
    ----------
    probs : float or Tensor, optional
        Between 0 and 1; not the mean.
    logits : float or Tensor, optional
        Its log odds; give exactly one of the two.
    lims : tuple of float, default (0.499, 0.501)
        Between these a Taylor series takes the place of what is 0 / 0 at 0.5.
    validate_args : bool, optional
        See `Distribution`.

    Notes
    -----
    Source: Loaiza-Ganem and Cunningham, arXiv:1907.06845.
    """

    has_rsample = True
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(
        self,
        probs: Number | None = None,
        logits: Number | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._set(probs, logits)
        self._lims = lims
        super().__init__(self.param_shape, validate_args=validate_args)
        if "probs" in vars(self):
            self.probs = clamp_probs(self.probs)

    @property
    def _unstable(self) -> Tensor:
        """Where the closed forms lose their digits."""
        return (self.probs > self._lims[0]) & (self.probs <= self._lims[1])

    @property
    def _safe_probs(self) -> Tensor:
        return ops.where(self._unstable, self._lims[0], self.probs)

    @property
    def _log_norm(self) -> Tensor:
        """Logarithm of the normalising constant."""
        p = self._safe_probs
        exact = ops.log((2 * ops.atanh(1 - 2 * p)).abs()) - (1 - 2 * p).abs().log()
        x = self.probs - 0.5
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x.square()) * x.square()
        return ops.where(self._unstable, series, exact)

    @property
    def mean(self) -> Tensor:
        """Mean."""
        p = self._safe_probs
        exact = p / (2.0 * p - 1.0) + 1.0 / (ops.log1p(-p) - p.log())
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x
        return ops.where(self._unstable, series, exact)

    @property
    def variance(self) -> Tensor:
        """Variance."""
        p = self._safe_probs
        odds = (ops.log1p(-p) - p.log()).square()
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).square() + 1.0 / odds
        x = (self.probs - 0.5).square()
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return ops.where(self._unstable, series, exact)

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return the quantiles of uniform draws."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.draw_uniform(self.probs, shape, self.probs.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return value * self.logits - softplus(self.logits) + self._log_norm

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        if self._validate_args:
            self._validate_sample(value)
        p = self._safe_probs
        power = p**value * (1.0 - p) ** (1.0 - value)
        exact = (power + p - 1.0) / (2.0 * p - 1.0)
        return ops.where(self._unstable, value, exact).clamp(0.0, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantiles."""
        p = self._safe_probs
        inner = ops.log1p(-p + value * (2.0 * p - 1.0)) - ops.log1p(-p)
        return ops.where(self._unstable, value, inner / (p.log() - ops.log1p(-p)))

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        log0, log1 = ops.log1p(-self.probs), self.probs.log()
        return self.mean * (log0 - log1) - self._log_norm - log0
