"""Distributions over classes: categorical, one-hot, multinomial."""

from __future__ import annotations

import math
from collections.abc import Iterable

from .. import ops
from ..autograd.grad_mode import no_grad
from ..base.dtype import int64
from ..base.shape import broadcast_shapes
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint, dependent_property
from .distribution import (
    Distribution,
    clamp_probs,
    counted,
    exactly_one,
    filled,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


class Classes(Distribution):
    """Distribution over classes, given by their weights or by log weights."""

    _parameters = {"probs": 1, "logits": 1}

    def _set(self, probs: Tensor | None, logits: Tensor | None) -> None:
        name = type(self).__name__
        exactly_one(name, probs, logits)
        given = probs if probs is not None else logits
        assert given is not None
        if given.ndim < 1:
            raise ValueError(
                f"{name}: the weights have no dimension; the last one must be classes"
            )
        if probs is not None:
            self.probs = probs / probs.sum(-1, True)
        if logits is not None:
            self.logits = logits - ops.logsumexp(logits, -1, True)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities, which sum to 1."""
        return logits_to_probs(self.logits)

    @lazy_property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @property
    def _param(self) -> Tensor:
        """What was given, normalised."""
        return self.probs if "probs" in vars(self) else self.logits

    @property
    def param_shape(self) -> tuple[int, ...]:
        """Shape of the probabilities."""
        return tuple(self._param.shape)

    def _draw(self, sample_shape: Iterable[int]) -> Tensor:
        """Return drawn classes of shape sample and batch, int64."""
        shape = tuple(sample_shape)
        count = math.prod(shape)
        classes = self.param_shape[-1]
        rows = self.probs.detach().reshape((-1, classes))
        drawn = ops.multinomial(rows, max(count, 1), True)[:, :count]
        return drawn.T.reshape((*shape, *self.param_shape[:-1])).to(int64)

    def _entropy(self) -> Tensor:
        # A class of probability 0 adds 0.
        least = -3.4028234663852886e38
        return -(ops.clamp_min(self.logits, least) * self.probs).sum(-1)


class Categorical(Classes):
    """Categorical distribution: one of several classes, by number.

    Parameters
    ----------
    probs : Tensor, shape (..., classes), optional
        Weights, at least 0; normalised to sum to 1.
    logits : Tensor, shape (..., classes), optional
        Log weights; give exactly one of the two.
    validate_args : bool, optional
        See `Distribution`.

    Raises
    ------
    ValueError
        If not exactly one of the two is given, or it has no dimension.

    Examples
    --------
    >>> m = Categorical(fw.tensor([0.25, 0.25, 0.5]))
    >>> round(m.log_prob(fw.tensor(2)).exp().item(), 4)
    0.5
    """

    has_enumerate_support = True
    arg_constraints = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set(probs, logits)
        self._num_events = self.param_shape[-1]
        super().__init__(self.param_shape[:-1], validate_args=validate_args)

    @dependent_property(is_discrete=True)
    def support(self) -> Constraint:
        """Numbers of classes."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """NaN: classes have no order."""
        return filled(math.nan, self.probs[..., 0])

    @property
    def mode(self) -> Tensor:
        """Most probable class."""
        return self.probs.argmax(-1).to(int64)

    @property
    def variance(self) -> Tensor:
        """NaN: classes have no order."""
        return filled(math.nan, self.probs[..., 0])

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return classes, int64."""
        if isinstance(sample_shape, int):
            sample_shape = (sample_shape,)
        with no_grad():
            return self._draw(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of classes."""
        if self._validate_args:
            self._validate_sample(value)
        shape = broadcast_shapes(
            "Categorical.log_prob", tuple(value.shape), self._batch_shape
        )
        index = value.to(int64).expand(shape).unsqueeze(-1)
        logits = self.logits.expand((*shape, self._num_events))
        return logits.gather(-1, index).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return self._entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the numbers of classes, along the first dimension."""
        values = counted(self._num_events, self._param, 0, int64)
        values = values.reshape((-1, *(1,) * len(self._batch_shape)))
        shape = (self._num_events, *self._batch_shape)
        return values.expand(shape) if expand else values


class OneHotCategorical(Classes):
    """Categorical distribution whose values are one-hot rows.

    Parameters
    ----------
    probs, logits : Tensor, shape (..., classes), optional
        See `Categorical`.
    validate_args : bool, optional
        See `Distribution`.
    """

    has_enumerate_support = True
    arg_constraints = Categorical.arg_constraints
    support = constraints.one_hot

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set(probs, logits)
        shape = self.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    def _one_hot(self, classes: Tensor) -> Tensor:
        return ops.one_hot(classes, self.param_shape[-1]).to(self._param.dtype)

    @property
    def mean(self) -> Tensor:
        """`probs`."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """Row of the most probable class."""
        return self._one_hot(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        """Variance of each element."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return rows with one 1."""
        if isinstance(sample_shape, int):
            sample_shape = (sample_shape,)
        with no_grad():
            return self._one_hot(self._draw(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of rows."""
        if self._validate_args:
            self._validate_sample(value)
        return (value * self.logits).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return self._entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the rows of all classes, along the first dimension."""
        n = self.param_shape[-1]
        values = self._one_hot(counted(n, self._param, 0, int64))
        values = values.reshape((n, *(1,) * len(self._batch_shape), n))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot distribution whose draws pass their gradient on to the probabilities.

    Parameters
    ----------
    probs, logits : Tensor, shape (..., classes), optional
        See `Categorical`.
    validate_args : bool, optional
        See `Distribution`.

    Notes
    -----
    Source: Bengio, Leonard and Courville, arXiv:1308.3432.
    """

    has_rsample = True

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return rows with one 1, with the gradient of `probs`."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Classes):
    """Multinomial distribution: how often each class is drawn.

    Parameters
    ----------
    total_count : int, default 1
        Draws.
    probs, logits : Tensor, shape (..., classes), optional
        See `Categorical`.
    validate_args : bool, optional
        See `Distribution`.

    Raises
    ------
    NotImplementedError
        If `total_count` is no int.
    """

    arg_constraints = Categorical.arg_constraints

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(
                f"Multinomial: total_count is a {type(total_count).__name__}; it must"
                " be one int for the whole batch"
            )
        self.total_count = total_count
        self._set(probs, logits)
        shape = self.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        """Vectors of counts that add up to the number of draws or less."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """N p."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """N p (1 - p)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return counts of classes."""
        if isinstance(sample_shape, int):
            sample_shape = (sample_shape,)
        with no_grad():
            drawn = self._draw((self.total_count, *sample_shape))
            hot = ops.one_hot(drawn, self.param_shape[-1])
            return hot.to(self._param.dtype).sum(0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of counts."""
        if self._validate_args:
            self._validate_sample(value)
        ways = ops.lgamma(value.sum(-1) + 1) - ops.lgamma(value + 1).sum(-1)
        # A class of probability 0 that was not drawn adds 0.
        impossible = (value == 0) & (self.logits == -math.inf)
        logits = ops.where(impossible, 0.0, self.logits)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        n = self.total_count
        counts = counted(n, self._param, 1)
        counts = counts.reshape((n, *(1,) * len(self.param_shape)))
        p = clamp_probs(self.probs)
        log_ways = (
            math.lgamma(n + 1) - ops.lgamma(counts + 1) - ops.lgamma(n + 1 - counts)
        )
        binomial = (log_ways + counts * p.log() + (n - counts) * ops.log1p(-p)).exp()
        cross = (binomial * ops.lgamma(counts + 1)).sum(0).sum(-1)
        return n * self._entropy() - math.lgamma(n + 1) + cross
