"""Tensors in files, in the safetensors format.

The format holds names, dtypes, shapes and little-endian elements, and nothing that
could run; other libraries read and write it as well.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as encode

from .device import CPU, Device
from .device import device as get_device
from .errors import DTypeError, FileFormatError
from .tensor import Tensor

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
    "F32": "float32",
    "F64": "float64",
}
"""Our dtypes by the format's names; it has others, such as BF16."""


def save(tensors: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Write named tensors, for example a `state_dict`, to a file.

    The file is complete or not there: it is written beside and then put in place of
    what was there before. Views are written as the elements that they show; tensors
    that share storage are written once each.

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
    arrays = {name: _array(name, tensor) for name, tensor in tensors.items()}
    _replace(Path(path), encode(arrays))


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
    if not Path(path).is_file():
        raise FileNotFoundError(f"load: {path}: there is no such file")
    try:
        with safe_open(path, framework="numpy") as file:
            _check_dtypes(path, {k: file.get_slice(k).get_dtype() for k in file.keys()})
            return {
                name: Tensor(file.get_tensor(name), device=place)
                for name in file.keys()
            }
    except SafetensorError as error:
        raise FileFormatError(
            f"load: {path}: it is no complete safetensors file: {error};"
            " it may be cut off, or of another format"
        ) from error


def _check_dtypes(path: str | os.PathLike[str], dtypes: Mapping[str, str]) -> None:
    for name, dtype in dtypes.items():
        if dtype not in _NAMES:
            raise DTypeError(
                f"load: {path}: `{name}` is {dtype};"
                f" accepted: {', '.join(_NAMES.values())}"
            )


def _array(name: object, tensor: object) -> np.ndarray:
    if not isinstance(name, str) or not isinstance(tensor, Tensor):
        raise TypeError(
            f"save: {name!r} is a {type(tensor).__name__};"
            " each name must be a string, each value a tensor"
        )
    return np.ascontiguousarray(tensor.detach().numpy()).reshape(tensor.shape)


def _replace(path: Path, content: bytes) -> None:
    """Write a file at once: readers see what was there before, or all of it."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        scratch.write_bytes(content)
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
