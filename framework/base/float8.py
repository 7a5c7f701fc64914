"""8-bit floats as NumPy has to compute them: codes of numbers, and numbers of codes.

Each format has a sign, an exponent and a mantissa. Rounding is to nearest, ties to
even. Sources: Micikevicius et al., FP8 Formats for Deep Learning, arXiv:2209.05433, and
for those without a negative zero Noune et al., arXiv:2206.02915.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np


class Float8Format(NamedTuple):
    """Format of an 8-bit float.

    Attributes
    ----------
    mantissa : int
        Bits of it.
    bias : int
        What is added to exponents.
    largest : int
        Code of the largest number.
    overflow : int
        Code of what is larger, also of an infinity: the largest number itself, an
        infinity or NaN.
    nan : int
        Code of NaN.
    signed_zero : bool
        Whether there is a negative zero, and a sign of NaN.
    """

    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int
    signed_zero: bool


FORMATS = {
    "float8_e4m3fn": Float8Format(3, 7, 0x7E, 0x7E, 0x7F, True),
    "float8_e5m2": Float8Format(2, 15, 0x7B, 0x7C, 0x7F, True),
    "float8_e4m3fnuz": Float8Format(3, 8, 0x7F, 0x80, 0x80, False),
    "float8_e5m2fnuz": Float8Format(2, 16, 0x7F, 0x80, 0x80, False),
}
"""Formats by the names of their dtypes."""


def encode_float8(array: np.ndarray, name: str) -> np.ndarray:
    """Return the codes, uint8, of numbers in a format."""
    form = FORMATS[name]
    x = np.asarray(array, np.float32)
    size = np.abs(x).astype(np.float64)
    least = 1 - form.bias
    with np.errstate(all="ignore"):
        _, above = np.frexp(np.maximum(size, 2.0**least))
        exponent = above.astype(np.int64) - 1
        steps = np.rint(np.ldexp(size, form.mantissa - exponent))
        codes = steps + (exponent - least) * 2.0**form.mantissa
    codes = np.where(codes <= form.largest, codes, form.overflow)
    codes = np.where(np.isnan(x), form.nan, codes).astype(np.uint8)
    sign = np.signbit(x).astype(np.uint8) << 7
    if form.signed_zero:
        signed: np.ndarray = codes | sign
        return signed
    return np.where((codes == 0) | (codes == form.nan), codes, codes | sign)


def decode_float8(codes: np.ndarray, name: str) -> np.ndarray:
    """Return the numbers, float32, of codes in a format."""
    found: np.ndarray = _numbers(name)[codes]
    return found


@functools.cache
def _numbers(name: str) -> np.ndarray:
    """Return the numbers of all codes."""
    form = FORMATS[name]
    codes = np.arange(256)
    code, negative = codes & 0x7F, codes >> 7 == 1
    exponent, rest = code >> form.mantissa, code & (1 << form.mantissa) - 1
    whole = np.where(exponent == 0, rest, rest + (1 << form.mantissa))
    scale = np.maximum(exponent, 1) - form.bias - form.mantissa
    numbers = np.ldexp(whole.astype(np.float64), scale)
    if form.signed_zero:
        numbers = np.where(code > form.largest, np.nan, numbers)
        if form.overflow == form.largest + 1:
            numbers = np.where(code == form.overflow, np.inf, numbers)
    else:
        numbers = np.where(codes == form.nan, np.nan, numbers)
    return np.where(negative, -numbers, numbers).astype(np.float32)
