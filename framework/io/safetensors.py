"""Safetensors files: named tensors on disk.

The format holds names, dtypes, shapes and little-endian elements, and nothing that
could run; other libraries read and write it as well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize

from vkbackend.atomic_file import save_atomically
from vkbackend.errors import ArgumentError

from ..base.device import CPU, Device
from ..base.device import find_device as get_device
from ..base.dtype import as_dtype, bool_, decode, encode
from ..base.errors import DTypeError, FileFormatError
from ..tensor.tensor import Tensor

_NAMES = {
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
    "F32": "float32",
    "F64": "float64",
}
"""Our dtypes by the format's names; it has others, such as F8_E4M3."""

_RESERVED = "__metadata__"
"""The one name that is no tensor's in the format."""

_MOST_HEADER = 100_000_000
"""Bytes of names, dtypes and shapes: readers refuse what is longer."""

# The package leaves its type open.
_deserialize: Callable[[bytes], list[tuple[str, dict[str, Any]]]] = deserialize


def save(tensors: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Write named tensors, for example a `state_dict`, to a file.

    The file is complete or as it was: it is written beside, waits for the disk, and is
    then put in place of what was there before, whose mode and owner it takes over. A
    link stays and its target is written; a device or pipe is written to. Views are
    written as the elements that they show; tensors that share storage are written once
    each.

    Parameters
    ----------
    tensors : mapping of str to Tensor
        On any device; waits for what they need.
    path : str or path-like
        Usually ends with ".safetensors".

    Raises
    ------
    TypeError
        If a name is no string or a value no tensor.
    ArgumentError
        If the format cannot hold a name, or not so many.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/weights.safetensors"
    >>> fw.save({"weight": fw.tensor([1.0, 2.0])}, path)
    >>> fw.load(path)["weight"].tolist()
    [1.0, 2.0]
    """
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"save: a {type(tensors).__name__} is not accepted; give a mapping of names"
            " to tensors, as state_dict() does"
        )
    for name, tensor in tensors.items():
        _check(name, tensor)
    save_atomically(path, _encoded(tensors))


def load(
    path: str | os.PathLike[str], device: Device | str | None = None
) -> dict[str, Tensor]:
    """Return the named tensors of a safetensors file.

    Parameters
    ----------
    path : str or path-like
        The file.
    device : Device, str or None
        Where the tensors go; None means the host.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileFormatError
        If the file is damaged or of another format.
    DTypeError
        If it holds a dtype that the library has not.
    """
    place = get_device(device or CPU)
    file = Path(os.fsdecode(path))
    if not file.is_file():
        raise FileNotFoundError(f"load: {path!s}: there is no such file")
    try:
        entries = _deserialize(file.read_bytes())
    except SafetensorError as error:
        raise FileFormatError(
            f"load: {path}: it is no complete safetensors file: {error};"
            " it may be cut off, or of another format"
        ) from error
    return {name: _tensor(path, name, entry, place) for name, entry in entries}


def _tensor(
    path: str | os.PathLike[str], name: str, entry: Mapping[str, Any], place: Device
) -> Tensor:
    if entry["dtype"] not in _NAMES:
        raise DTypeError(
            f"load: {path}: `{name}` is {entry['dtype']};"
            f" accepted: {', '.join(_NAMES.values())}"
        )
    dtype = as_dtype(_NAMES[entry["dtype"]])
    flat = np.frombuffer(entry["data"], dtype.storage)
    if dtype is bool_:
        # Other bytes than 0 and 1 would count as they are.
        flat = flat.view(np.uint8) != 0
    try:
        elements = flat.reshape(entry["shape"])
    except ValueError as error:
        # Without elements the format takes any sizes; of dimensions any number.
        problem = f"load: {path}: `{name}` has no shape: {error}"
        raise FileFormatError(problem) from error
    return Tensor.from_data(decode(elements, dtype), dtype, place)


def _encoded(tensors: Mapping[str, Tensor]) -> bytes:
    """Return the content of a file: header size, header as JSON, elements.

    Source: the format's own description, https://github.com/huggingface/safetensors.
    """
    codes = {name: code for code, name in _NAMES.items()}
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    start = 0
    # The widest elements first, so that all of them are aligned.
    for name in sorted(tensors, key=lambda name: -tensors[name].dtype.itemsize):
        tensor = tensors[name]
        parts.append(encode(tensor.detach().numpy(), tensor.dtype).tobytes())
        header[name] = {
            "dtype": codes[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [start, start + len(parts[-1])],
        }
        start += len(parts[-1])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER:
        raise ArgumentError(
            f"save: names, dtypes and shapes take {len(text)} bytes; the format holds"
            f" {_MOST_HEADER}: use shorter names, or several files"
        )
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def _check(name: object, tensor: object) -> None:
    if not isinstance(name, str) or not isinstance(tensor, Tensor):
        raise TypeError(
            f"save: {name!r} is a {type(tensor).__name__};"
            " each name must be a string, each value a tensor"
        )
    if name == _RESERVED:
        raise ArgumentError(
            f"save: the name {name!r} is the format's own; give the tensor another"
        )
    if not name.isascii() and name != name.encode(errors="replace").decode():
        raise ArgumentError(
            f"save: the name {name!r} holds half of a character; it must be whole ones"
        )
