"""What PyTorch's `serialization` has beside loading and saving."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..base.device import Device, find_device

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
    "safe_globals",
]


def default_restore_location(storage: Any, location: str | Device) -> Any:
    """Return a tensor or storage on the device that a location names."""
    return storage.to(find_device(location))


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Do nothing: `load` runs no code, whatever a file names."""


def clear_safe_globals() -> None:
    """Do nothing: `load` runs no code, whatever a file names."""


def get_safe_globals() -> list[Any]:
    """Return no functions: `load` runs none."""
    return []


def safe_globals(safe_globals: Sequence[Any]) -> AbstractContextManager[None]:
    """Return a block in which nothing changes: `load` runs no code."""
    return nullcontext()
