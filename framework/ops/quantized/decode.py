"""Decoding of quantized weights with NumPy.

Source: ggml, `ggml-quants.c`; results have the bits of the package gguf's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...base.quantized_format import INT4, ROW_HEAD, QuantizedFormat

Columns = tuple[np.ndarray, ...]

HALF = 2
"""Bytes of a float16."""


def decode(blocks: np.ndarray, kind: QuantizedFormat, columns: int) -> np.ndarray:
    """Return the elements of quantized rows.

    Parameters
    ----------
    blocks : ndarray, uint8, shape (..., row_size)
    kind : QuantizedFormat
    columns : int

    Returns
    -------
    ndarray, float32, shape (..., columns)
    """
    shape = (*blocks.shape[:-1], columns)
    if not kind.size:
        rows = np.ascontiguousarray(blocks).reshape(-1, blocks.shape[-1])
        decode_row = _int4 if kind.family == INT4 else _int8
        return decode_row(rows, kind, columns).reshape(shape)
    each = np.ascontiguousarray(blocks).reshape(-1, kind.size)
    with np.errstate(invalid="ignore", over="ignore"):
        return _DECODERS[kind.name](each).reshape(shape)


def _cut(blocks: np.ndarray, *sizes: int) -> Columns:
    """Return parts of each block, of these sizes; the last is the rest."""
    ends = np.cumsum(sizes)
    return tuple(np.split(blocks, ends, axis=1))


def _half(part: np.ndarray) -> np.ndarray:
    """Return the float16 numbers of a part as float32."""
    return np.ascontiguousarray(part).view("<f2").astype(np.float32)


def _nibbles(part: np.ndarray, run: int) -> np.ndarray:
    """Return codes (blocks, -1): of each run of bytes the low nibbles come first."""
    runs = part.reshape(len(part), -1, 1, run)
    shifts = np.array([[0], [4]], np.uint8)
    return (runs >> shifts & 15).reshape(len(part), -1)


def _bits(part: np.ndarray) -> np.ndarray:
    """Return the bits of four bytes of each block, the lowest first."""
    return np.unpackbits(part, axis=1, bitorder="little")


def _q4_0(blocks: np.ndarray) -> np.ndarray:
    d, low = _cut(blocks, HALF)
    return _half(d) * (_nibbles(low, 16).astype(np.float32) - 8)


def _q4_1(blocks: np.ndarray) -> np.ndarray:
    d, m, low = _cut(blocks, HALF, HALF)
    return _half(d) * _nibbles(low, 16).astype(np.float32) + _half(m)


def _q5_0(blocks: np.ndarray) -> np.ndarray:
    d, high, low = _cut(blocks, HALF, 4)
    codes = _nibbles(low, 16) | _bits(high) << 4
    return _half(d) * (codes.astype(np.float32) - 16)


def _q5_1(blocks: np.ndarray) -> np.ndarray:
    d, m, high, low = _cut(blocks, HALF, HALF, 4)
    codes = _nibbles(low, 16) | _bits(high) << 4
    return _half(d) * codes.astype(np.float32) + _half(m)


def _q8_0(blocks: np.ndarray) -> np.ndarray:
    d, codes = _cut(blocks, HALF)
    return np.ascontiguousarray(codes).view(np.int8).astype(np.float32) * _half(d)


def _scale_pairs(packed: np.ndarray) -> Columns:
    """Return the eight 6-bit scales and minima in 12 bytes of each block."""
    scales, minima, both = (
        packed[:, 4 * part : 4 * part + 4].astype(np.uint8) for part in range(3)
    )
    late_scales = both & 15 | scales >> 2 & 48
    late_minima = both >> 4 | minima >> 2 & 48
    return (
        np.concatenate([scales & 63, late_scales], 1).astype(np.float32),
        np.concatenate([minima & 63, late_minima], 1).astype(np.float32),
    )


def _scaled(
    d: np.ndarray, m: np.ndarray, packed: np.ndarray, codes: np.ndarray
) -> np.ndarray:
    """Return codes (blocks, 256) times their scales, less their minima."""
    scales, minima = _scale_pairs(packed)
    factor = (_half(d) * scales)[:, :, None]
    return (
        factor * codes.reshape(-1, 8, 32).astype(np.float32)
        - (_half(m) * minima)[:, :, None]
    )


def _q4_k(blocks: np.ndarray) -> np.ndarray:
    d, m, packed, low = _cut(blocks, HALF, HALF, 12)
    return _scaled(d, m, packed, _nibbles(low, 32))


def _q5_k(blocks: np.ndarray) -> np.ndarray:
    d, m, packed, high, low = _cut(blocks, HALF, HALF, 12, 32)
    bits = high[:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    codes = _nibbles(low, 32) | bits.reshape(len(blocks), -1) << 4
    return _scaled(d, m, packed, codes)


def _q6_k(blocks: np.ndarray) -> np.ndarray:
    low, high, scales, d = _cut(blocks, 128, 64, 16)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    bits = high.reshape(-1, 2, 1, 32) >> shifts & 3
    codes = _nibbles(low, 64) | bits.reshape(len(blocks), -1) << 4
    factor = _half(d) * np.ascontiguousarray(scales).view(np.int8).astype(np.float32)
    return factor[:, :, None] * (codes.reshape(-1, 16, 16).astype(np.float32) - 32)


def _int8(rows: np.ndarray, kind: QuantizedFormat, columns: int) -> np.ndarray:
    scale = np.ascontiguousarray(rows[:, :4]).view("<f4")
    codes = np.ascontiguousarray(rows[:, ROW_HEAD : ROW_HEAD + columns]).view(np.int8)
    return codes.astype(np.float32) * scale


def _int4(rows: np.ndarray, kind: QuantizedFormat, columns: int) -> np.ndarray:
    groups = columns // kind.block
    codes = _nibbles(rows[:, : columns // 2], 4)
    entries = _half(rows[:, columns // 2 : columns // 2 + 4 * groups])
    scale, zero = entries[:, 0::2, None], entries[:, 1::2, None]
    parts = codes.reshape(-1, groups, kind.block).astype(np.float32)
    return scale * (parts - zero)


_DECODERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q5_0": _q5_0,
    "q5_1": _q5_1,
    "q8_0": _q8_0,
    "q4_k": _q4_k,
    "q5_k": _q5_k,
    "q6_k": _q6_k,
}
