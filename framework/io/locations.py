"""What PyTorch's `serialization` has beside loading and saving."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..base.device import Device, find_device

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_safe_globals",
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
