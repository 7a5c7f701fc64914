"""Divergences between families: minus the entropy and the mean of the other density.

The mean of log q under p is known where q has a density of moments that p has. It is
minus infinity where p has values that q has not.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..tensor.tensor import Tensor
from .bernoulli import Bernoulli, Binomial, ContinuousBernoulli
from .beta import Beta
from .distribution import LOG_2_PI, Distribution, filled
from .gamma import Exponential, Gamma
from .kl import register_kl
from .location_scale import Gumbel, Laplace, Uniform
from .normal import Normal
from .poisson import Poisson
from .transformed import Pareto

OUTSIDE: dict[type[Distribution], tuple[type[Distribution], ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}
"""Families that have none of some values of the first."""


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    both = p.mean + q.mean
    return filled(math.inf, both)


for _first, _others in OUTSIDE.items():
    for _other in _others:
        register_kl(_first, _other)(_infinite)


def _mean_of_log(p: Any) -> Tensor:
    """Return the mean of log x."""
    if isinstance(p, Beta):
        total = p.concentration1 + p.concentration0
        return ops.digamma(p.concentration1) - ops.digamma(total)
    if isinstance(p, Pareto):
        return p.scale.log() + 1 / p.alpha
    ends = ops.xlogy(p.high, p.high) - ops.xlogy(p.low, p.low)
    result: Tensor = ends / (p.high - p.low) - 1
    return result


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    found = -p.entropy() - p.mean * q.logits - ops.log1p(-q.probs) - q._log_norm
    if isinstance(p, Uniform):
        return ops.where((p.low < 0) | (p.high > 1), math.inf, found)
    result: Tensor = found
    return result


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Pareto, Exponential)
@register_kl(Uniform, Exponential)
def _to_exponential(p: Any, q: Exponential) -> Tensor:
    found = -p.entropy() - q.rate.log() + q.rate * p.mean
    return ops.where(p.low < 0, math.inf, found) if isinstance(p, Uniform) else found


@register_kl(Beta, Gamma)
@register_kl(Pareto, Gamma)
@register_kl(Uniform, Gamma)
def _to_gamma(p: Any, q: Gamma) -> Tensor:
    norm = ops.lgamma(q.concentration) - q.concentration * q.rate.log()
    power = (q.concentration - 1) * _mean_of_log(p)
    found = -p.entropy() + norm - power + q.rate * p.mean
    return ops.where(p.low < 0, math.inf, found) if isinstance(p, Uniform) else found


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Pareto, Normal)
def _to_normal(p: Any, q: Normal) -> Tensor:
    spread = p.variance + (p.mean - q.loc).square()
    norm = 0.5 * LOG_2_PI + q.scale.log()
    found = -p.entropy() + norm + 0.5 * spread / q.scale.square()
    return ops.where(p.alpha <= 2, math.inf, found) if isinstance(p, Pareto) else found


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    apart = p.loc - q.loc
    ratio = apart / p.scale
    bell = math.sqrt(2 / math.pi) * p.scale * (-0.5 * ratio.square()).exp()
    distance = bell + apart * ops.erf(math.sqrt(0.5) * ratio)
    return -p.entropy() + (2 * q.scale).log() + distance / q.scale


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _to_gumbel(p: Any, q: Gumbel) -> Tensor:
    # The mean of exp(-x / scale), shifted
    if isinstance(p, Normal):
        moved = (q.loc - p.loc) / q.scale + 0.5 * (p.scale / q.scale).square()
        mean = moved.exp()
    elif isinstance(p, Uniform):
        ends = [((q.loc - end) / q.scale).exp() for end in (p.low, p.high)]
        mean = q.scale * (ends[0] - ends[1]) / (p.high - p.low)
    else:
        count = p.concentration if isinstance(p, Gamma) else 1.0
        decay = ops.log1p(1 / (q.scale * p.rate))
        mean = (q.loc / q.scale - count * decay).exp()
    result: Tensor = -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + mean
    return result


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    one, two = q.concentration1, q.concentration0
    norm = ops.lgamma(one) + ops.lgamma(two) - ops.lgamma(one + two)
    rest = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    powers = (one - 1) * _mean_of_log(p) + (two - 1) * _mean_of_log(rest)
    found = -p.entropy() + norm - powers
    return ops.where((p.low < 0) | (p.high > 1), math.inf, found)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _to_uniform(p: Any, q: Uniform) -> Tensor:
    found = -p.entropy() + (q.high - q.low).log()
    return ops.where((q.low > 0) | (q.high < 1), math.inf, found)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    norm = q.alpha.log() + q.alpha * q.scale.log()
    found = -p.entropy() - norm + (q.alpha + 1) * _mean_of_log(p)
    return ops.where(p.low < q.scale, math.inf, found)
