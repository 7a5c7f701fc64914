"""Folders with a state, which is loaded into the tensors that there are.

One process writes one file; several, or one with parts of tensors, write the files of
`io.part_files`, which any number of processes reads.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..autograd.grad_mode import no_grad
from ..base.errors import DistributedError
from ..base.process_group import ProcessGroup, default_group
from ..base.shape import Size
from ..communication.group import Group, alone
from ..io.part_files import (
    INDEX,
    Keys,
    PartReader,
    is_part_folder,
    leaves,
    nested,
    write_parts,
)
from ..io.serialization import load as load_file
from ..io.serialization import save as save_file
from ..nn.divided import is_staged, owner_of, part_of
from ..nn.module import Module
from ..optim.divided_state import MemoryReader, Reader, marked, model_state
from ..optim.optimizer import Optimizer
from ..tensor.tensor import Tensor

__all__ = [
    "CheckpointException",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "Metadata",
    "async_save",
    "load",
    "load_sharded_optimizer_state_dict",
    "load_state_dict",
    "save",
    "save_state_dict",
]

State = dict[str, Any]
Path_ = str | os.PathLike[str]
FILE = "state.pt"
"""Name of the file in a folder."""


class CheckpointException(BaseException):
    """What another program may catch; nothing here raises it."""


@dataclass
class Metadata:
    """What was written: shapes by name, None for what is no tensor."""

    state_dict_metadata: dict[str, Size | None] = field(default_factory=dict)


class FileSystemWriter:
    """A folder to write a state to; the other parameters have no effect."""

    def __init__(
        self,
        path: Path_,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Any = None,
        serialization_format: Any = None,
    ) -> None:
        self.path = Path(path)
        self.overwrite = overwrite


class FileSystemReader:
    """A folder to read a state from."""

    def __init__(self, path: Path_, _extension_registry: Any = None) -> None:
        self.path = Path(path)

    def read_metadata(self) -> Metadata:
        """Return the shapes of what the folder holds."""
        return _metadata(_whole(self.path))


@dataclass
class DefaultSavePlanner:
    """Options of writing, which have no effect in one process."""

    flatten_state_dict: bool = True
    flatten_sharded_tensors: bool = True
    dedup_replicated_tensors: bool | None = None
    dedup_save_to_lowest_rank: bool = False
    enable_plan_caching: bool = False


@dataclass
class DefaultLoadPlanner:
    """Options of reading: whether names may be missing in what was written."""

    flatten_state_dict: bool = True
    flatten_sharded_tensors: bool = True
    allow_partial_load: bool = False


def _plain(value: Any) -> Any:
    """Return a state in which objects that have one are replaced by it."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Module):
        return model_state(value)
    if isinstance(value, Optimizer):
        return _of_optimizer(value)
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return _plain(value.state_dict())
    return value


def _of_optimizer(optimizer: Optimizer) -> State:
    """Return an optimizer's state by numbers, with parts marked."""
    found = optimizer.state_dict()
    params = [each for group in optimizer.param_groups for each in group["params"]]
    if any(is_staged(each) for each in params):
        raise DistributedError(
            "checkpoint: the optimizer's parameters are those of a stage of a Pipeline,"
            " and their numbers are those of others on the other ranks; pass what"
            " get_optimizer_state_dict(model, optimizer) returns"
        )
    state = {
        number: {key: marked(x, params[number]) for key, x in entry.items()}
        if isinstance(number, int)
        else entry
        for number, entry in found["state"].items()
    }
    return {**found, "state": state}


def _engine(group: ProcessGroup | None) -> Group:
    found: Any = group or default_group()
    engine: Group | None = getattr(found, "engine", found)
    return alone() if engine is None else engine


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves(each, f"{name}.{key}" if name else str(key))
    else:
        yield name, value


def _metadata(state: Any) -> Metadata:
    return Metadata(
        {
            name: Size(each.shape) if isinstance(each, Tensor) else None
            for name, each in _leaves(state)
        }
    )


def _folder(where: str, checkpoint_id: Path_ | None, storage: Any) -> Path:
    if checkpoint_id is None and storage is None:
        raise ValueError(
            f"{where}: neither checkpoint_id nor storage is given; pass a folder"
        )
    return Path(checkpoint_id) if checkpoint_id is not None else storage.path


def save(
    state_dict: State,
    *,
    checkpoint_id: Path_ | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: DefaultSavePlanner | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write a state to a folder, replacing what was written there before.

    Parameters
    ----------
    state_dict : dict
        Tensors, numbers and the like, in further dictionaries too; of an object with
        `state_dict` and `load_state_dict` its state.
    checkpoint_id : path, optional
        The folder, which is made where there is none; by default `storage_writer`'s.
    storage_writer : FileSystemWriter, optional
    process_group : ProcessGroup, optional
        Whose processes all call this; by default the one that was initialised, if any.
        Parts of tensors are joined; of what is whole one process writes each.
    planner, no_dist, use_collectives : object
        Without effect.

    Returns
    -------
    Metadata

    Raises
    ------
    DistributedError
        If a process cannot write; the folder has the state that it had. Of an optimizer
        of a `Pipeline`, whose numbers of parameters are those of others on each rank.
    RuntimeError
        If the folder has a state and the writer may not replace it.
    ValueError
        If no folder is given.

    Notes
    -----
    The folder has one file in the format of `fw.save`, or those of several processes,
    of which an index is written last; PyTorch's has another format.
    """
    engine = _engine(process_group)
    folder = _folder("save", checkpoint_id, storage_writer)
    if storage_writer is not None and not storage_writer.overwrite:
        if (folder / FILE).exists() or is_part_folder(folder):
            raise RuntimeError(
                f"save: {folder} has a state, and overwrite is False; choose another"
                " folder"
            )
    state = _plain(state_dict)
    tensors = [x for _, x in _leaves(state) if isinstance(x, Tensor)]
    if engine.size > 1 or owner_of(tensors) is not None:
        write_parts(state, folder, engine)
        if engine.rank == 0:
            (folder / FILE).unlink(missing_ok=True)
        return _metadata(state)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / FILE)
    (folder / INDEX).unlink(missing_ok=True)
    return _metadata(state)


def async_save(
    state_dict: State,
    *,
    checkpoint_id: Path_ | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: DefaultSavePlanner | None = None,
    process_group: ProcessGroup | None = None,
    async_checkpointer_type: Any = None,
    async_stager: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Future[Metadata]:
    """Write a state as `save`, and return a future that is done."""
    done: Future[Metadata] = Future()
    written = save(
        state_dict,
        checkpoint_id=checkpoint_id,
        storage_writer=storage_writer,
        process_group=process_group,
    )
    done.set_result(written)
    return done


def load(
    state_dict: State,
    *,
    checkpoint_id: Path_ | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: DefaultLoadPlanner | None = None,
    process_group: ProcessGroup | None = None,
    no_dist: bool = False,
) -> None:
    """Read a state into the tensors of another one, in place.

    Parameters
    ----------
    state_dict : dict
        What is read: its tensors get other values, other leaves are replaced, and an
        object with `state_dict` and `load_state_dict` loads its state.
    checkpoint_id : path, optional
        The folder; by default `storage_reader`'s.
    storage_reader : FileSystemReader, optional
    planner : DefaultLoadPlanner, optional
        Whether names may be missing.
    process_group, no_dist : object
        Without effect in one process.

    Raises
    ------
    RuntimeError
        If the folder lacks a name, or a tensor has another shape; nothing is changed.
    ValueError
        If no folder is given.
    """
    folder = _folder("load", checkpoint_id, storage_reader)
    wanted = _plain(state_dict)
    reader = _reader(folder)
    partial = planner is not None and planner.allow_partial_load
    _check(wanted, reader, partial)
    written = nested(
        {
            key: _read(reader, key, each)
            for key, each in leaves(wanted)
            if key in reader.shapes or key in reader.objects
        }
    )
    with no_grad():
        _fill(state_dict, written)


def _whole(folder: Path) -> Any:
    """Return all that a folder holds."""
    reader = _reader(folder)
    tensors = {key: reader.read(key) for key in reader.shapes}
    return nested({**reader.objects, **tensors})


def _reader(folder: Path) -> Reader:
    """Return a reader of what one process has written, or several."""
    if is_part_folder(folder):
        return PartReader(folder)
    return MemoryReader(load_file(folder / FILE))


def _read(reader: Reader, key: Keys, wanted: Any) -> Any:
    if key in reader.objects:
        return reader.objects[key]
    return reader.read(key, part_of(wanted) if isinstance(wanted, Tensor) else None)


def _check(state: State, reader: Reader, partial: bool) -> None:
    for key, value in leaves(state):
        name = ".".join(map(str, key))
        if key not in reader.shapes and key not in reader.objects:
            # A process may have nothing where others have their parts.
            if partial or (isinstance(value, Mapping) and not value):
                continue
            raise RuntimeError(f"load: {name!r} is not in what was written")
        if not isinstance(value, Tensor):
            continue
        part = part_of(value)
        shape = tuple(value.shape) if part is None else part.shape
        found = reader.shapes.get(key, type(reader.objects.get(key)))
        if found != shape:
            raise RuntimeError(
                f"load: {name!r} has shape {shape}, and what was written {found}; they"
                " must be the same"
            )


def _fill(state: Any, written: Mapping[Any, Any]) -> None:
    for key, value in state.items():
        if key not in written:
            continue
        found = written[key]
        if isinstance(value, Tensor):
            value.copy_(found)
        elif isinstance(value, Mapping):
            _fill(value, found)
        elif hasattr(value, "load_state_dict"):
            own = value.state_dict()
            plain = _plain(own)
            _fill(plain, found)
            value.load_state_dict(plain)
        else:
            state[key] = found


def save_state_dict(
    state_dict: State,
    storage_writer: FileSystemWriter,
    process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: DefaultSavePlanner | None = None,
) -> Metadata:
    """Write a state as `save`, which PyTorch recommends instead."""
    return save(state_dict, storage_writer=storage_writer)


def load_state_dict(
    state_dict: State,
    storage_reader: FileSystemReader,
    process_group: ProcessGroup | None = None,
    coordinator_rank: int = 0,
    no_dist: bool = False,
    planner: DefaultLoadPlanner | None = None,
) -> None:
    """Read a state as `load`, which PyTorch recommends instead."""
    load(state_dict, storage_reader=storage_reader, planner=planner)


def load_sharded_optimizer_state_dict(
    model_state_dict: State,
    optimizer_key: str,
    storage_reader: FileSystemReader,
    planner: DefaultLoadPlanner | None = None,
) -> State:
    """Return the state of an optimizer that was written beside a model's.

    Parameters
    ----------
    model_state_dict : dict
        Without effect in one process, which has all of each tensor.
    optimizer_key : str
        What the state was written under.
    storage_reader : FileSystemReader
    planner : object
        Without effect.

    Returns
    -------
    dict
        The state under `optimizer_key`.

    Raises
    ------
    KeyError
        If nothing was written under it.
    """
    written = _whole(storage_reader.path)
    if optimizer_key not in written:
        raise KeyError(
            f"load_sharded_optimizer_state_dict: {storage_reader.path} has no"
            f" {optimizer_key!r}; it has {', '.join(sorted(map(str, written)))}"
        )
    return {optimizer_key: written[optimizer_key]}
