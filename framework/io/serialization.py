"""Saving and loading: one file for all that a training run goes on from."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from vkbackend.atomic_file import save_atomically

from ..base.device import CPU, Device, find_device
from ..base.errors import FileFormatError
from ..tensor.storage import UntypedStorage
from ..tensor.tensor import Tensor
from . import safetensors, structure, torch_archive, torch_writer
from .locations import get_safe_globals

File = str | os.PathLike[str] | IO[bytes]
"""A path, or an open file that takes or gives bytes."""

Location = Device | str | int | Mapping[str, str] | Callable[[Any, str], Any] | None
"""Where loaded tensors go; see `load`."""

PROTOCOL = 2
"""What PyTorch's programs name as the protocol of pickles."""


def save(
    obj: object,
    f: File,
    pickle_module: Any = None,
    pickle_protocol: int = PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write tensors, and what they are in, to one file.

    The file is complete or as it was: it is written beside, waits for the disk, and is
    then put in place of what was there before, whose mode and owner it takes over. A
    link stays and its target is written; a device or pipe is written to.

    Parameters
    ----------
    obj : object
        Tensors on any device, numbers, strings, bytes, None, dtypes, devices, NumPy
        arrays; and dicts, lists, tuples and sets of them, as state dicts are. Waits for
        what the tensors need. Modules, optimizers and whatever else has a pickle are
        written as PyTorch does; `load` reads these with `weights_only=False` alone.
    f : str, path-like or binary file
        Where to. A name that ends with ".pt" or ".pth" makes a file for `torch.load`.
    pickle_module, pickle_protocol
        Have no effect.

    Raises
    ------
    TypeError
        If a part has no pickle, as a function within another; or is no data, and the
        name ends with ".safetensors". Nothing has been written then.
    ValueError
        If a part contains itself or is nested deeper than 100 levels; nothing has been
        written then.
    ArgumentError
        If names, shapes and structure are more than the format holds.
    OSError
        If the file cannot be written.

    Notes
    -----
    Other files are in the safetensors format, with a checksum; a dict of tensors by
    name is a plain such file, which holds no `requires_grad`. Anything else has its
    structure as JSON beside the tensors. Views are written as the elements
    that they show; a tensor that is there twice is written once, and loaded once.

    Files for `torch.load` hold storages whole, and views of them, as PyTorch writes
    them; tensors and devices are on the host there. NumPy arrays in them are objects
    as others.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/checkpoint.safetensors"
    >>> fw.save({"epoch": 3, "weights": [fw.tensor([1.0, 2.0])]}, path)
    >>> fw.load(path)
    {'epoch': 3, 'weights': [tensor([1., 2.])]}
    """
    name = f if _is_path(f) else getattr(f, "name", "")
    content = _content(obj, name)
    if _is_path(f):
        save_atomically(os.fspath(f), content)  # type: ignore[arg-type]
        return
    if not hasattr(f, "write"):
        raise TypeError(
            f"save: f is a {type(f).__name__}; it must be a path or a binary file"
        )
    f.write(content)


PICKLE_LOAD_ARGS = {"fix_imports", "encoding", "errors", "buffers"}
"""Keywords of `pickle.load`, which PyTorch's `load` passes on."""


def load(
    f: File,
    map_location: Location = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Return what `save` has written, or `torch.save`.

    No code runs, whatever the file holds, unless `weights_only` is False.

    Parameters
    ----------
    f : str, path-like or binary file
        Where from; a file is read from where it stands to its end.
    map_location : Device, str, int, mapping, callable or None
        Where the tensors go; None means the host. A mapping goes from the location that
        the file tells, "cpu" of what `save` wrote, to another. A function takes a
        storage on the host and that location, and returns a storage on the device that
        it wants, or None for the host.
    weights_only : bool, optional
        Whether nothing but data is loaded; None as True. False lets the file make any
        object, and run any code: for files of one's own.
    pickle_module, **pickle_load_args
        Have no effect.
    mmap : bool, optional
        Has no effect, except that `f` must be a path then.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileFormatError
        If the file is cut off, damaged or of another format; `UnsafeFileError` if it
        asks for more than tensors, numbers, strings and containers.
    DTypeError
        If it holds a dtype that the library has not.
    TypeError
        If there is another keyword than `pickle.load` takes.
    ValueError
        If `mmap` is true and `f` no path.

    Notes
    -----
    The pickle in a file of `torch.save` is read by an interpreter that knows opcodes
    and names of data alone. PyTorch puts tensors where they were when they were saved.
    Here they come to the host, as the machine that loads may have other devices.
    """
    if mmap and not _is_path(f):
        raise ValueError(
            f"load: mmap is True and f a {type(f).__name__}; it must be a path then"
        )
    unknown = pickle_load_args.keys() - PICKLE_LOAD_ARGS
    if unknown:
        raise TypeError(
            f"load: {', '.join(sorted(unknown))} is unknown; where tensors go is"
            " map_location"
        )
    where, content = _read(f)
    if content.startswith((torch_archive.MAGIC, torch_archive.LEGACY)):
        return torch_archive.read(
            where,
            content,
            lambda tensor, location: _place(where, tensor, location, map_location),
            None if weights_only is False else get_safe_globals(),
        )
    tensors, text = safetensors.decoded(where, content)
    tensors = {
        name: each.to(_place(where, each, "cpu", map_location))
        for name, each in tensors.items()
    }
    return tensors if text is None else structure.unpack(where, text, tensors)


def _content(obj: object, name: Any) -> bytes:
    known = isinstance(name, str | bytes | os.PathLike)
    path = os.fsdecode(name) if known else ""
    if not path.endswith((".pt", ".pth")) and _is_flat(obj):
        return safetensors.encoded(obj)  # type: ignore[arg-type]
    try:
        if path.endswith((".pt", ".pth")):
            return torch_writer.archive(obj)
        tensors, text = structure.pack(obj)
    except TypeError as error:
        if path.endswith(".safetensors"):
            raise
        return _objects(obj, error)
    return safetensors.encoded(tensors, text)


def _objects(obj: object, refusal: TypeError) -> bytes:
    """Return a file of objects that are no data, for `load(weights_only=False)`."""
    try:
        return torch_writer.object_archive(obj)
    except _NO_PICKLE as error:
        raise refusal from error


_NO_PICKLE = (AttributeError, RecursionError, TypeError, pickle.PicklingError)


def _is_flat(obj: object) -> bool:
    """Return whether something is a dict of named tensors, that needs no structure."""
    return isinstance(obj, Mapping) and all(
        safetensors.is_name(name) and isinstance(each, Tensor) and not each.is_wrapper
        for name, each in obj.items()
    )


def _is_path(f: object) -> bool:
    return isinstance(f, str | bytes | os.PathLike)


def _read(f: File) -> tuple[str, bytes]:
    """Return how errors name a file, and its content."""
    if isinstance(f, str | bytes | os.PathLike):
        path = Path(os.fsdecode(f))
        if not path.is_file():
            raise FileNotFoundError(f"load: {path}: there is no such file")
        return f"load: {path}", path.read_bytes()
    if not hasattr(f, "read"):
        raise TypeError(
            f"load: f is a {type(f).__name__}; it must be a path or a binary file"
        )
    where = f"load: {getattr(f, 'name', f'<{type(f).__name__}>')}"
    content = f.read()
    if not isinstance(content, bytes):
        raise FileFormatError(f"{where}: it was opened as text; open it with 'rb'")
    return where, content


def _place(where: str, tensor: Tensor, location: str, wanted: Location) -> Device:
    """Return the device that a tensor goes to."""
    if wanted is None:
        return CPU
    if isinstance(wanted, Device | str | int):
        return find_device(wanted)
    if isinstance(wanted, Mapping):
        return find_device(wanted.get(location, "cpu"))
    if not callable(wanted):
        raise TypeError(
            f"load: map_location is a {type(wanted).__name__}; it must be a device, a"
            " mapping or a function"
        )
    storage = wanted(UntypedStorage(tensor), location)
    place = CPU if storage is None else getattr(storage, "device", None)
    if not isinstance(place, Device):
        raise TypeError(
            f"{where}: map_location returned a {type(storage).__name__}; it must return"
            " a storage or None"
        )
    return place
