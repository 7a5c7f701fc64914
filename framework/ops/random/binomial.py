"""Draws from binomial distributions, by rejection, as `rejection` has others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import float32
from ...base.errors import DTypeError
from ...base.philox import Generator
from ...base.shape import broadcast_shapes
from ...dispatch.declare import elementwise
from ...eager.base_tensor import need_tensors
from ..elementwise.cast import cast
from ..elementwise.gamma import host_lgamma
from ..view import expand
from .rejection import MOST_PROPOSALS, keys_for, own_draws

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

BINOMIAL = 3
"""Stream of an element's key."""

FEW = 10
"""Successes, or failures, to be expected below which each is waited for."""


def _host_binomial(
    x: np.ndarray, y: np.ndarray, u: np.ndarray, v: np.ndarray
) -> np.ndarray:
    shape = np.broadcast_shapes(x.shape, y.shape, u.shape, v.shape)
    with np.errstate(all="ignore"):
        given = (np.ravel(each) for each in np.broadcast_arrays(x, y, u, v))
        count, prob, u, v = given
        count, prob = count.astype(np.float64), prob.astype(np.float64)
        rare = np.minimum(prob, 1 - prob)
        drawn = np.floor((count + 1) * rare)
        known = (count < np.inf) & (count > 0) & (rare > 0)
        few = count * rare < FEW
        _wait(np.flatnonzero(known & few), count, rare, (u, v), drawn)
        _reject(np.flatnonzero(known & ~few), count, rare, (u, v), drawn)
        drawn = np.where(prob > 0.5, count - drawn, drawn)
        drawn = np.where(known, drawn, np.nan)
        drawn = np.where(prob >= 1, count, drawn)
        drawn = np.where((count <= 0) | (prob <= 0), 0.0, drawn)
    return drawn.reshape(shape).astype(x.dtype)


def _wait(
    waiting: np.ndarray,
    count: np.ndarray,
    rare: np.ndarray,
    keys: tuple[np.ndarray, np.ndarray],
    drawn: np.ndarray,
) -> None:
    """Count successes by the numbers of trials from one to the next."""
    passed, drawn[waiting] = np.zeros(count.shape), 0
    for k in range(MOST_PROPOSALS):
        if not waiting.size:
            return
        draws = 1 - own_draws(keys[0][waiting], keys[1][waiting], k, BINOMIAL)
        steps = np.ceil(np.log(draws) / np.log1p(-rare[waiting])[:, None])
        for step in np.fmax(steps, 1).T:
            passed[waiting] += step
            drawn[waiting] += passed[waiting] <= count[waiting]
        waiting = waiting[passed[waiting] <= count[waiting]]


def _log_chance(count: np.ndarray, rare: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Return the logarithm of the probability of `k` successes."""
    rest = count - k
    ways = host_lgamma(count + 1) - host_lgamma(k + 1) - host_lgamma(rest + 1)
    chance: np.ndarray = ways + k * np.log(rare) + rest * np.log1p(-rare)
    return chance


def _reject(
    waiting: np.ndarray,
    count: np.ndarray,
    rare: np.ndarray,
    keys: tuple[np.ndarray, np.ndarray],
    drawn: np.ndarray,
) -> None:
    """Propose numbers until one is taken; the most probable ones are there before."""
    deviation = np.sqrt(count * rare * (1 - rare))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * rare
    alpha = (2.83 + 5.1 / b) * deviation
    mode = drawn.copy()
    for k in range(MOST_PROPOSALS):
        if not waiting.size:
            return
        at = waiting
        draws = own_draws(keys[0][at], keys[1][at], k, BINOMIAL)
        w, other = draws[:, 0] - 0.5, 1 - draws[:, 1]
        edge, n, p = 0.5 - np.abs(w), count[at], rare[at]
        proposal = np.floor((2 * a[at] / edge + b[at]) * w + n * p + 0.5)
        tested = np.log(other * alpha[at] / (a[at] / edge**2 + b[at]))
        inside = (proposal >= 0) & (proposal <= n)
        chance = _log_chance(n, p, np.where(inside, proposal, 0))
        accepted = (edge >= 0.07) & (other <= 0.92 - 4.2 / b[at])
        accepted |= tested <= chance - _log_chance(n, p, mode[at])
        accepted &= inside
        drawn[at[accepted]] = proposal[accepted]
        waiting = at[~accepted]


@elementwise(
    glsl="binomial_draw(x, y, u, v)",
    reference=_host_binomial,
    dtypes={name: (float32,) for name in "xyuv"},
)
def binomial_from_key(x: Tensor, y: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Return draws of `x` trials that succeed with probability `y`, from two keys.

    Notes
    -----
    Source: Hormann, The Generation of Binomial Random Variates, 1993 (algorithm BTRS),
    where 10 successes and failures are to be expected.
    """


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Return numbers of successes among independent trials, without a gradient.

    Parameters
    ----------
    count : Tensor of a float dtype
        Numbers of trials.
    prob : Tensor, broadcast with `count`, same dtype
        Probabilities of success; those below 0 count as 0, those above 1 as 1.
    generator : Generator, optional
        Where the draws come from; None means the default one.

    Returns
    -------
    Tensor, shape of both, dtype of `count`

    Raises
    ------
    DTypeError
        If the dtypes differ or are none of floats.

    Notes
    -----
    Computed in float32, so numbers from 2^24 on are rounded. The draws are other
    numbers than PyTorch's for one seed.
    """
    need_tensors("binomial", count=count, prob=prob)
    if count.dtype is not prob.dtype or not count.dtype.is_floating_point:
        raise DTypeError(
            f"binomial: `count` is {count.dtype}, `prob` {prob.dtype}; both must be of"
            " one float dtype"
        )
    trials, chance = count.detach(), prob.detach()
    shape = broadcast_shapes("binomial", count.layout.shape, prob.layout.shape)
    u, v = keys_for(expand(trials, shape), generator)
    drawn = binomial_from_key(cast(trials, float32), cast(chance, float32), u, v)
    return cast(drawn, count.dtype)
