"""GGUF files: metadata and tensors by name.

Source: ggml, `docs/gguf.md`, versions 2 and 3. What a file says of itself is checked
before it is believed: sizes against the file, counts against what is left of it.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..base.errors import FileFormatError
from ..base.quantized_format import FORMATS

MAGIC = b"GGUF"
VERSIONS = (2, 3)
VERSION = 3
ALIGNMENT = 32
"""Bytes, where the metadata does not say."""

MOST_DIMENSIONS = 4
LONGEST_NAME = 1 << 16
"""Characters."""

MOST_ELEMENTS = 1 << 48

_SCALARS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?",
    10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip
_BYTE, _STRING, _ARRAY = 0, 8, 9

_FLOATS = {0: "float32", 1: "float16", 28: "float64", 30: "bfloat16"}
_INTEGERS = {24: "int8", 25: "int16", 26: "int32", 27: "int64"}
_SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}

KINDS: dict[int, str] = {
    **_FLOATS,
    **_INTEGERS,
    **{each.gguf: name for name, each in FORMATS.items() if each.gguf is not None},
}
"""Names of dtypes and formats by their numbers in a file."""


class GGUFTensor(NamedTuple):
    """Where a tensor is in a file.

    Attributes
    ----------
    kind : str
        Name of a dtype, or of a format in `FORMATS`.
    shape : tuple of int
        The last dimension is the contiguous one.
    start, size : int
        Bytes.
    """

    kind: str
    shape: tuple[int, ...]
    start: int
    size: int


class GGUFFile(NamedTuple):
    """What a file holds; tensors are not read."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, GGUFTensor]

    def data(self, name: str) -> np.ndarray:
        """Return the bytes of a tensor, mapped from disk."""
        found = self.tensors[name]
        if not found.size:
            return np.empty(0, np.uint8)
        return np.memmap(self.path, np.uint8, "r", found.start, (found.size,))


def read_gguf(path: str | Path) -> GGUFFile:
    """Return what a GGUF file holds.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileFormatError
        If it is cut off, damaged, of another format or version, or a tensor is of a
        type that the library has not.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"read_gguf: there is no file {path}")
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise FileFormatError(f"{path}: it is no GGUF file: it does not begin so")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Reader(path, content).read()


def tensor_size(kind: str, shape: tuple[int, ...]) -> int:
    """Return the bytes of a tensor; the last dimension is a number of blocks."""
    if kind in FORMATS:
        return math.prod(shape[:-1]) * FORMATS[kind].row_size(shape[-1])
    return math.prod(shape) * _SIZES[kind.lstrip("abcdefghijklmnopqrstuvwxyz")]


class _Reader:
    """A place in a file from which numbers and strings are read."""

    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self.path = path
        self.content = content
        self.length = len(content)
        self.at = len(MAGIC)

    def read(self) -> GGUFFile:
        version = self.number("<I", "version")
        if version not in VERSIONS:
            raise self.error(f"its version is {version}; accepted: 2 and 3")
        tensors = self.count("number of tensors", 24)
        entries = self.count("number of metadata entries", 13)
        metadata: dict[str, Any] = {}
        for _ in range(entries):
            key = self.name("name of a metadata entry")
            if key in metadata:
                raise self.error(f"metadata `{key}` is there twice")
            metadata[key] = self.value(f"metadata `{key}`")
        found: dict[str, tuple[str, tuple[int, ...], int]] = {}
        for _ in range(tensors):
            name = self.name("name of a tensor")
            if name in found:
                raise self.error(f"tensor `{name}` is there twice")
            found[name] = self.entry(name)
        return GGUFFile(self.path, metadata, self.placed(found, metadata))

    def placed(
        self,
        found: Mapping[str, tuple[str, tuple[int, ...], int]],
        metadata: Mapping[str, Any],
    ) -> dict[str, GGUFTensor]:
        """Return tensors with their places, which lie within the file."""
        alignment = metadata.get("general.alignment", ALIGNMENT)
        if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
            raise self.error(f"`general.alignment` is {alignment!r}; it must be a size")
        first = -(-self.at // alignment) * alignment
        placed = {}
        for name, (kind, shape, offset) in found.items():
            size = tensor_size(kind, shape)
            if offset % alignment or first + offset + size > self.length:
                raise self.error(
                    f"tensor `{name}` of {size} bytes would begin at byte"
                    f" {first + offset} of {self.length}; the file is damaged or cut"
                    " off"
                )
            placed[name] = GGUFTensor(kind, shape, first + offset, size)
        return placed

    def entry(self, name: str) -> tuple[str, tuple[int, ...], int]:
        """Return the kind, shape and offset of a tensor."""
        what = f"tensor `{name}`"
        dimensions = self.number("<I", what)
        if dimensions > MOST_DIMENSIONS:
            raise self.error(f"{what} has {dimensions} dimensions; at most 4 are taken")
        sizes = [self.number("<Q", what) for _ in range(dimensions)]
        number, offset = self.number("<I", what), self.number("<Q", what)
        if number not in KINDS:
            raise self.error(
                f"{what} is of type {number}; accepted:"
                f" {', '.join(f'{at} ({kind})' for at, kind in KINDS.items())}"
            )
        kind, shape = KINDS[number], tuple(reversed(sizes))
        block = FORMATS[kind].block if kind in FORMATS else 1
        whole = block == 1 or (shape and shape[-1] % block == 0)
        if math.prod(shape) >= MOST_ELEMENTS or not whole:
            raise self.error(
                f"{what} is {kind} of shape {shape}; rows must be whole blocks of"
                f" {block}, and fewer than 2^48 elements"
            )
        return kind, shape, offset

    def value(self, what: str) -> Any:
        """Return a metadata value: a number, a string, or a list of one of these."""
        kind = self.number("<I", what)
        if kind != _ARRAY:
            return self.scalar(kind, what)
        inner = self.number("<I", what)
        if inner == _STRING:
            return [self.text(what) for _ in range(self.count(what, 8))]
        dtype = np.dtype(self.scalar_type(inner, what))
        count = self.count(what, dtype.itemsize)
        return np.frombuffer(self.bytes(count * dtype.itemsize, what), dtype).tolist()

    def scalar(self, kind: int, what: str) -> Any:
        if kind == _STRING:
            return self.text(what)
        dtype = np.dtype(self.scalar_type(kind, what))
        return np.frombuffer(self.bytes(dtype.itemsize, what), dtype)[0].item()

    def scalar_type(self, kind: int, what: str) -> str:
        if kind not in _SCALARS:
            raise self.error(f"{what} is of type {kind}, which there is not")
        return _SCALARS[kind]

    def count(self, what: str, least: int) -> int:
        """Return how many things follow, each of at least so many bytes."""
        found: int = self.number("<Q", what)
        if found * least > self.length - self.at:
            raise self.error(
                f"{what}: there would be {found} of at least {least} bytes, but"
                f" {self.length - self.at} bytes are left"
            )
        return found

    def text(self, what: str) -> str:
        # Tokens of a vocabulary may be parts of a character.
        size = self.number("<Q", what)
        return self.bytes(size, what).decode("utf-8", "surrogateescape")

    def name(self, what: str) -> str:
        """Return a string that errors can show."""
        start = self.at
        found = self.text(what)
        if len(found) > LONGEST_NAME or not found.isprintable():
            raise self.error(
                f"{what} at byte {start} is {found[:40]!r}; it must be printable, of at"
                f" most {LONGEST_NAME} characters"
            )
        return found

    def number(self, kind: str, what: str) -> int:
        found: int = struct.unpack(kind, self.bytes(struct.calcsize(kind), what))[0]
        return found

    def bytes(self, size: int, what: str) -> bytes:
        end = self.at + size
        if end > self.length:
            raise self.error(f"it ends within {what}, at byte {self.length} of {end}")
        found = self.content[self.at : end]
        self.at = end
        return found

    def error(self, problem: str) -> FileFormatError:
        return FileFormatError(f"{self.path}: {problem}")


def write_gguf(
    path: str | Path,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, tuple[str, tuple[int, ...], np.ndarray]],
) -> None:
    """Write a GGUF file of version 3.

    Parameters
    ----------
    path : str or Path
        A file there is replaced once the new one is whole.
    metadata : mapping of str to value
        Bools, strings, integers (32 bits unsigned, or 64), floats (32 bits), and lists
        of one of these; bytes are a list of bytes.
    tensors : mapping of str to (str, tuple of int, ndarray)
        Kind as of `GGUFTensor`, shape, and the bytes.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.part")
    try:
        with beside.open("wb") as file:
            _write(file, metadata, tensors)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _write(
    file: BinaryIO,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, tuple[str, tuple[int, ...], np.ndarray]],
) -> None:
    numbers = {name: number for number, name in KINDS.items()}
    file.write(MAGIC + struct.pack("<IQQ", VERSION, len(tensors), len(metadata)))
    for key, value in metadata.items():
        file.write(_text(key) + _value(value))
    offset = 0
    for name, (kind, shape, data) in tensors.items():
        file.write(_text(name) + struct.pack("<I", len(shape)))
        file.write(struct.pack(f"<{len(shape)}Q", *reversed(shape)))
        file.write(struct.pack("<IQ", numbers[kind], offset))
        offset += -(-data.nbytes // ALIGNMENT) * ALIGNMENT
    for _, _, data in tensors.values():
        file.write(b"\0" * (-file.tell() % ALIGNMENT))
        file.write(np.ascontiguousarray(data).reshape(-1).view(np.uint8).data)
    file.write(b"\0" * (-file.tell() % ALIGNMENT))


def _text(text: str) -> bytes:
    content = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(content)) + content


def _value(value: Any) -> bytes:
    """Return a value after its type."""
    if isinstance(value, list | tuple):
        parts = [_value(each) for each in value]
        kind = parts[0][:4] if parts else struct.pack("<I", _STRING)
        count = struct.pack("<Q", len(parts))
        return struct.pack("<I", _ARRAY) + kind + count + b"".join(p[4:] for p in parts)
    if isinstance(value, bytes):
        return struct.pack("<IIQ", _ARRAY, _BYTE, len(value)) + value
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if 0 <= value < 1 << 32:
        return struct.pack("<II", 4, value)
    return struct.pack("<Iq", 11, value)
