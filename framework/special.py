"""Special functions, under PyTorch's names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import ops
from .autograd.engine import is_grad_enabled
from .autograd.tape import shown_as
from .base.device import GpuDevice
from .base.dtype import FLOAT, default_dtype, float32, float64
from .base.errors import DomainError, DTypeError
from .dispatch.keywords import takes_keywords
from .ops.elementwise import special as _special
from .ops.elementwise.bessel import i0, i0e, i1, i1e
from .ops.elementwise.cylinder import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
)
from .ops.elementwise.exponential import entropy_term, xlog1py
from .ops.elementwise.gamma import zeta
from .ops.elementwise.orthogonal import (
    FAMILIES,
    MOST_DEGREE,
    orthogonal_polynomial,
)
from .ops.elementwise.special import erfcx
from .ops.elementwise.trigonometric import sine_quotient
from .tensor.tensor import Tensor

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

digamma = psi = ops.digamma
erf = ops.erf
erfc = ops.erfc
erfinv = ops.erfinv
exp2 = ops.exp2
expit = ops.sigmoid
expm1 = ops.expm1
gammainc = ops.igamma
gammaincc = ops.igammac
gammaln = ops.lgamma
log1p = ops.log1p
logit = ops.logit
logsumexp = ops.logsumexp
modified_bessel_i0 = i0
modified_bessel_i1 = i1
multigammaln = ops.mvlgamma
polygamma = ops.polygamma
round = ops.round
sinc = ops.sinc
xlogy = ops.xlogy


def _fractional(x: Tensor) -> Tensor:
    return x if x.dtype.is_differentiable else ops.cast(x, float32)


@takes_keywords
def log_ndtr(input: Tensor) -> Tensor:
    """Return logarithms of the normal distribution function; integers as float32.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype but complex.
    """
    return _special.log_ndtr(_fractional(input))


@takes_keywords
def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Return exponentials normalised to sum to one along a dimension.

    Parameters
    ----------
    input : Tensor, float
    dim : int
    dtype : DType, str or None
        To cast to first; None keeps that of `input`.
    """
    return ops.softmax(input, dim, dtype=dtype)


@takes_keywords
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Return the logarithm of `softmax`, without overflow.

    Parameters
    ----------
    input : Tensor, float
    dim : int
    dtype : DType, str or None
        To cast to first; None keeps that of `input`.
    """
    return ops.log_softmax(input, dim, dtype=dtype)


@takes_keywords
@shown_as("SpecialEntrBackward0", "input")
def entr(input: Tensor) -> Tensor:
    """Return -x log(x); 0 at 0, minus infinity below.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype but complex; integers and bools are converted to the default dtype.
    """
    return entropy_term(_fractional(input))


@takes_keywords
def ndtr(input: Tensor) -> Tensor:
    """Return the probability that a standard normal number is at most `input`.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype but complex; integers and bools are converted to the default dtype.
    """
    return ops.erfc(_fractional(input) * -math.sqrt(0.5)) * 0.5


@takes_keywords
def ndtri(input: Tensor) -> Tensor:
    """Return the quantile of the standard normal distribution, inverse of `ndtr`.

    Parameters
    ----------
    input : Tensor, any shape
        Probabilities; NaN below 0 and above 1. Any dtype but complex; integers and
        bools are converted to the default dtype.
    """
    return _special.ndtri(_fractional(input))


@takes_keywords
def spherical_bessel_j0(input: Tensor) -> Tensor:
    """Return sin(x) / x; 1 at 0, and 0 where `x` is infinite.

    Parameters
    ----------
    input : Tensor, any shape
        Any dtype; integers and bools are converted to the default dtype.
    """
    x = _fractional(input)
    return ops.where(ops.isinf(x), 0.0, sine_quotient(x))


Step = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def _has_kernel(x: Tensor) -> bool:
    """Return whether polynomials of `x` are one kernel, which has no gradient.

    Its loops are longer than software devices allow.
    """
    device = x.device
    return (
        isinstance(device, GpuDevice)
        and device.gpu.info.target.loop_limit is None
        and x.dtype in FLOAT
        and not (x.requires_grad and is_grad_enabled())
    )


def _polynomial(
    name: str, doc: str, family: str, first: Callable[[Tensor], Tensor], step: Step
) -> Callable[..., Tensor]:
    """Return a family of orthogonal polynomials, by its recurrence.

    `first` is the one of degree 1, and `step` that of degree k + 1 from the two before.
    """
    number = float(FAMILIES.index(family))

    def polynomial(input: Tensor, n: Tensor | int) -> Tensor:
        for what, value in (("input", input), ("n", n)):
            kind = value.dtype if isinstance(value, Tensor) else None
            if isinstance(value, complex) or (kind is not None and kind.is_complex):
                raise DTypeError(f"{name}: {what} is complex; it must be real")
        if isinstance(n, Tensor) and isinstance(input, int | float):
            kind = n.dtype if n.dtype.is_float else default_dtype()
            input = ops.fill_like(n, (), input, kind)
        x = _fractional(input)
        degrees = n if isinstance(n, Tensor) else None
        if degrees is not None:
            kind = ops.result_type(input, degrees)
            x = ops.cast(input, kind if kind.is_float else float32)
        if degrees is not None and _has_kernel(x):
            kind = float64 if x.dtype is float64 else float32
            wide = ops.cast(x, kind), ops.cast(degrees, kind)
            return ops.cast(orthogonal_polynomial(*wide, number), x.dtype)
        if degrees is not None and degrees.dtype.is_float:
            degrees = ops.trunc(degrees)
        if degrees is None:
            largest: float = n if not isinstance(n, Tensor) else -1
        else:
            largest = degrees.max().item() if degrees.numel() else -1
        most = int(largest) if math.isfinite(largest) else MOST_DEGREE + 1
        if most > MOST_DEGREE:
            raise DomainError(
                f"{name}: a degree is {largest}; it must be at most {MOST_DEGREE}"
            )
        if _has_kernel(x):
            kind = float64 if x.dtype is float64 else float32
            found = orthogonal_polynomial(ops.cast(x, kind), float(most), number)
            return ops.cast(found, x.dtype)
        one: Tensor = ops.fill_like(x, tuple(x.shape), 1, x.dtype)
        terms = [one, first(x)]
        for k in range(1, most):
            terms.append(step(x, terms[-1], terms[-2], k))
        if degrees is None:
            return terms[most] if most >= 0 else one * 0.0
        result = ops.where(degrees == 0, one, 0.0)
        for k in range(1, most + 1):
            result = ops.where(degrees == k, terms[k], result)
        return result

    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__doc__ = f"""{doc}

    Parameters
    ----------
    input : Tensor, or number if `n` is a tensor
    n : int or Tensor
        Degree, a fraction cut off; where it is negative the result is 0.

    Raises
    ------
    DomainError
        If a degree is above 10,000, or not finite.

    Notes
    -----
    By the recurrence. On GPUs one kernel takes the degrees of a tensor as they are, and
    gives NaN for those that are refused elsewhere. Where gradients are recorded, and on
    other devices, the largest degree is read, which waits for it.
    """
    return takes_keywords(polynomial)


def _doubled(x: Tensor, last: Tensor, before: Tensor, k: int) -> Tensor:
    return x * last * 2.0 - before


def _shifted(x: Tensor, last: Tensor, before: Tensor, k: int) -> Tensor:
    return _doubled(x * 2.0 - 1.0, last, before, k)


_KINDS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "t": ("first", lambda x: x),
    "u": ("second", lambda x: x * 2.0),
    "v": ("third", lambda x: x * 2.0 - 1.0),
    "w": ("fourth", lambda x: x * 2.0 + 1.0),
}


def _chebyshev(kind: str, shifted: bool) -> Callable[..., Tensor]:
    word, first = _KINDS[kind]
    name = f"{'shifted_' if shifted else ''}chebyshev_polynomial_{kind}"
    doc = f"Return Chebyshev polynomials of the {word} kind{' at 2 x - 1' * shifted}."
    if shifted:
        family = f"shifted {kind}"
        return _polynomial(name, doc, family, lambda x: first(x * 2.0 - 1.0), _shifted)
    return _polynomial(name, doc, kind, first, _doubled)


chebyshev_polynomial_t = _chebyshev("t", False)
chebyshev_polynomial_u = _chebyshev("u", False)
chebyshev_polynomial_v = _chebyshev("v", False)
chebyshev_polynomial_w = _chebyshev("w", False)
shifted_chebyshev_polynomial_t = _chebyshev("t", True)
shifted_chebyshev_polynomial_u = _chebyshev("u", True)
shifted_chebyshev_polynomial_v = _chebyshev("v", True)
shifted_chebyshev_polynomial_w = _chebyshev("w", True)
hermite_polynomial_h = _polynomial(
    "hermite_polynomial_h",
    "Return the physicist's Hermite polynomials.",
    "h",
    lambda x: x * 2.0,
    lambda x, last, before, k: x * last * 2.0 - before * (2.0 * k),
)
hermite_polynomial_he = _polynomial(
    "hermite_polynomial_he",
    "Return the probabilist's Hermite polynomials.",
    "he",
    lambda x: x,
    lambda x, last, before, k: x * last - before * float(k),
)
laguerre_polynomial_l = _polynomial(
    "laguerre_polynomial_l",
    "Return Laguerre polynomials.",
    "laguerre",
    lambda x: 1.0 - x,
    lambda x, last, before, k: (
        (2 * k + 1 - x) * last * (1 / (k + 1)) - before * (k / (k + 1))
    ),
)
legendre_polynomial_p = _polynomial(
    "legendre_polynomial_p",
    "Return Legendre polynomials.",
    "legendre",
    lambda x: x,
    lambda x, last, before, k: (
        x * last * ((2 * k + 1) / (k + 1)) - before * (k / (k + 1))
    ),
)


def __dir__() -> list[str]:
    return sorted(__all__)
