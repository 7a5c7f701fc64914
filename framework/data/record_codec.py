"""Coding of samples as bytes: nested data, which nothing in them can run.

A value is one byte for its kind and then its content, little-endian; what has a length
is preceded by it. Arrays begin at multiples of 8 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..base.device import CPU
from ..base.dtype import (
    DTYPES,
    DType,
    as_dtype,
    decode,
    encode,
    float16,
    float32,
)
from ..tensor.tensor import Tensor

MAX_DEPTH = 100
"""Containers within each other, at most."""

_LENGTH = struct.Struct("<Q")
_SHORT = struct.Struct("<I")
_INT = struct.Struct("<q")
_FLOAT = struct.Struct("<d")
_COMPLEX = struct.Struct("<dd")
_NAMES = list(DTYPES)
"""Names of dtypes by their codes: files hold them, so new ones come at the end."""

_CODES = {name: code for code, name in enumerate(_NAMES)}
_KINDS = (
    "tensors, NumPy arrays, numbers, strings, bytes, None, lists, tuples and"
    " dicts of these"
)


def encode_sample(sample: Any) -> bytearray:
    """Return a sample as bytes; tensors of devices are waited for.

    Raises
    ------
    TypeError
        If a part is of another kind.
    ValueError
        If containers are nested too deeply, or contain themselves.
    """
    out = bytearray()
    _write(out, sample, 0)
    return out


def _write(out: bytearray, value: Any, depth: int) -> None:
    writer = _WRITERS.get(type(value))
    if writer is not None:
        writer(out, value)
    elif isinstance(value, Tensor):
        tensor = value.detach()
        _write_array(out, b"t", encode(tensor.host_copy(), tensor.dtype), tensor.dtype)
    elif isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        kind = b"a" if isinstance(value, np.ndarray) else b"g"
        _write_array(out, kind, array, _dtype_of(array))
    elif type(value) in _CONTAINERS:
        if depth >= MAX_DEPTH:
            raise ValueError(
                f"RecordWriter.append: a sample is nested deeper than {MAX_DEPTH}"
                " levels, or contains itself; samples must be less deep"
            )
        out += _CONTAINERS[type(value)] + _LENGTH.pack(len(value))
        parts = value
        if type(value) is dict:
            parts = [part for pair in value.items() for part in pair]
        for part in parts:
            _write(out, part, depth + 1)
    else:
        kind_of = type(value)
        raise TypeError(
            f"RecordWriter.append: a sample has a {kind_of.__module__}."
            f"{kind_of.__qualname__}; it may have {_KINDS}"
        )


def _write_int(out: bytearray, value: int) -> None:
    if -(1 << 63) <= value < 1 << 63:
        out += b"i" + _INT.pack(value)
        return
    content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    out += b"I" + _LENGTH.pack(len(content)) + content


def _write_bytes(out: bytearray, kind: bytes, content: bytes | bytearray) -> None:
    out += kind + _LENGTH.pack(len(content)) + content


def _write_array(out: bytearray, kind: bytes, array: np.ndarray, dtype: DType) -> None:
    shape = array.shape
    out += kind + bytes((_CODES[dtype.name], len(shape)))
    out += struct.pack(f"<{len(shape)}Q", *shape)
    out += bytes(-len(out) % 8)
    out += np.ascontiguousarray(array).data.cast("B") if array.size else b""


def _dtype_of(array: np.ndarray) -> DType:
    """Return the dtype of an array in this machine's byte order.

    Raises
    ------
    TypeError
        If files have none such.
    """
    if array.dtype.isnative and array.dtype.name in _CODES:
        return as_dtype(array.dtype)
    raise TypeError(
        f"RecordWriter.append: an array has dtype {array.dtype.str}; it must be one of"
        f" {', '.join(_NAMES)}, in this machine's byte order"
    )


_WRITERS: dict[type, Callable[[bytearray, Any], None]] = {
    type(None): lambda out, _: out.extend(b"N"),
    bool: lambda out, value: out.extend(b"T" if value else b"F"),
    int: _write_int,
    float: lambda out, value: out.extend(b"f" + _FLOAT.pack(value)),
    complex: lambda out, value: out.extend(
        b"c" + _COMPLEX.pack(value.real, value.imag)
    ),
    str: lambda out, value: _write_bytes(
        out, b"s", value.encode("utf-8", "surrogatepass")
    ),
    bytes: lambda out, value: _write_bytes(out, b"b", value),
}
_CONTAINERS: dict[type, bytes] = {list: b"l", tuple: b"u", dict: b"d"}


class SampleReader:
    """Reader of what `encode_sample` has written.

    Parameters
    ----------
    content : bytearray
        A whole sample; arrays are made over its memory.
    """

    def __init__(self, content: bytearray) -> None:
        self._content = content
        self._at = 0

    def whole(self) -> Any:
        """Return the sample.

        Raises
        ------
        ValueError, KeyError, struct.error
            If it is none, or there is more.
        """
        value = self._read(0)
        if self._at != len(self._content):
            raise ValueError(f"{len(self._content) - self._at} bytes are left over")
        return value

    def _take(self, size: int) -> bytearray:
        start = self._at
        if size > len(self._content) - start:
            raise ValueError("a value goes beyond its end")
        self._at = start + size
        return self._content[start : self._at]

    def _number(self, form: struct.Struct) -> Any:
        return form.unpack(self._take(form.size))

    def _sized(self) -> bytearray:
        return self._take(self._number(_LENGTH)[0])

    def _read(self, depth: int) -> Any:
        return self._READERS[self._take(1)[0]](self, depth)

    def _read_list(self, depth: int, times: int = 1) -> list[Any]:
        if depth >= MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH}")
        count = self._number(_LENGTH)[0] * times
        if count > len(self._content):
            raise ValueError("a container goes beyond its end")
        return [self._read(depth + 1) for _ in range(count)]

    def _read_dict(self, depth: int) -> dict[Any, Any]:
        parts = self._read_list(depth, 2)
        return dict(zip(parts[::2], parts[1::2]))

    def _read_array(self) -> tuple[np.ndarray, DType]:
        code, dims = self._take(2)
        shape = struct.unpack(f"<{dims}Q", self._take(8 * dims))
        self._take(-self._at % 8)
        dtype = DTYPES[_NAMES[code]]
        return self._elements(shape, dtype), dtype

    def _elements(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        stored = np.dtype(dtype.storage)
        count = int(np.prod(shape, dtype=object)) if shape else 1
        start = self._at
        if count * stored.itemsize > len(self._content) - start:
            raise ValueError("an array goes beyond its end")
        self._at += count * stored.itemsize
        flat = np.frombuffer(self._content, stored, count, start)
        return flat.reshape(shape)

    def _read_tensor(self) -> Tensor:
        array, dtype = self._read_array()
        return Tensor.from_host(decode(array, dtype), CPU, dtype)

    _READERS: ClassVar[dict[int, Callable[[SampleReader, int], Any]]] = {
        ord("N"): lambda self, _: None,
        ord("T"): lambda self, _: True,
        ord("F"): lambda self, _: False,
        ord("i"): lambda self, _: self._number(_INT)[0],
        ord("I"): lambda self, _: int.from_bytes(self._sized(), "little", signed=True),
        ord("f"): lambda self, _: self._number(_FLOAT)[0],
        ord("c"): lambda self, _: complex(*self._number(_COMPLEX)),
        ord("s"): lambda self, _: self._sized().decode("utf-8", "surrogatepass"),
        ord("b"): lambda self, _: bytes(self._sized()),
        ord("l"): lambda self, depth: self._read_list(depth),
        ord("u"): lambda self, depth: tuple(self._read_list(depth)),
        ord("d"): lambda self, depth: self._read_dict(depth),
        ord("a"): lambda self, _: self._read_array()[0],
        ord("g"): lambda self, _: self._read_array()[0][()],
        ord("t"): lambda self, _: self._read_tensor(),
    }

    # Version 1: two tensors

    def pair(self) -> tuple[Tensor, Tensor]:
        """Return input and target, as files of version 1 have them.

        Raises
        ------
        ValueError, KeyError, struct.error
            If there are no such tensors.
        """
        return self._tensor_of_pair(), self._tensor_of_pair()

    def _tensor_of_pair(self) -> Tensor:
        (dims,) = self._number(_SHORT)
        shape = struct.unpack(f"<{dims}I", self._take(4 * dims))
        dtype = _PAIR_DTYPES[self._number(_SHORT)[0]]
        tensor = Tensor.from_host(self._elements(shape, dtype), CPU, dtype)
        self._take(-self._at % 4)
        return tensor


_PAIR_DTYPES = {0: float32, 1: float16}


def encode_pair(sample: Any) -> bytearray:
    """Return an input and a target as files of version 1 have them.

    Raises
    ------
    TypeError
        If it is no pair of tensors or arrays of float32 or float16.
    """
    codes = {dtype: code for code, dtype in _PAIR_DTYPES.items()}
    out = bytearray()
    if not isinstance(sample, tuple | list) or len(sample) != 2:
        raise TypeError(
            "RecordWriter.append: a sample of version 1 is an input and a target; use"
            " version 2 for others"
        )
    for part in sample:
        array = part.host_copy() if isinstance(part, Tensor) else np.asarray(part)
        dtype = part.dtype if isinstance(part, Tensor) else _dtype_of(array)
        if dtype not in codes:
            raise TypeError(
                f"RecordWriter.append: a part of a sample of version 1 is {dtype.name};"
                " it must be float32 or float16, or use version 2"
            )
        head = array.ndim, *array.shape, codes[dtype]
        out += struct.pack(f"<{len(head)}I", *head)
        out += np.ascontiguousarray(array).tobytes()
        out += bytes(-len(out) % 4)
    return out
