"""The host as a device, where PyTorch has its functions for every kind of device."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .base.public_names import public_names as _public_names

__all__ = [
    "current_device",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Return True: the host is always there."""
    return True


def is_initialized() -> bool:
    """Return True: the host is always there."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one host."""


def synchronize(device: Any = None) -> None:
    """Do nothing: the host's work is done when a value is read."""


def stream(stream: Any) -> AbstractContextManager[None]:
    """Return a block in which nothing changes: there are no streams."""
    return nullcontext()


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
