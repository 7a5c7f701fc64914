"""The Vulkan device, where PyTorch asks for an accelerator of whatever kind."""

from __future__ import annotations

from typing import Any

from .base.device import Device, devices, find_device, opened_devices
from .base.public_names import public_names as _public_names
from .eager.base_tensor import evaluate
from .streams import Stream, current_stream

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "empty_cache",
    "is_available",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def device_count() -> int:
    """Return the number of Vulkan devices."""
    return sum(name != "cpu" for name in devices())


def is_available() -> bool:
    """Return whether there is a Vulkan device."""
    return device_count() > 0


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return the best Vulkan device, or None if there is none."""
    return find_device("gpu") if is_available() else None


def current_device_index() -> int:
    """Return 0: the best device comes first."""
    return 0


def set_device_index(device: Any) -> None:
    """Refuse another device than the best.

    Raises
    ------
    NotImplementedError
        If the index is not 0: name the device where tensors are made.
    """
    if device not in (0, "gpu", None):
        raise NotImplementedError(
            f"accelerator.set_device_index: the index is {device!r}; tensors are made"
            " on a device that their maker is given, as device=fw.device(1)"
        )


def synchronize(device: Any = None) -> None:
    """Compute everything that is pending, and wait for it.

    Parameters
    ----------
    device : Device, str, int or None
        Which device to wait for; None means all that have been opened.
    """
    if device is not None:
        found = find_device(device)
        evaluate()
        found.synchronize()
        return
    evaluate()
    for each in opened_devices():
        each.synchronize()


def set_stream(stream: Stream) -> None:
    """Do nothing: a device has one stream."""


def empty_cache() -> None:
    """Do nothing: the pool gives blocks back by itself."""


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
