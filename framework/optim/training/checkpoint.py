"""Training checkpoints: one file with all that a training goes on from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...base.errors import FileFormatError
from ...io.serialization import load, save


def save_checkpoint(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a nested state to a file, which is complete or as it was; see `save`."""
    save(dict(state), path)


def load_checkpoint(
    path: str | os.PathLike[str], names: frozenset[str]
) -> dict[str, Any]:
    """Return the state that `save_checkpoint` wrote, its tensors on the host.

    Parameters
    ----------
    path : str or path-like
    names : frozenset of str
        What a state of a training has.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileFormatError
        If it is damaged, or no checkpoint of a training.
    """
    found = load(path)
    if isinstance(found, dict) and "within" in names:
        # Older ones are of whole epochs.
        found.setdefault("within", None)
    if not isinstance(found, dict) or found.keys() != names:
        raise FileFormatError(
            f"fit: {path!s} is no checkpoint of a training; give a file that"
            " checkpoint= wrote"
        )
    return found
