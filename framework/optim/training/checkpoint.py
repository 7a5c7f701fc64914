"""Training checkpoints: one file with all that a training goes on from.

A nested state is written as a safetensors file: its tensors by number, and the
structure around them as JSON in one more tensor of bytes. So the file is written
atomically, and holds nothing that could run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...base.errors import FileFormatError
from ...io.safetensors import load, save
from ...tensor.from_data import as_tensor
from ...tensor.tensor import Tensor

_STRUCTURE = "structure.json"


def save_checkpoint(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a nested state to a file, which is complete or as it was.

    Parameters
    ----------
    state : mapping
        Of tensors, numbers, strings, None, and lists, tuples and mappings of these.
    path : str or path-like

    Raises
    ------
    TypeError
        If the state holds something else.
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_described(state, tensors))
    words = np.frombuffer(text.encode(), np.uint8)
    save({**tensors, _STRUCTURE: as_tensor(words)}, path)


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the state that `save_checkpoint` wrote, its tensors on the host.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileFormatError
        If it is damaged, or no checkpoint of a training.
    """
    tensors = load(path)
    try:
        text = tensors.pop(_STRUCTURE).numpy().tobytes()
        found = _restored(json.loads(text), tensors)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FileFormatError(
            f"fit: {path!s} is no checkpoint of a training; give a file that"
            " `checkpoint=` wrote"
        ) from error
    if not isinstance(found, dict):
        raise FileFormatError(f"fit: {path!s} holds no state of a training")
    return found


def _described(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a value as JSON can hold it; tensors are put aside."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        tensors[str(len(tensors))] = value.detach()
        return {"tensor": str(len(tensors) - 1)}
    if isinstance(value, Mapping):
        pairs = [
            [_described(key, tensors), _described(each, tensors)]
            for key, each in value.items()
        ]
        return {"dict": pairs}
    if isinstance(value, list | tuple):
        name = "tuple" if isinstance(value, tuple) else "list"
        return {name: [_described(each, tensors) for each in value]}
    raise TypeError(
        f"fit: the state of the training has a {type(value).__name__}; a checkpoint"
        " holds tensors, numbers, strings, and lists, tuples and mappings of these"
    )


def _restored(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {
            _restored(key, tensors): _restored(each, tensors) for key, each in content
        }
    members = [_restored(each, tensors) for each in content]
    return tuple(members) if kind == "tuple" else members
