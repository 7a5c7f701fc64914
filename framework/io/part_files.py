"""Folders with the state of several ranks, each of which writes what it has.

A folder has a file for each rank, one with what is no tensor, and an index, which says
where the parts of each tensor are, and how long all files are. The index is put in its
place last, atomically: a folder has the state before or the new one, also where a rank
ends while it writes. A state may be read by any number of ranks.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vkbackend.atomic_file import save_atomically

from ..base.device import CPU
from ..base.dtype import DType, as_dtype
from ..base.errors import DistributedError, FileFormatError
from ..base.shape import Layout
from ..nn.divided import TensorShard, part_of
from ..tensor.tensor import Tensor
from .serialization import load, save

if TYPE_CHECKING:
    from ..communication.group import Group

INDEX = "index.json"
"""Name of the index in a folder."""

FORMAT = 1
"""Version of the index."""

Keys = tuple[str | int, ...]
"""Keys that lead to a leaf of a state."""

_PREFIX = "part-"
"""What the names of the other files begin with."""


def leaves(state: Any, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Yield what nested dictionaries hold, with its keys; of an empty one itself."""
    if isinstance(state, Mapping) and state:
        for key, each in state.items():
            yield from leaves(each, (*keys, key))
    else:
        yield keys, state


def inner_keys(keys: Iterable[Keys]) -> set[Keys]:
    """Return the keys of dictionaries, which may be empty on one rank alone."""
    return {key[:at] for key in keys for at in range(len(key))}


def nested(found: Mapping[Keys, Any]) -> Any:
    """Return the nested dictionaries of leaves by their keys; see `leaves`."""
    if () in found:
        return found[()]
    state: dict[Any, Any] = {}
    for keys, value in found.items():
        at = state
        for key in keys[:-1]:
            at = at.setdefault(key, {})
        at[keys[-1]] = value
    return state


def write_parts(
    state: Mapping[Any, Any], folder: str | os.PathLike[str], group: Group
) -> None:
    """Write a state to a folder; all ranks of a group call it.

    Parameters
    ----------
    state : mapping
        Nested dictionaries with keys that are texts or numbers. Tensors that are parts
        (see `part_of`) are joined; of others, and of what is no tensor, those of the
        first rank that has them count.
    folder : str or path-like
        All ranks see the same one.
    group : Group

    Raises
    ------
    DistributedError
        If a rank cannot write; the folder has the state that it had.
    """
    path = Path(folder)
    own = dict(leaves(state))
    tensors = {key: each for key, each in own.items() if isinstance(each, Tensor)}
    every = group.gather_objects(
        {key: _described(each) for key, each in tensors.items()}
    )
    label = group.broadcast_object(secrets.token_hex(6))
    rest = _objects(own, every, group)
    mine = [key for key in tensors if _writer_of(key, every, group.size) == group.rank]
    mine += [key for key in tensors if every[group.rank][key][2] and key not in mine]
    failure, entries = "", list[Any]()
    sizes: dict[str, int] = {}
    try:
        path.mkdir(parents=True, exist_ok=True)
        entries, sizes = _write_own(
            path, f"{_PREFIX}{label}-{group.rank}.bin", {k: tensors[k] for k in mine}
        )
        if group.rank == 0:
            name = f"{_PREFIX}{label}-objects"
            save([(list(key), x) for key, x in rest.items()], path / name)
            sizes[name] = (path / name).stat().st_size
    except (OSError, TypeError, ValueError) as error:
        failure = f"{type(error).__name__}: {error}"
    found = group.gather_objects((failure, entries, sizes))
    _raise_failures(path, [each for each, _, _ in found])
    if group.rank == 0:
        try:
            _write_index(path, found)
        except OSError as error:
            failure = f"{type(error).__name__}: {error}"
    _raise_failures(path, group.gather_objects(failure))
    if group.rank == 0:
        _remove_others(path, {name for _, _, each in found for name in each})


def _objects(
    own: Mapping[Keys, Any], every: Sequence[Mapping[Keys, Any]], group: Group
) -> dict[Keys, Any]:
    """Return what is no tensor, on rank 0 also what that has not."""
    found = {key: x for key, x in own.items() if not isinstance(x, Tensor)}
    known = set(group.broadcast_object(list(own)))
    others = {key: x for key, x in found.items() if key not in known}
    for each in group.gather_objects(others)[::-1]:
        found.update(each)
    inner = inner_keys([*found, *(key for each in every for key in each)])
    return {key: x for key, x in found.items() if key not in inner}


def _described(tensor: Tensor) -> tuple[str, tuple[int, ...], TensorShard | None]:
    part = part_of(tensor)
    shape = tuple(tensor.shape) if part is None else part.shape
    return tensor.dtype.name, shape, part


def _writer_of(key: Keys, every: Sequence[Mapping[Keys, Any]], size: int) -> int:
    """Return the rank that writes a tensor which is whole; they take turns."""
    having = [rank for rank in range(size) if key in every[rank]]
    if every[having[0]][key][2] is not None:
        return -1
    return having[zlib.crc32(repr(key).encode()) % len(having)]


def _write_own(
    path: Path, name: str, tensors: Mapping[Keys, Tensor]
) -> tuple[list[Any], dict[str, int]]:
    """Write tensors side by side; return their entries in the index, and the size."""
    entries: list[Any] = []
    at = 0
    with (path / name).open("wb") as file:
        for key, each in tensors.items():
            dtype, shape, part = _described(each)
            data = each.detach().stored().tobytes()
            if not data:
                continue
            file.write(data)
            place = None if part is None else [part.dim, *chain(*part.ranges)]
            span = [name, at, len(data), zlib.crc32(data)]
            entries.append([list(key), dtype, list(shape), place, span])
            at += len(data)
        file.flush()
        os.fsync(file.fileno())
    return entries, {name: at}


def _write_index(path: Path, found: Sequence[tuple[str, Any, Any]]) -> None:
    index = {
        "format": FORMAT,
        "tensors": [entry for _, entries, _ in found for entry in entries],
        "files": {name: size for _, _, sizes in found for name, size in sizes.items()},
    }
    text = json.dumps(index, separators=(",", ":"))
    digest = zlib.crc32(text.encode())
    save_atomically(path / INDEX, f"{digest:08x}\n{text}".encode())


def _raise_failures(path: Path, failures: Sequence[str]) -> None:
    for rank, each in enumerate(failures):
        if each:
            raise DistributedError(
                f"save: rank {rank} cannot write to {path}: {each}; the folder has the"
                " state that it had"
            )


def _remove_others(path: Path, kept: set[str]) -> None:
    """Remove files of states before, and of such that were not finished."""
    for each in path.glob(f"{_PREFIX}*"):
        if each.name not in kept:
            each.unlink(missing_ok=True)


def is_part_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder has a state of several ranks."""
    return (Path(path) / INDEX).is_file()


class PartReader:
    """Reader of a folder that `write_parts` has written.

    Parameters
    ----------
    folder : str or path-like

    Attributes
    ----------
    objects : dict of tuple to object
        What is no tensor, by its keys.
    shapes : dict of tuple to tuple of int
        Shapes of the whole tensors, by their keys.

    Raises
    ------
    FileNotFoundError
        If there is no such state.
    FileFormatError
        If the index is damaged, or a file is cut off or missing.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder)
        self._entries: dict[Keys, list[tuple[TensorShard, list[Any]]]] = {}
        self._dtypes: dict[Keys, DType] = {}
        self.shapes: dict[Keys, tuple[int, ...]] = {}
        index = self._index()
        objects = ""
        for name, size in index["files"].items():
            file = self.path / name
            length = file.stat().st_size if file.is_file() else -1
            if length != size:
                state = "is missing" if length < 0 else f"has {length} bytes"
                raise FileFormatError(
                    f"load: {file} {state}, and the index tells of {size}; the state is"
                    " damaged, so load another one"
                )
            objects = name if name.endswith("-objects") else objects
        for keys, dtype, shape, place, span in index["tensors"]:
            key, whole = tuple(keys), tuple(shape)
            dim, *ends = place or (None, 0, math.prod(whole))
            part = TensorShard(whole, dim, tuple(zip(ends[::2], ends[1::2])))
            self._entries.setdefault(key, []).append((part, span))
            self._dtypes[key], self.shapes[key] = as_dtype(dtype), whole
        self.objects: dict[Keys, Any] = {
            tuple(key): value for key, value in load(self.path / objects)
        }

    def _index(self) -> Any:
        file = self.path / INDEX
        if not file.is_file():
            raise FileNotFoundError(
                f"load: {self.path} has no {INDEX}; give a folder that was written by"
                " several ranks"
            )
        digest, _, text = file.read_text("utf-8").partition("\n")
        if digest != f"{zlib.crc32(text.encode()):08x}":
            raise FileFormatError(f"load: {file} is damaged; load another state")
        index = json.loads(text)
        if index.get("format") != FORMAT:
            raise FileFormatError(
                f"load: {file} has format {index.get('format')}; this version reads"
                f" {FORMAT}"
            )
        return index

    def read(self, key: Keys, part: TensorShard | None = None) -> Tensor:
        """Return a tensor on the host, or a part of it.

        Parameters
        ----------
        key : tuple
        part : TensorShard, optional
            Of the same whole shape.

        Raises
        ------
        FileFormatError
            If the elements are damaged, or some are missing.
        """
        whole, dtype = self.shapes[key], self._dtypes[key]
        wanted = part or TensorShard(whole, None, ((0, math.prod(whole)),))
        flat = wanted.dim is None
        sources = self._entries[key]
        if flat and all(each.dim is None for each, _ in sources):
            data = self._joined(key, *wanted.ranges[0])
        else:
            array = np.empty(whole, dtype.storage)
            for each, span in sources:
                each.put(array, self._data(key, span))
            data = np.ascontiguousarray(wanted.of(array)).reshape(-1)
        shape = whole if part is None else part.own_shape
        return Tensor.from_stored(data, Layout.contiguous(shape), CPU, dtype)

    def _joined(self, key: Keys, start: int, stop: int) -> np.ndarray:
        """Return a range of the elements, of sources that have ranges of them."""
        out = np.empty(stop - start, self._dtypes[key].storage)
        filled = 0
        for each, span in self._entries[key]:
            ((first, end),) = each.ranges
            low, high = max(first, start), min(end, stop)
            if low < high:
                data = self._data(key, span)
                out[low - start : high - start] = data[low - first : high - first]
                filled += high - low
        if filled != stop - start:
            raise FileFormatError(
                f"load: {self.path} has {filled} of {stop - start} elements of {key};"
                " the state is damaged, so load another one"
            )
        return out

    def _data(self, key: Keys, span: Sequence[Any]) -> np.ndarray:
        name, start, size, digest = span
        with (self.path / name).open("rb") as file:
            file.seek(start)
            content = file.read(size)
        if zlib.crc32(content) != digest:
            raise FileFormatError(
                f"load: {self.path / name} is damaged where {key} is; load another"
                " state"
            )
        return np.frombuffer(content, self._dtypes[key].storage)
