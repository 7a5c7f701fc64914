"""Safetensors files: named tensors on disk.

The format holds names, dtypes, shapes and little-endian elements, and nothing that
could run; other libraries read and write it as well. Two entries of its metadata are
ours: a checksum, and the structure that the tensors are in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize

from vkbackend.errors import ArgumentError

from ..base.device import CPU
from ..base.dtype import DType, as_dtype, bool_, decode, encode
from ..base.errors import DTypeError, FileFormatError
from ..tensor.tensor import Tensor

DTYPE_NAMES = {
    "BOOL": "bool",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}
"""Our dtypes by the format's names; it has others, such as F8_E8M0."""

RESERVED = "__metadata__"
"""The one name that is no tensor's in the format."""

_MOST_HEADER = 100_000_000
"""Bytes of names, dtypes and shapes: readers refuse what is longer."""

# The package leaves its type open.
_deserialize: Callable[[bytes], list[tuple[str, dict[str, Any]]]] = deserialize


STRUCTURE = "vkbackend.structure"
"""Metadata: what the tensors are in, as `structure.pack` gives it."""

_DIGEST = "vkbackend.sha256"
"""Metadata: SHA-256 of the rest of the header and of the elements."""


def encoded(
    tensors: Mapping[str, Tensor],
    structure: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> bytes:
    """Return the content of a file: header size, header as JSON, elements.

    Parameters
    ----------
    tensors : mapping of str to Tensor
        On any device; waits for what they need.
    structure : str or None
        Kept beside them.
    metadata : mapping of str to str, or None
        For other programs.

    Raises
    ------
    ArgumentError
        If names, dtypes, shapes and structure are more than the format holds.

    Notes
    -----
    Source: the format's own description, https://github.com/huggingface/safetensors.
    """
    codes = {name: code for code, name in DTYPE_NAMES.items()}
    header: dict[str, Any] = {}
    noted = dict(metadata or {})
    if structure is not None:
        noted[STRUCTURE] = structure
    if noted:
        header[RESERVED] = noted
    parts: list[bytes] = []
    start = 0
    # The widest elements first, so that all of them are aligned.
    for name in sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize):
        tensor = tensors[name]
        if tensor.dtype.name not in codes:
            raise ArgumentError(
                f"save: {name!r} is {tensor.dtype.name}, which safetensors has no name"
                " for; save it as .pt or .npz, or as view_as_real has it"
            )
        parts.append(encode(tensor.host_copy(), tensor.dtype).tobytes())
        header[name] = {
            "dtype": codes[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [start, start + len(parts[-1])],
        }
        start += len(parts[-1])
    digest = _digest(header, parts)
    noted = {**noted, _DIGEST: digest}
    # The order of the names is that of the tensors, which loading restores.
    header = {**{name: header[name] for name in tensors}, RESERVED: noted}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER:
        raise ArgumentError(
            f"save: names, dtypes, shapes and structure take {len(text)} bytes; the"
            f" format holds {_MOST_HEADER}: use shorter names, or several files"
        )
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def decoded(where: str, content: bytes) -> tuple[dict[str, Tensor], str | None]:
    """Return the tensors of a file's content, on the host, and the structure.

    Raises
    ------
    FileFormatError
        If it is damaged or of another format.
    DTypeError
        If it holds a dtype that the library has not.
    """
    try:
        entries = _deserialize(content)
    except SafetensorError as error:
        raise FileFormatError(
            f"{where}: it is no complete safetensors file: {error};"
            " it may be cut off, or of another format"
        ) from error
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    metadata = header.get(RESERVED) or {}
    digest = metadata.pop(_DIGEST, None)
    if not metadata:
        header.pop(RESERVED, None)
    if digest is not None or STRUCTURE in metadata:
        found = _digest(header, [memoryview(content)[8 + size :]])
        if found != digest:
            raise FileFormatError(
                f"{where}: its content does not fit its checksum: SHA-256 is"
                f" {found[:16]}..., not {str(digest)[:16]}...; it is damaged, or was"
                " changed by a program that kept the checksum"
            )
    known = dict(entries)
    tensors = {
        name: _tensor(where, name, known[name]) for name in header if name in known
    }
    return tensors, metadata.get(STRUCTURE)


def is_name(name: object) -> bool:
    """Return whether the format can hold a tensor under a name."""
    if not isinstance(name, str) or name == RESERVED:
        return False
    return name.isascii() or name == name.encode(errors="replace").decode()


def host_tensor(flat: np.ndarray, dtype: DType, shape: Sequence[int]) -> Tensor:
    """Return a tensor of elements as they are stored.

    Raises
    ------
    ValueError
        If no array has this shape, or this number of elements.
    """
    if dtype is bool_:
        # Other bytes than 0 and 1 would count as they are.
        flat = flat.view(np.uint8) != 0
    elements = flat.reshape(shape)
    return Tensor.from_host(decode(elements, dtype), CPU, dtype)


def _digest(header: Mapping[str, Any], parts: Iterable[bytes | memoryview]) -> str:
    """Return the checksum of elements and of a header without it."""
    text = json.dumps(header, separators=(",", ":"), sort_keys=True)
    digest = hashlib.sha256(text.encode())
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _tensor(where: str, name: str, entry: Mapping[str, Any]) -> Tensor:
    if entry["dtype"] not in DTYPE_NAMES:
        raise DTypeError(
            f"{where}: `{name}` is {entry['dtype']};"
            f" accepted: {', '.join(DTYPE_NAMES.values())}"
        )
    dtype = as_dtype(DTYPE_NAMES[entry["dtype"]])
    flat = np.frombuffer(entry["data"], dtype.storage)
    try:
        return host_tensor(flat, dtype, entry["shape"])
    except ValueError as error:
        # Without elements the format takes any sizes; of dimensions any number.
        problem = f"{where}: `{name}` has no shape: {error}"
        raise FileFormatError(problem) from error
