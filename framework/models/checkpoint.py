"""Checkpoints: named tensors on disk, each read when it is asked for.

A folder of Hugging Face's layout, a safetensors file, or a state dict of PyTorch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open

from .. import ops
from ..base.dtype import DType, as_dtype, float32, uint8
from ..base.errors import DTypeError, FileFormatError
from ..base.quantized_format import FORMATS
from ..io.safetensors import DTYPE_NAMES, RESERVED, host_tensor
from ..io.serialization import load as load_file
from ..tensor.quantized import QuantizedTensor
from ..tensor.tensor import Tensor
from .gguf_file import read_gguf

_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
"""Names of weights in a folder, the first choice first; `.index.json` lists parts."""


class _Stored(NamedTuple):
    """A tensor in a safetensors or GGUF file: where its bytes are.

    Where it is quantized `dtype` is that of its elements.
    """

    file: Path
    dtype: DType
    shape: tuple[int, ...]
    start: int
    format: str | None = None


class _Stack(NamedTuple):
    """Tensors of one shape and dtype that are read as one."""

    dtype: DType
    shape: tuple[int, ...]
    parts: tuple[_Stored | _Stack | PackedTensor | Tensor, ...]


class PackedTensor(NamedTuple):
    """A quantized tensor that several tensors are parts of.

    Attributes
    ----------
    dtype : DType
        Of its elements.
    shape : tuple of int
    read : callable
        Returns it.
    """

    dtype: DType
    shape: tuple[int, ...]
    read: Callable[[], QuantizedTensor]


class Checkpoint(Mapping[str, Tensor]):
    """Tensors of a checkpoint by name; each access reads one, onto the host.

    Parameters
    ----------
    path : Path
        What it is of, for messages.
    tensors : dict of str to stored tensor, stack or Tensor

    Notes
    -----
    Safetensors are mapped from disk, so that only what is asked for is read.
    """

    def __init__(
        self,
        path: Path,
        tensors: Mapping[str, _Stored | _Stack | PackedTensor | Tensor],
    ) -> None:
        self.path = path
        self._tensors = dict(tensors)

    def __getitem__(self, name: str) -> Tensor:
        return _read(self._tensors[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def replaced(
        self, parts: Collection[str], made: Mapping[str, PackedTensor | Tensor]
    ) -> Checkpoint:
        """Return the checkpoint with others in place of what they are made of."""
        kept = {name: each for name, each in self._tensors.items() if name not in parts}
        return Checkpoint(self.path, {**kept, **made})

    def stacked(self, parts: Mapping[str, Sequence[str]]) -> Checkpoint:
        """Return the checkpoint with some tensors stacked to one, in their place.

        Parameters
        ----------
        parts : mapping of str to sequence of str
            Names of the tensors that each new one consists of.

        Raises
        ------
        FileFormatError
            If one is missing, or of another shape or dtype than the first.
        """
        tensors = dict(self._tensors)
        for name, each in parts.items():
            first = each[0]
            for part in each:
                if part not in self:
                    raise FileFormatError(f"{self.path}: `{part}` is missing")
                kinds = [(self.shape(of), self.dtype(of)) for of in (part, first)]
                if kinds[0] != kinds[1]:
                    raise FileFormatError(
                        f"{self.path}: `{part}` is {kinds[0][1]} {kinds[0][0]};"
                        f" `{first}` is {kinds[1][1]} {kinds[1][0]}; they must be alike"
                    )
            shape = (len(each), *self.shape(first))
            taken = tuple(tensors.pop(part) for part in each)
            tensors[name] = _Stack(self.dtype(first), shape, taken)
        return Checkpoint(self.path, tensors)

    def quantized(self, name: str) -> QuantizedTensor | None:
        """Return a tensor in the blocks that it is stored in, or None if it is not."""
        found = self._tensors[name]
        if isinstance(found, PackedTensor):
            return found.read()
        if not isinstance(found, _Stored) or found.format is None:
            return None
        return _read_blocks(found, found.format)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, which is not read."""
        return tuple(self._tensors[name].shape)

    def dtype(self, name: str) -> DType:
        """Return the dtype of a tensor, which is not read."""
        return self._tensors[name].dtype

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, {len(self)} tensors)"


def _read(found: _Stored | _Stack | PackedTensor | Tensor) -> Tensor:
    """Return a tensor, which is mapped from disk if it is stored there."""
    if isinstance(found, Tensor):
        return found
    if isinstance(found, PackedTensor):
        return found.read().dequantize()
    if isinstance(found, _Stack):
        return ops.stack([_read(part) for part in found.parts])
    if found.format is not None:
        return _read_blocks(found, found.format).dequantize()
    count = math.prod(found.shape)
    if not count:
        flat = np.empty(0, found.dtype.storage)
    else:
        flat = np.memmap(found.file, found.dtype.storage, "r", found.start, (count,))
    return host_tensor(flat, found.dtype, found.shape)


def _read_blocks(found: _Stored, format: str) -> QuantizedTensor:
    """Return a quantized tensor, which is mapped from disk."""
    size = FORMATS[format].row_size(found.shape[-1])
    shape = (*found.shape[:-1], size)
    flat = np.empty(0, np.uint8)
    if math.prod(shape):
        flat = np.memmap(found.file, np.uint8, "r", found.start, (math.prod(shape),))
    return QuantizedTensor(host_tensor(flat, uint8, shape), format, found.shape[-1])


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Return the tensors of a checkpoint by name.

    Parameters
    ----------
    path : str or Path
        A folder with `model.safetensors` or `pytorch_model.bin`, or with the parts that
        their `.index.json` lists; a safetensors file; a GGUF file, whose quantized
        tensors are float32 unless `Checkpoint.quantized` is asked; or a file of
        `torch.save`, of which nothing but tensors is read.

    Raises
    ------
    FileNotFoundError
        If there is no such file or folder, or a part is missing.
    FileFormatError
        If a file is cut off, damaged, of another format, or holds other things than
        named tensors; `UnsafeFileError` if it asks for code to be run.
    DTypeError
        If a tensor is of a dtype that the library has not.
    """
    path = Path(path)
    if not path.is_dir():
        return Checkpoint(path, _tensors_of(path))
    for name in _WEIGHTS:
        if (path / name).exists():
            return Checkpoint(path, _tensors_of(path / name))
        index = path / f"{name}.index.json"
        if index.exists():
            return Checkpoint(path, _indexed(index))
    raise FileNotFoundError(
        f"open_checkpoint: {path} has no weights; it must hold"
        f" {' or '.join(_WEIGHTS)}, or an .index.json of one"
    )


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises
    ------
    FileFormatError
        If it is no JSON, or no object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: it is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise FileFormatError(
            f"{path}: it holds a {type(found).__name__}; it must be a JSON object"
        )
    return found


def _indexed(index: Path) -> dict[str, _Stored | Tensor]:
    """Return the tensors that an index names, from the parts that have them."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(
        isinstance(part, str) and Path(part).name == part for part in places.values()
    ):
        raise FileFormatError(
            f"{index}: `weight_map` must give each tensor a file of the same folder"
        )
    parts = {part: _tensors_of(index.parent / part) for part in {*places.values()}}
    missing = [name for name, part in places.items() if name not in parts[part]]
    if missing:
        raise FileFormatError(
            f"{index}: `{missing[0]}` is not in {places[missing[0]]}, which it names"
        )
    return {name: parts[part][name] for name, part in places.items()}


def _tensors_of(path: Path) -> dict[str, _Stored | Tensor]:
    """Return the tensors of one file."""
    if path.suffix == ".safetensors":
        return _mapped(path)
    if path.suffix == ".gguf":
        return _of_gguf(path)
    found = load_file(path)
    if isinstance(found, Mapping):
        strange = [
            f"`{name}` is a {type(each).__name__}"
            for name, each in found.items()
            if not (isinstance(name, str) and isinstance(each, Tensor))
        ]
        if not strange:
            return dict(found)
        problem = strange[0]
    else:
        problem = f"it holds a {type(found).__name__}"
    raise FileFormatError(f"{path}: {problem}; it must be tensors by name")


def _of_gguf(path: Path) -> dict[str, _Stored | Tensor]:
    """Return where the tensors of a GGUF file are."""
    return {
        name: _Stored(
            path,
            float32 if each.kind in FORMATS else as_dtype(each.kind),
            each.shape,
            each.start,
            each.kind if each.kind in FORMATS else None,
        )
        for name, each in read_gguf(path).tensors.items()
    }


def _mapped(path: Path) -> dict[str, _Stored | Tensor]:
    """Return where the tensors of a safetensors file are; the header is checked."""
    if not path.is_file():
        raise FileNotFoundError(f"open_checkpoint: there is no file {path}")
    try:
        with safe_open(path, "numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise FileFormatError(
            f"{path}: it is no complete safetensors file: {error}; it may be cut off,"
            " or of another format"
        ) from error
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    tensors: dict[str, _Stored | Tensor] = {}
    for name, entry in header.items():
        if name == RESERVED:
            continue
        if entry["dtype"] not in DTYPE_NAMES:
            raise DTypeError(
                f"{path}: `{name}` is {entry['dtype']};"
                f" accepted: {', '.join(DTYPE_NAMES.values())}"
            )
        dtype = as_dtype(DTYPE_NAMES[entry["dtype"]])
        start = 8 + size + entry["data_offsets"][0]
        tensors[name] = _Stored(path, dtype, tuple(entry["shape"]), start)
    return tensors
