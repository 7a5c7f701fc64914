"""Encoding of weights in blocks of few bits, with NumPy.

The blocks of 32 have the bits that the package gguf gives them. Blocks of 256 choose
scales that least change the result, by a search like that of ggml's `ggml-quants.c`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...base.quantized_format import INT4, ROW_HEAD, QuantizedFormat

AT_ONCE = 1 << 18
"""Elements encoded at once: a search keeps several arrays of them."""


def encode(values: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    """Return rows as blocks.

    Parameters
    ----------
    values : ndarray, float, shape (..., columns)
        Finite; columns a multiple of `kind.multiple`.
    kind : QuantizedFormat

    Returns
    -------
    ndarray, uint8, shape (..., row_size)
    """
    *outer, columns = values.shape
    shape = (*outer, kind.row_size(columns))
    width = kind.block if kind.size else columns
    flat = values.reshape(-1, width)
    out = np.empty((len(flat), kind.size or shape[-1]), np.uint8)
    step = max(1, AT_ONCE // width)
    encode_part = _ENCODERS[kind.family]
    for start in range(0, len(flat), step):
        part = np.asarray(flat[start : start + step], np.float32)
        out[start : start + step] = encode_part(part, kind)
    return out.reshape(shape)


def _inverse(scale: np.ndarray) -> np.ndarray:
    """Return 1 / scale, and 0 where that is 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(scale == 0, 0, np.float32(1) / scale).astype(np.float32)


def _bytes(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return numbers as bytes of each block."""
    return np.ascontiguousarray(x.astype(dtype)).view(np.uint8)


def _packed(codes: np.ndarray, run: int) -> np.ndarray:
    """Return codes in nibbles; of each run of bytes the low ones come first."""
    pairs = codes.reshape(len(codes), -1, 2, run)
    return (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(len(codes), -1)


def _widest(x: np.ndarray) -> np.ndarray:
    """Return the element of each block that is farthest from 0, with its sign."""
    at = np.abs(x).argmax(-1, keepdims=True)
    return np.take_along_axis(x, at, -1)


def _symmetric(x: np.ndarray, half: int) -> tuple[np.ndarray, np.ndarray]:
    """Return scales, and codes from 0 to 2 * half - 1 around `half`."""
    d = _widest(x) / np.float32(-half)
    codes = np.trunc(x * _inverse(d) + np.float32(half + 0.5))
    return d, codes.astype(np.uint8).clip(0, 2 * half - 1)


def _between(x: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scales, minima, and codes from 0 to `most`."""
    low = x.min(-1, keepdims=True)
    d = (x.max(-1, keepdims=True) - low) / np.float32(most)
    codes = np.trunc((x - low) * _inverse(d) + np.float32(0.5))
    return d, low, codes.astype(np.uint8).clip(0, most)


def _high_bits(codes: np.ndarray) -> np.ndarray:
    return np.packbits(codes >> 4, axis=-1, bitorder="little")


def _q4_0(x: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    d, codes = _symmetric(x, 8)
    return np.concatenate([_bytes(d, "<f2"), _packed(codes, 16)], 1)


def _q4_1(x: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    d, low, codes = _between(x, 15)
    return np.concatenate([_bytes(d, "<f2"), _bytes(low, "<f2"), _packed(codes, 16)], 1)


def _q5_0(x: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    d, codes = _symmetric(x, 16)
    packed = _packed(codes & 15, 16)
    return np.concatenate([_bytes(d, "<f2"), _high_bits(codes), packed], 1)


def _q5_1(x: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    d, low, codes = _between(x, 31)
    scales = np.concatenate([_bytes(d, "<f2"), _bytes(low, "<f2")], 1)
    return np.concatenate([scales, _high_bits(codes), _packed(codes & 15, 16)], 1)


def _rounded(x: np.ndarray) -> np.ndarray:
    """Return the nearest whole numbers, halves away from 0, as C's `roundf`."""
    size = np.abs(x)
    whole = np.floor(size)
    return np.copysign(whole + np.floor(2 * (size - whole)), x)


def _q8_0(x: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    d = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    codes = _rounded(x * _inverse(d)).astype(np.int8)
    return np.concatenate([_bytes(d, "<f2"), codes.view(np.uint8)], 1)


class _Fit(NamedTuple):
    """Scales and minima of groups: x is near scale * code - minimum."""

    scale: np.ndarray
    minimum: np.ndarray


def _fit_between(x: np.ndarray, most: int) -> _Fit:
    """Return scales and minima, both at least 0, of least weighted squared error.

    Parameters
    ----------
    x : ndarray, shape (blocks, groups, elements)
    most : int
        The largest code.
    """
    weight = np.sqrt(np.mean(x * x, -1, keepdims=True)) + np.abs(x)
    low = np.minimum(x.min(-1, keepdims=True), 0)
    width = x.max(-1, keepdims=True) - low
    best_scale, best_low = np.maximum(width, 0) / most, low
    best = np.full_like(low, np.inf)
    total, mean = weight.sum(-1, keepdims=True), (weight * x).sum(-1, keepdims=True)
    for step in range(-10, 11, 2):
        inverse = (most + step / 10) * _inverse(width)
        codes = np.rint(inverse * (x - low)).clip(0, most)
        weighted = weight * codes
        first = weighted.sum(-1, keepdims=True)
        second = (weighted * codes).sum(-1, keepdims=True)
        product = (weighted * x).sum(-1, keepdims=True)
        # Least squares of scale and minimum, given the codes.
        size = total * second - first * first
        usable = size > 0
        size = np.where(usable, size, 1)
        scale = (total * product - first * mean) / size
        shift = (second * mean - first * product) / size
        alone = shift > 0  # a minimum above 0 has no code
        squares = np.where(second > 0, second, 1)
        scale = np.where(alone, product / squares, scale)
        shift = np.where(alone, 0, shift)
        error = (weight * (scale * codes + shift - x) ** 2).sum(-1, keepdims=True)
        better = usable & (scale > 0) & (error < best)
        best = np.where(better, error, best)
        best_scale = np.where(better, scale, best_scale)
        best_low = np.where(better, shift, best_low)
    return _Fit(best_scale[..., 0], -best_low[..., 0])


def _sixths(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the float16 scales of numbers at least 0, and their 6-bit codes."""
    d = (x.max(-1, keepdims=True) / 63).astype(np.float16)
    codes = np.rint(x * _inverse(d.astype(np.float32))).clip(0, 63)
    return d, codes.astype(np.uint8)


def _with_minima(x: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first 16 bytes of blocks of 256, and codes (blocks, 256)."""
    groups = x.reshape(-1, 8, 32)
    fit = _fit_between(groups, most)
    (d, scales), (m, minima) = _sixths(fit.scale), _sixths(fit.minimum)
    factor = (d.astype(np.float32) * scales)[:, :, None]
    low = (m.astype(np.float32) * minima)[:, :, None]
    codes = np.rint((groups + low) * _inverse(factor)).clip(0, most).astype(np.uint8)
    late_scales, late_minima = scales[:, 4:], minima[:, 4:]
    packed = [
        scales[:, :4] | late_scales >> 4 << 6,
        minima[:, :4] | late_minima >> 4 << 6,
        late_scales & 15 | (late_minima & 15) << 4,
    ]
    head = np.concatenate([_bytes(d, "<f2"), _bytes(m, "<f2"), *packed], 1)
    return head, codes.reshape(-1, 256)


def _q4_k(x: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    head, codes = _with_minima(x, 15)
    return np.concatenate([head, _packed(codes, 32)], 1)


def _q5_k(x: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    head, codes = _with_minima(x, 31)
    bits = (codes >> 4).reshape(-1, 8, 32) << np.arange(8, dtype=np.uint8)[:, None]
    high = np.bitwise_or.reduce(bits, axis=1)
    return np.concatenate([head, high, _packed(codes & 15, 32)], 1)


def _q6_k(x: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    groups = x.reshape(-1, 16, 16)
    widest = _widest(groups)
    weight = groups * groups
    best = np.full_like(widest, -np.inf)
    scale = np.zeros_like(widest)
    for step in range(-9, 10, 3):
        inverse = -(32 + step / 10) * _inverse(widest)
        codes = np.rint(inverse * groups).clip(-32, 31)
        product = (weight * groups * codes).sum(-1, keepdims=True)
        second = (weight * codes * codes).sum(-1, keepdims=True)
        factor = product / np.where(second > 0, second, 1)
        better = (second > 0) & (factor * product > best)
        best = np.where(better, factor * product, best)
        scale = np.where(better, factor, scale)
    d = (_widest(scale[..., 0]) / -128).astype(np.float16)
    scales = np.rint(scale[..., 0] * _inverse(d.astype(np.float32))).clip(-128, 127)
    factor = (d.astype(np.float32) * scales)[:, :, None]
    codes = np.rint(groups * _inverse(factor)).clip(-32, 31).astype(np.int8) + 32
    codes = codes.astype(np.uint8).reshape(-1, 256)
    pairs = (codes >> 4).reshape(-1, 2, 4, 32)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = np.bitwise_or.reduce(pairs << shifts, axis=2).reshape(-1, 64)
    low = _packed(codes & 15, 64)
    return np.concatenate([low, high, _bytes(scales, "i1"), _bytes(d, "<f2")], 1)


def _int8(x: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    scale = np.abs(x).max(-1, keepdims=True) / np.float32(127)
    scale = np.where(scale == 0, 1, scale).astype(np.float32)
    out = np.zeros((len(x), kind.row_size(x.shape[1])), np.uint8)
    out[:, :4] = _bytes(scale, "<f4")
    out[:, ROW_HEAD:] = np.rint(x / scale).clip(-127, 127).astype(np.int8).view("u1")
    return out


def _int4(x: np.ndarray, kind: QuantizedFormat) -> np.ndarray:
    groups = x.reshape(len(x), -1, kind.block)
    # With 0 among the elements the zero is a code, as AWQ and GPTQ have it.
    low = np.minimum(groups.min(-1), 0)
    scale = (np.maximum(groups.max(-1), 0) - low) / np.float32(15)
    scale = scale.astype(np.float16).astype(np.float32)
    inverse = _inverse(scale)
    zero = np.rint(-low * inverse).clip(0, 15)
    codes = np.rint(groups * inverse[..., None]) + zero[..., None]
    codes = codes.clip(0, 15).astype(np.uint8).reshape(len(x), -1)
    return join_int4(codes, scale, zero, kind)


def join_int4(
    codes: np.ndarray, scale: np.ndarray, zero: np.ndarray, kind: QuantizedFormat
) -> np.ndarray:
    """Return rows of int4.

    Parameters
    ----------
    codes : ndarray, uint8, shape (rows, columns)
        From 0 to 15; an element is scale * (code - zero).
    scale, zero : ndarray, shape (rows, groups)
        Rounded to float16.
    kind : QuantizedFormat
    """
    rows, columns = codes.shape
    out = np.zeros((rows, kind.row_size(columns)), np.uint8)
    out[:, : columns // 2] = _packed(codes, 4)
    entries = np.stack([scale, zero], -1).reshape(rows, -1)
    table = _bytes(entries, "<f2")
    out[:, columns // 2 : columns // 2 + table.shape[1]] = table
    return out


_ENCODERS: dict[str, Callable[[np.ndarray, QuantizedFormat], np.ndarray]] = {
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q5_0": _q5_0,
    "q5_1": _q5_1,
    "q8_0": _q8_0,
    "q4_k": _q4_k,
    "q5_k": _q5_k,
    "q6_k": _q6_k,
    "int8": _int8,
    INT4: _int4,
}
