"""Kullback-Leibler divergences, by pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .. import ops
from ..base.shape import broadcast_shapes
from ..ops import linear_algebra as linalg
from ..tensor.tensor import Tensor
from .bernoulli import Bernoulli, Binomial, ContinuousBernoulli, Geometric
from .beta import Beta, Dirichlet
from .categorical import Categorical, OneHotCategorical
from .derived import Independent, TransformedDistribution
from .distribution import EULER, Distribution, counted, filled, softplus, sum_rightmost
from .gamma import Exponential, Gamma, InverseGamma
from .location_scale import Cauchy, Gumbel, HalfCauchy, Laplace, Uniform
from .multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    log_diagonal,
    squared_distance,
)
from .normal import HalfNormal, Normal
from .poisson import Poisson
from .transformed import LogNormal, Pareto
from .wishart import Wishart

Rule = Callable[[Any, Any], Tensor]
RULES: dict[tuple[type, type], Rule] = {}
"""Rule of each pair of classes; those of base classes serve derived ones."""


OTHER_DENSITIES = (HalfCauchy, HalfNormal, InverseGamma)
"""Classes whose densities are not those of their bases, whose rules are not theirs."""


def _lineage(kind: type) -> list[type]:
    """Return a class and the bases whose rules serve it."""
    found = []
    for each in kind.__mro__:
        found.append(each)
        if each in OTHER_DENSITIES:
            break
    return found


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """Return a decorator that declares the divergence of a pair of classes.

    Parameters
    ----------
    type_p, type_q : type
        Classes of the distributions that the decorated function takes, in this order.

    Raises
    ------
    TypeError
        If one is no class; one of another base than `Distribution` may be mixed in.
    """
    for each in (type_p, type_q):
        if not isinstance(each, type):
            raise TypeError(
                f"register_kl: {each!r} is no class of distributions; both must be"
            )

    def declare(rule: Rule) -> Rule:
        RULES[type_p, type_q] = rule
        return rule

    return declare


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the divergence of `q` from `p`, in nats: mean of log p - log q under p.

    Parameters
    ----------
    p, q : Distribution

    Returns
    -------
    Tensor, shape (batch...)

    Raises
    ------
    NotImplementedError
        If no rule is registered for the two classes.
    """
    for first in _lineage(type(p)):
        for second in _lineage(type(q)):
            rule = RULES.get((first, second))
            if rule is not None:
                return rule(p, q)
    raise NotImplementedError(
        f"kl_divergence: there is no rule for {type(p).__name__} and"
        f" {type(q).__name__}; declare one with register_kl"
    )


def _infinite(like: Tensor) -> Tensor:
    return filled(math.inf, like)


@register_kl(Normal, Normal)
def _normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    apart = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + apart - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal_half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal_normal(p, q)


@register_kl(LogNormal, LogNormal)
def _log_normal_log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    return _normal_normal(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    # Of a certain outcome the other term is 0.
    one = ops.xlogy(p.probs, p.probs) + p.probs * softplus(-q.logits)
    rest = 1 - p.probs
    return one + ops.xlogy(rest, rest) + rest * softplus(q.logits)


@register_kl(Binomial, Binomial)
def _binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    more = p.total_count > q.total_count
    per_trial = (
        p.probs * (p.logits - q.logits) + ops.log1p(-p.probs) - ops.log1p(-q.probs)
    )
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError(
            "kl_divergence: p has fewer trials than q; they must be as many or more"
        )
    return ops.where(more, math.inf, p.total_count * per_trial)


@register_kl(Categorical, Categorical)
def _categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = ops.where((q.probs == 0).expand(terms.shape), math.inf, terms)
    terms = ops.where((p.probs == 0).expand(terms.shape), 0.0, terms)
    return terms.sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    first = Categorical(logits=p.logits, validate_args=False)
    return _categorical_categorical(
        first, Categorical(logits=q.logits, validate_args=False)
    )


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_continuous(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    slope = p.mean * (p.logits - q.logits)
    start = p._log_norm + ops.log1p(-p.probs) - q._log_norm - ops.log1p(-q.probs)
    return slope + start


@register_kl(Geometric, Geometric)
def _geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Exponential, Exponential)
def _exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(InverseGamma, InverseGamma)
@register_kl(Gamma, Gamma)
def _gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    return (
        q.concentration * (p.rate / q.rate).log()
        + ops.lgamma(q.concentration)
        - ops.lgamma(p.concentration)
        + (p.concentration - q.concentration) * ops.digamma(p.concentration)
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    one = filled(1, p.rate)
    return _gamma_gamma(Gamma(one, p.rate, validate_args=False), q)


@register_kl(Gamma, Exponential)
def _gamma_exponential(p: Gamma, q: Exponential) -> Tensor:
    one = filled(1, q.rate)
    return _gamma_gamma(p, Gamma(one, q.rate, validate_args=False))


@register_kl(Beta, Beta)
def _beta_beta(p: Beta, q: Beta) -> Tensor:
    total_p = p.concentration1 + p.concentration0
    total_q = q.concentration1 + q.concentration0
    norm = (
        ops.lgamma(q.concentration1)
        + ops.lgamma(q.concentration0)
        + ops.lgamma(total_p)
        - ops.lgamma(p.concentration1)
        - ops.lgamma(p.concentration0)
        - ops.lgamma(total_q)
    )
    first = (p.concentration1 - q.concentration1) * ops.digamma(p.concentration1)
    second = (p.concentration0 - q.concentration0) * ops.digamma(p.concentration0)
    return norm + first + second + (total_q - total_p) * ops.digamma(total_p)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    each = ops.lgamma(p.concentration) - ops.lgamma(q.concentration)
    apart = ops.digamma(p.concentration) - ops.digamma(total_p).unsqueeze(-1)
    return (
        ops.lgamma(total_p)
        - ops.lgamma(total_q)
        - each.sum(-1)
        + ((p.concentration - q.concentration) * apart).sum(-1)
    )


@register_kl(Laplace, Laplace)
def _laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = p.scale / q.scale
    apart = (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    both = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return both.log() - (4 * p.scale * q.scale).log()


@register_kl(HalfCauchy, HalfCauchy)
def _half_cauchy_half_cauchy(p: HalfCauchy, q: HalfCauchy) -> Tensor:
    # Both halves of the whole one are the same.
    both = (p.scale + q.scale).square()
    return both.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    apart, own = q.loc / q.scale, p.loc / q.scale
    moved = (apart + ops.lgamma(1 + ratio) - own).exp()
    return -ratio.log() - apart + own + ratio * EULER + moved - (1 + EULER)


@register_kl(Uniform, Uniform)
def _uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(Uniform, Normal)
def _uniform_normal(p: Uniform, q: Normal) -> Tensor:
    length = p.high - p.low
    spread = length.square() / 12 + ((p.high + p.low) / 2 - q.loc).square()
    norm = 0.5 * math.log(2 * math.pi) + q.scale.log() - length.log()
    return norm + 0.5 * spread / q.scale.square()


@register_kl(Laplace, Normal)
def _laplace_normal(p: Laplace, q: Normal) -> Tensor:
    variance = q.scale.square()
    ratio = p.scale.square() / variance
    apart = 0.5 * (p.loc - q.loc).square() / variance
    return (
        -(2 * p.scale).log()
        - 1
        + 0.5 * math.log(2 * math.pi)
        + q.scale.log()
        + (ratio + apart)
    )


@register_kl(Pareto, Pareto)
def _pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return ops.where(p.scale < q.scale, math.inf, result)


@register_kl(Independent, Independent)
def _independent_independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            f"kl_divergence: p reinterprets {p.reinterpreted_batch_ndims} dimensions,"
            f" q {q.reinterpreted_batch_ndims}; they must be as many"
        )
    inner = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(inner, p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed_transformed(
    p: TransformedDistribution, q: TransformedDistribution
) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "kl_divergence: the transforms of p and q differ; they must be equal"
        )
    return kl_divergence(p.base_dist, q.base_dist)


Vectors = MultivariateNormal | LowRankMultivariateNormal


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _vectors_vectors(p: Vectors, q: Vectors) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"kl_divergence: p is over {p.event_shape}, q over {q.event_shape}; they"
            " must be the same"
        )
    one, two = p.scale_tril, q.scale_tril
    batch = broadcast_shapes("kl_divergence", p.batch_shape, q.batch_shape)
    shape = (*batch, *one.shape[-2:])
    whitened = linalg.solve_triangular(two, one.expand(shape), upper=False)
    trace = whitened.square().sum((-2, -1))
    distance = squared_distance(two, q.loc - p.loc)
    halves = log_diagonal(two) - log_diagonal(one)
    return halves + 0.5 * (trace + distance - p.event_shape[0])


@register_kl(Wishart, Wishart)
def _wishart_wishart(p: Wishart, q: Wishart) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"kl_divergence: p is over {p.event_shape}, q over {q.event_shape}; they"
            " must be the same"
        )
    size = p.event_shape[-1]
    one, two = p.scale_tril, q.scale_tril
    batch = broadcast_shapes("kl_divergence", p.batch_shape, q.batch_shape)
    shape = (*batch, size, size)
    whitened = linalg.solve_triangular(two, one.expand(shape), upper=False)
    trace = whitened.square().sum((-2, -1))
    halves = p.df.unsqueeze(-1) / 2 - counted(size, p.df) / 2
    slope = (p.df - q.df) / 2 * ops.digamma(halves).sum(-1)
    norm = ops.mvlgamma(q.df / 2, size) - ops.mvlgamma(p.df / 2, size)
    scales = q.df * (log_diagonal(two) - log_diagonal(one))
    result: Tensor = scales + p.df / 2 * (trace - size) + norm + slope
    return result
