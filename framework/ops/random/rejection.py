"""Draws by rejection: gamma and Poisson distributions.

Each element proposes values from a stream of its own, whose key are two uniform draws,
until one is accepted. The draws are the same for a seed on every device but for rare
elements, where rounding decides a rejection.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...base.dtype import SINGLE, float32
from ...base.errors import DTypeError
from ...base.philox import Generator, philox
from ...dispatch.declare import elementwise
from ...eager.base_tensor import TensorCore
from ..elementwise.cast import cast, need_numbers
from ..elementwise.gamma import host_digamma, host_lgamma
from ..elementwise.unary import with_zero_gradient
from ..source import stream_for, uniform_like

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

MOST_PROPOSALS = 64
"""Proposals that an element makes at most; one is accepted with probability 0.75 or
more."""

KEYED = {"x": (float32,), "u": (float32,), "v": (float32,)}
"""Dtypes of parameters and keys; a draw has no more digits than float32."""

GAMMA, POISSON = 1, 2
"""Streams of an element's key."""


@functools.cache
def _quadrature() -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights of Gauss and Legendre's quadrature over [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    return (nodes + 1) / 2, weights / 2


def own_draws(u: np.ndarray, v: np.ndarray, number: int, stream: int) -> np.ndarray:
    """Return four uniform draws for each element, as `glsl/lib/math/draws.glsl`."""
    keys = [each.astype(np.float32).view(np.uint32) for each in (u, v)]
    counters = np.zeros((u.size, 4), np.uint32)
    counters[:, 0], counters[:, 1] = number, stream
    words = philox(counters, (keys[0], keys[1]))
    return (words >> np.uint32(8)).astype(np.float64) * 2.0**-24


def _host_gamma(x: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        a, u, v = (np.ravel(each) for each in np.broadcast_arrays(x, u, v))
        a = a.astype(np.float64)
        small = a < 1
        d = np.where(small, a + 1, a) - 1 / 3
        c = 1 / np.sqrt(9 * d)
        cube, waiting = np.ones(a.shape), np.flatnonzero(a > 0)
        for k in range(MOST_PROPOSALS):
            if not waiting.size:
                break
            draws = own_draws(u[waiting], v[waiting], k, GAMMA)
            radius = np.sqrt(-2 * np.log1p(-draws[:, 0]))
            normal = radius * np.cos(2 * np.pi * draws[:, 1])
            root = 1 + c[waiting] * normal
            proposal = root**3
            scale = d[waiting]
            bound = normal**2 / 2 + scale - scale * proposal + scale * np.log(proposal)
            accepted = (root > 0) & (np.log1p(-draws[:, 2]) < bound)
            cube[waiting] = proposal
            waiting = waiting[~accepted]
        drawn = d * cube
        w = 1 - own_draws(u, v, MOST_PROPOSALS, GAMMA)[:, 0]
        drawn = np.where(small, drawn * np.exp(np.log(w) / a), drawn)
        drawn = np.where(a > 0, drawn, np.where(a == 0, 0.0, np.nan))
    return drawn.reshape(np.broadcast_shapes(x.shape)).astype(x.dtype)


@elementwise(
    glsl="standard_gamma(x, u, v)",
    reference=_host_gamma,
    dtypes=KEYED,
)
def gamma_from_key(x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Return draws of concentration `x` and scale 1 from the keys `u` and `v`.

    Notes
    -----
    Source: Marsaglia and Tsang, A Simple Method for Generating Gamma Variables, 2000.
    """


@gamma_from_key.vjp
def gamma_from_key_vjp(
    grad: Tensor, x: Tensor, out: Tensor
) -> tuple[Tensor, None, None]:
    return grad * gamma_draw_slope(x, out), None, None


def _host_slope(x: np.ndarray, draw: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        a, y = np.broadcast_arrays(x.astype(np.float64), draw.astype(np.float64))
        apart = host_digamma(a) - np.log(y)
        below = y < np.maximum(a, 0.02)
        fall = 1 - np.where(y < a, y / a, a / y)
        span = np.minimum(18 / np.maximum(fall, 1e-30), 18 + 5.5 * np.sqrt(a))
        span = np.where(below & (y > a), 18 + y, span)
        length = np.where(below, span, np.log1p(span / y))
        total = np.zeros(a.shape)
        for node, weight in zip(*_quadrature()):
            t = length * node
            inside = (apart + t / a) * np.exp(-t - y * np.expm1(-t / a)) / a
            outside = (t - apart) * np.exp(a * t - y * np.expm1(t))
            total += weight * np.where(below, inside, outside)
        slope = length * y * total
        slope = np.where((a > 0) & (y > 0), slope, np.where(y == 0, 0.0, np.nan))
    return slope.astype(x.dtype)


@elementwise(
    glsl="gamma_draw_slope(x, draw)",
    reference=_host_slope,
    dtypes=SINGLE,
)
def gamma_draw_slope(x: Tensor, draw: Tensor) -> Tensor:
    """Return the derivative by the concentration `x` of a gamma draw of scale 1.

    The draw is taken to move so that its cumulative probability stays.

    Notes
    -----
    Source: Figurnov, Mohamed and Mnih, Implicit Reparameterization Gradients,
    arXiv:1805.08498. The derivative of the incomplete gamma function is integrated
    by Gauss and Legendre's rule, to 1e-6.
    """


def need_float(name: str, x: object) -> None:
    """Raise TypeError unless `x` is a tensor of floats."""
    if not isinstance(x, TensorCore):
        raise TypeError(f"{name}: x is a {type(x).__name__}; it must be a tensor")
    if not x.dtype.is_float:
        raise DTypeError(f"{name}: `x` is {x.dtype.name}; it must be a float dtype")


def keys_for(x: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
    """Return two uniform draws for each element of a shape."""
    first: Tensor = uniform_like(x, stream_for(x, generator), x.layout.shape, float32)
    second: Tensor = uniform_like(x, stream_for(x, generator), x.layout.shape, float32)
    return first, second


def draw_gamma(x: Tensor, generator: Generator | None = None) -> Tensor:
    """Return draws from gamma distributions of scale 1, differentiable.

    Parameters
    ----------
    x : Tensor, float
        Concentrations; NaN for negative ones.
    generator : Generator or None

    Returns
    -------
    Tensor, shape and dtype of `x`

    Raises
    ------
    TypeError
        If `x` is no float tensor.
    DomainError
        If, on the host, a rate is below 0 or NaN.
    """
    need_float("draw_gamma", x)
    u, v = keys_for(x, generator)
    return cast(gamma_from_key(cast(x, float32), u, v), x.dtype)


def _host_poisson(x: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        rate, u, v = (np.ravel(each) for each in np.broadcast_arrays(x, u, v))
        rate = rate.astype(np.float64)
        count = np.where(rate >= 0, np.floor(rate), np.nan)
        _count_products(rate, u, v, count)
        _transform_reject(rate, u, v, count)
        count = np.where(np.isfinite(rate), count, np.nan)
    return count.reshape(x.shape).astype(x.dtype)


def _count_products(
    rate: np.ndarray, u: np.ndarray, v: np.ndarray, count: np.ndarray
) -> None:
    """Fill in the counts of rates below 10."""
    waiting = np.flatnonzero((rate >= 0) & (rate < 10))
    product, taken = np.ones(rate.shape), np.full(rate.shape, -1.0)
    bound = np.exp(-rate)
    for k in range(MOST_PROPOSALS):
        if not waiting.size:
            return
        draws = 1 - own_draws(u[waiting], v[waiting], k, POISSON)
        for j in range(4):
            open_ = ~((product[waiting] < bound[waiting]) & (taken[waiting] >= 0))
            open_ &= ~((bound[waiting] == 1) & (taken[waiting] >= 0))
            product[waiting] *= np.where(open_, draws[:, j], 1.0)
            taken[waiting] += open_
        count[waiting] = taken[waiting]
        done = (product[waiting] < bound[waiting]) | (bound[waiting] == 1)
        waiting = waiting[~done]


def _transform_reject(
    rate: np.ndarray, u: np.ndarray, v: np.ndarray, count: np.ndarray
) -> None:
    """Fill in the counts of rates from 10 on."""
    waiting = np.flatnonzero((rate >= 10) & np.isfinite(rate))
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    log_inverse_alpha = np.log(1.1239 + 1.1328 / (b - 3.4))
    quick = 0.9277 - 3.6224 / (b - 2)
    for k in range(MOST_PROPOSALS):
        if not waiting.size:
            return
        draws = own_draws(u[waiting], v[waiting], k, POISSON)
        w, other = draws[:, 0] - 0.5, 1 - draws[:, 1]
        edge, mean = 0.5 - np.abs(w), rate[waiting]
        n = np.floor((2 * a[waiting] / edge + b[waiting]) * w + mean + 0.43)
        tested = np.log(other) + log_inverse_alpha[waiting]
        tested -= np.log(a[waiting] / edge**2 + b[waiting])
        chance = n * np.log(mean) - mean - host_lgamma(np.maximum(n, 0) + 1)
        inside = (n >= 0) & ~((edge < 0.013) & (other > edge))
        accepted = (edge >= 0.07) & (other <= quick[waiting])
        accepted |= inside & (tested <= chance)
        count[waiting[accepted]] = n[accepted]
        waiting = waiting[~accepted]


@elementwise(
    glsl="poisson_draw(x, u, v)",
    reference=_host_poisson,
    dtypes=KEYED,
)
def poisson_from_key(x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Return Poisson draws of rate `x` from the keys `u` and `v`."""


@shown_as("PoissonBackward0", "x")
def poisson(x: Tensor, generator: Generator | None = None) -> Tensor:
    """Return draws from Poisson distributions.

    Parameters
    ----------
    x : Tensor, float
        Rates, at least 0; a device gives NaN for others.
    generator : Generator or None

    Returns
    -------
    Tensor, shape and dtype of `x`
        Whole numbers. Their gradient is 0.

    Raises
    ------
    TypeError
        If `x` is no float tensor.

    Notes
    -----
    Source: Hormann, The Transformed Rejection Method for Generating Poisson Random
    Variables, 1993, for rates from 10 on.
    """
    need_float("poisson", x)
    rate = x.detach()
    if x.is_cpu:
        need_numbers("poisson", x, x.host_view() >= 0, "rates are at least 0")
    u, v = keys_for(rate, generator)
    drawn = cast(poisson_from_key(cast(rate, float32), u, v), x.dtype)
    return with_zero_gradient(drawn, x)
