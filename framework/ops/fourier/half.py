"""Half the transforms of real numbers, and back: by a kernel, or by complex ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..elementwise.binary import mul
from ..elementwise.cast import cast
from ..elementwise.complex_numbers import _real_part, conj, numbers_of, pairs_of
from ..movement.concat import cat
from ..movement.rearrange import flip
from ..movement.slice import narrow
from ..view import reshape
from .rows import (
    along,
    constant,
    odd_rows,
    real_rows,
    takes_odd_rows,
    takes_real_rows,
)

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def half_transform(x: Tensor, n: int, scale: float, conjugated: bool = False) -> Tensor:
    """Return half the transform along the last dimension, or its conjugate.

    Of an even number of them by a transform of half as many complex ones: those at even
    places are real parts, those at odd places imaginary parts.
    """
    if takes_real_rows(x, n):
        return real_rows(x, n, False, conjugated, scale)
    if takes_odd_rows(x, n):
        return odd_rows(x, conjugated, scale)
    if conjugated:
        return conj(half_transform(x, n, scale))
    half = n // 2
    if n % 2 or not x.is_gpu:
        made = along(x, x.ndim - 1, False, scale)
        return narrow(made, -1, 0, half + 1)
    pairs = numbers_of(reshape(x, (*x.shape[:-1], half, 2)))
    made = along(pairs, pairs.ndim - 1, False, 0.5 * scale)
    ahead = cat([made, narrow(made, -1, 0, 1)], -1)
    back = conj(flip(ahead, -1))
    factors = mul(constant(x, "roots", n, half + 1), -1j)
    return ahead + back + mul(ahead - back, factors)


def real_numbers(x: Tensor, n: int, scale: float, conjugated: bool = False) -> Tensor:
    """Return the numbers of which `half_transform` gives half the transform."""
    if takes_real_rows(x, n):
        return real_rows(x, n, True, conjugated, scale)
    if conjugated:
        return real_numbers(conj(x), n, scale)
    half = n // 2
    real = x.dtype.to_complex()
    ends = cast(_real_part(narrow(x, -1, 0, 1)), real)
    if n % 2 or not x.is_gpu:
        inner = narrow(x, -1, 1, (n - 1) // 2)
        parts = [ends, inner, conj(flip(inner, -1))]
        if n % 2 == 0:
            parts.insert(2, cast(_real_part(narrow(x, -1, half, 1)), real))
        whole = cat(parts, -1)
        return _real_part(along(whole, whole.ndim - 1, True, scale))
    last = cast(_real_part(narrow(x, -1, half, 1)), real)
    ahead = cat([ends, narrow(x, -1, 1, half - 1), last], -1)
    back = conj(flip(ahead, -1))
    factors = mul(conj(constant(x, "roots", n, half + 1)), 1j)
    joined = narrow(ahead + back + mul(ahead - back, factors), -1, 0, half)
    made = along(joined, joined.ndim - 1, True, scale)
    return reshape(pairs_of(made), (*x.shape[:-1], n))
