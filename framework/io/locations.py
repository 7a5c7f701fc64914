"""What PyTorch's `serialization` has beside loading and saving."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..base.device import Device, find_device
from . import torch_archive

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "location_tag",
    "normalize_storage_type",
    "safe_globals",
]


_allowed: list[Any] = []


def default_restore_location(storage: Any, location: str | Device) -> Any:
    """Return a tensor or storage on the device that a location names."""
    return storage.to(find_device(location))


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let files name classes and functions when `load` reads nothing but data.

    Parameters
    ----------
    safe_globals : sequence
        Classes and functions, or pairs of one and the name that files have for it.
    """
    _allowed.extend(safe_globals)


def clear_safe_globals() -> None:
    """Let files name data alone again."""
    _allowed.clear()


def get_safe_globals() -> list[Any]:
    """Return what files may name beside data."""
    return [*_allowed]


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """Let files name classes and functions within a block; see `add_safe_globals`."""
    before = get_safe_globals()
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _allowed[:] = before


def location_tag(storage: Any) -> str:
    """Return where a storage or a tensor is, as a file tells it."""
    return str(storage.device)


def normalize_storage_type(storage_type: Any) -> Any:
    """Return a class of tensors or storages as it is: there is one for each dtype."""
    return storage_type


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """Return what a file of `torch.save` asks for and `load` refuses.

    Parameters
    ----------
    f : path or binary file
        In the format of PyTorch since 1.6.

    Returns
    -------
    list of str
        Modules and names, sorted; without them the file is loaded.

    Raises
    ------
    FileFormatError
        If it is no such file.
    """
    if isinstance(f, str | os.PathLike):
        content = Path(f).read_bytes()
    else:
        place = f.tell()
        content = f.read()
        f.seek(place)
    names = torch_archive.refused_globals("get_unsafe_globals_in_checkpoint", content)
    return [name for name in names if name not in _allowed_names()]


def _allowed_names() -> set[str]:
    """Return what `add_safe_globals` lets files name, as files name it."""
    return {
        each[1] if isinstance(each, tuple) else f"{each.__module__}.{each.__qualname__}"
        for each in _allowed
    }
