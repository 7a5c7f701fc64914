"""Rows of the op table for special functions and draws by rejection."""

import math
from typing import Any

import numpy as np
import torch
from scipy import integrate, special

import vkbackend.framework as fw
from tests.case import Bad, Case, Draw, Sample
from tests.elementwise_cases import binary, unary
from vkbackend.framework.base import philox
from vkbackend.framework.base.errors import DomainError
from vkbackend.framework.dispatch.op import REGISTRY

SHAPES = (
    ((7, 11), (7, 11)),
    ((3, 1, 11), (7, 1)),
    ((4, 8), (8,)),
    ((0, 3), (3,)),
    ((1,), (1,)),
)


def pair(
    name: str, bounds: tuple[float, float], other: tuple[float, float], **options: Any
) -> Case:
    """Return the row of an op of two tensors with bounds of their own."""
    samples = tuple(
        Sample((Draw(first, *bounds), Draw(second, *other))) for first, second in SHAPES
    )
    return Case(REGISTRY[name], samples, **options)


def keyed(name: str, oracle: Any, low: float, high: float) -> Case:
    """Return the row of draws from keys, which have no derivative to difference."""
    samples = tuple(
        Sample((Draw(shape, low, high), *(Draw(shape, 0, 1, "float32"),) * 2))
        for shape in ((7, 11), (0, 3), (5,), (1,))
    )
    each = np.vectorize(oracle, otypes=[float])

    def drawn(x: np.ndarray, *keys: np.ndarray) -> np.ndarray:
        return each(x, *keys).astype(x.dtype)

    return Case(REGISTRY[name], samples, drawn, None, gradient=False, scale=8)


def in_float64(function: Any) -> Any:
    """Return a function of SciPy that computes in float64."""

    def rounded(*arrays: np.ndarray) -> np.ndarray:
        wide = (each.astype(np.float64) for each in arrays)
        return function(*wide).astype(arrays[0].dtype)

    return rounded


def in_float32(function: Any) -> Any:
    """Return a function of PyTorch that takes 2-byte floats too."""

    def rounded(*tensors: torch.Tensor) -> torch.Tensor:
        dtype = tensors[0].dtype
        wide = dtype if dtype.itemsize > 2 else torch.float32
        return function(*(each.to(wide) for each in tensors)).to(dtype)

    return rounded


def slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the derivative of a gamma draw, by many steps of Simpson's rule."""
    a, x = (each[..., None] for each in np.broadcast_arrays(a, x))
    if a.size == 0:
        return a[..., 0] * x[..., 0]
    s = np.linspace(0, 1, 10_001) * 60 / a
    density = np.exp(-a * s - x * np.expm1(-s))
    values = (special.digamma(a) - np.log(x) + s) * density
    return integrate.simpson(values, x=s) * x[..., 0]


def block(u: float, v: float, number: int, stream: int) -> list[float]:
    """Return four uniform draws of an element's stream."""
    key = tuple(int(np.float32(each).view(np.uint32)) for each in (u, v))
    words = philox.philox(np.array([[number, stream, 0, 0]], np.uint32), key)
    return [int(word >> 8) / 2**24 for word in words[0]]


def gamma_draw(a: float, u: float, v: float) -> float:
    """Return one draw by Marsaglia and Tsang's method."""
    d = (a + 1 if a < 1 else a) - 1 / 3
    for number in range(64):
        first, second, third, _ = block(u, v, number, 1)
        normal = math.sqrt(-2 * math.log1p(-first)) * math.cos(2 * math.pi * second)
        cube = (1 + normal / math.sqrt(9 * d)) ** 3
        if cube <= 0:
            continue
        if math.log1p(-third) < normal**2 / 2 + d * (1 - cube + math.log(cube)):
            break
    boost = (1 - block(u, v, 64, 1)[0]) ** (1 / a) if a < 1 else 1.0
    return d * cube * boost


def log_chance(count: float, prob: float, k: float) -> float:
    """Return the logarithm of the probability of `k` successes."""
    rest = count - k
    ways = math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(rest + 1)
    return ways + k * math.log(prob) + rest * math.log1p(-prob)


def binomial_draw(count: float, prob: float, u: float, v: float) -> float:
    """Return one draw by Hormann's transformed rejection, or by waiting."""
    if prob > 0.5:
        return count - binomial_draw(count, 1 - prob, u, v)
    mean = count * prob
    if mean < 10:
        passed, found = 0, 0
        for drawn in (each for k in range(64) for each in block(u, v, k, 3)):
            passed += max(math.ceil(math.log1p(-drawn) / math.log1p(-prob)), 1)
            if passed > count:
                return found
            found += 1
    deviation = math.sqrt(mean * (1 - prob))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    mode = math.floor((count + 1) * prob)
    for number in range(64):
        first, second, *_ = block(u, v, number, 3)
        w, other = first - 0.5, 1 - second
        edge = 0.5 - abs(w)
        k = math.floor((2 * a / edge + b) * w + mean + 0.5)
        if not 0 <= k <= count:
            continue
        if edge >= 0.07 and other <= 0.92 - 4.2 / b:
            return k
        tested = other * (2.83 + 5.1 / b) * deviation / (a / edge**2 + b)
        if math.log(tested) <= log_chance(count, prob, k) - log_chance(
            count, prob, mode
        ):
            return k
    return mode


def poisson_draw(rate: float, u: float, v: float) -> float:
    """Return one draw by Hormann's transformed rejection, or by products."""
    if rate < 10:
        product, count = 1.0, -1
        for number in range(64):
            for drawn in block(u, v, number, 2):
                product, count = product * (1 - drawn), count + 1
                if product < math.exp(-rate):
                    return count
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    for number in range(64):
        first, second, *_ = block(u, v, number, 2)
        w, other = first - 0.5, 1 - second
        edge = 0.5 - abs(w)
        count = math.floor((2 * a / edge + b) * w + rate + 0.43)
        if edge >= 0.07 and other <= 0.9277 - 3.6224 / (b - 2):
            return count
        if count < 0 or (edge < 0.013 and other > edge):
            continue
        tested = math.log(other * (1.1239 + 1.1328 / (b - 3.4)) / (a / edge**2 + b))
        if tested <= count * math.log(rate) - rate - math.lgamma(count + 1):
            return count
    return math.floor(rate)


def polynomials(x: np.ndarray, n: np.ndarray, family: float) -> np.ndarray:
    """Return orthogonal polynomials by SciPy."""
    degree, z = np.trunc(n.astype(np.float64)), x.astype(np.float64)
    kinds = {
        0: special.eval_chebyt,
        1: special.eval_chebyu,
        4: special.eval_hermite,
        5: special.eval_hermitenorm,
        6: special.eval_laguerre,
        7: special.eval_legendre,
        8: lambda k, z: special.eval_chebyt(k, 2 * z - 1),
    }
    found = kinds[int(family)](np.maximum(degree, 0).astype(int), z)
    return np.where(degree < 0, 0, found).astype(x.dtype)


SPECIAL = {
    "lgamma": unary("lgamma", in_float64(special.gammaln), torch.lgamma, 0.3, 9),
    # The second derivative of PyTorch's is 5e-10 off in float64.
    "digamma": unary("digamma", in_float64(special.digamma), None, 0.5, 9),
    "erfinv": unary("erfinv", in_float64(special.erfinv), torch.erfinv, -0.9, 0.9),
    "ndtri": unary(
        "ndtri", in_float64(special.ndtri), in_float32(torch.special.ndtri), 0.05, 0.95
    ),
    "i0": unary("i0", in_float64(special.i0), torch.special.i0, -3, 3),
    "i0e": unary("i0e", in_float64(special.i0e), torch.special.i0e, 0.2, 3),
    "i1": unary("i1", in_float64(special.i1), torch.special.i1, -3, 3),
    "i1e": unary("i1e", in_float64(special.i1e), torch.special.i1e, 0.2, 3),
    # PyTorch has no gradients of these.
    "bessel_j0": unary("bessel_j0", in_float64(special.j0), None, -6, 6),
    "bessel_j1": unary("bessel_j1", in_float64(special.j1), None, -6, 6),
    "bessel_y0": unary("bessel_y0", in_float64(special.y0), None, 0.5, 6),
    "bessel_y1": unary("bessel_y1", in_float64(special.y1), None, 0.5, 6),
    **{
        f"{scaled}modified_bessel_k{order}": unary(
            f"{scaled}modified_bessel_k{order}", in_float64(function), None, 0.5, 4
        )
        for scaled, order, function in (
            ("", 0, special.k0),
            ("", 1, special.k1),
            ("scaled_", 0, special.k0e),
            ("scaled_", 1, special.k1e),
        )
    },
    "airy_ai": unary(
        "airy_ai", in_float64(lambda x: special.airy(x)[0]), None, -4, 3, gradient=False
    ),
    # PyTorch has no gradient by the first argument either.
    "zeta": pair(
        "zeta", (1.5, 5), (0.5, 4),
        numpy=in_float64(special.zeta), torch=in_float32(torch.special.zeta),
        gradient=False,
    ),
    "orthogonal_polynomial": Case(
        lambda x, n, family: REGISTRY["orthogonal_polynomial"](x, n, family),
        tuple(
            Sample((Draw(shape, -1, 1), Draw(other, -2, 9)), {"family": float(family)})
            for shape, other, family in (
                ((7, 11), (7, 11), 0),
                ((5, 1), (1, 113), 7),
                ((4, 8), (4, 8), 8),
                ((3, 5), (3, 5), 4),
                ((3, 5), (5,), 6),
                ((0, 3), (0, 3), 1),
                ((1,), (1,), 5),
            )
        ),
        polynomials,
        scale=400,  # differences of terms up to 2^8, and to 3^8 of other families
        gradient=False,
        bad=(
            Bad(
                lambda ones: fw.special.hermite_polynomial_h(ones(2), 10_001),
                DomainError,
                "hermite_polynomial_h: a degree is 10001; it must be at most 10000",
            ),
        ),
    ),
    "igamma": pair(
        "igamma", (0.5, 9), (0.2, 9),
        numpy=in_float64(special.gammainc), torch=in_float32(torch.igamma),
        gradient=False,
    ),
    "igammac": pair(
        "igammac", (0.5, 9), (0.2, 9),
        numpy=in_float64(special.gammaincc), torch=in_float32(torch.igammac),
        gradient=False,
    ),
    "xlogy": pair(
        "xlogy", (-2, 2), (0.3, 4),
        numpy=in_float64(special.xlogy), torch=in_float32(torch.xlogy)
    ),
    "xlog1py": pair(
        "xlog1py", (-2, 2), (-0.7, 4),
        numpy=in_float64(special.xlog1py), torch=in_float32(torch.special.xlog1py)
    ),
    "erfcx": unary(
        "erfcx", in_float64(special.erfcx), in_float32(torch.special.erfcx), -2, 6
    ),
    "log_ndtr": unary(
        "log_ndtr", in_float64(special.log_ndtr), in_float32(torch.special.log_ndtr),
        -9, 2,
    ),
    "log_add_exp": binary(
        "log_add_exp", in_float64(np.logaddexp), in_float32(torch.logaddexp), -9, 9
    ),
    "log_add_exp2": binary(
        "log_add_exp2", in_float64(np.logaddexp2), in_float32(torch.logaddexp2), -9, 9
    ),
    "sine_quotient": unary(
        "sine_quotient", in_float64(lambda x: special.spherical_jn(0, x)),
        None, -9, 9,
    ),
    "normalized_sinc": unary(
        "normalized_sinc", in_float64(np.sinc), in_float32(torch.sinc), -9, 9
    ),
    # PyTorch's own is 1e-9 off in float64.
    "trigamma": unary(
        "trigamma", in_float64(lambda x: special.polygamma(1, x)), None, 0.5, 9
    ),
    "entropy_term": unary(
        "entropy_term", in_float64(special.entr), in_float32(torch.special.entr), 0.1, 3
    ),
    "sine_quotient_slope": unary(
        "sine_quotient_slope",
        in_float64(lambda x: -np.sign(x) * special.spherical_jn(1, np.abs(x))),
        None, -9, 9,
    ),
    "gamma_from_key": keyed("gamma_from_key", gamma_draw, 0.3, 20),
    "poisson_from_key": keyed("poisson_from_key", poisson_draw, 0.3, 40),
    "binomial_from_key": Case(
        REGISTRY["binomial_from_key"],
        tuple(
            Sample((Draw(each, 0, 60), *(Draw(each, 0, 1, "float32"),) * 3))
            for each in ((7, 11), (0, 3), (1,))
        ),
        np.vectorize(binomial_draw, otypes=[np.float32]),
        None, gradient=False, scale=8,
    ),
    # PyTorch's own is 5e-4 off in places.
    "gamma_draw_slope": pair(
        "gamma_draw_slope", (2, 9), (2, 9), numpy=in_float64(slope), torch=None,
        gradient=False, scale=4,  # a sum of twenty terms
    ),
}  # fmt: skip
