"""The Vulkan device, where PyTorch asks for an accelerator of whatever kind."""

from __future__ import annotations

from typing import Any

from .base.device import Device, GpuDevice, devices, find_device, opened_devices
from .base.public_names import public_names as _public_names
from .eager.base_tensor import evaluate
from .streams import Stream, current_stream

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
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
    """Give memory that no tensor has back to the drivers of all opened devices."""
    for each in opened_devices():
        if isinstance(each, GpuDevice):
            each.gpu.empty_cache()


def memory_stats(device_index: Any = None) -> dict[str, int]:
    """Return bytes and counts of a device's memory by name.

    Parameters
    ----------
    device_index : Device, str, int or None
        None is the best Vulkan device.

    Returns
    -------
    dict
        As `vkbackend.Device.memory_stats` has them; empty of the host.
    """
    device = find_device("gpu" if device_index is None else device_index)
    return device.gpu.memory_stats() if isinstance(device, GpuDevice) else {}


def memory_allocated(device_index: Any = None) -> int:
    """Return the bytes that tensors have on a device, 0 of the host.

    Parameters
    ----------
    device_index : Device, str, int or None
        None is the best Vulkan device.
    """
    return memory_stats(device_index).get("in_use", 0)


def max_memory_allocated(device_index: Any = None) -> int:
    """Return the most bytes that tensors have had since `reset_peak_memory_stats`.

    Parameters
    ----------
    device_index : Device, str, int or None
        As of `memory_allocated`.
    """
    return memory_stats(device_index).get("peak_in_use", 0)


def memory_reserved(device_index: Any = None) -> int:
    """Return the bytes that the pool of a device has from its driver.

    Parameters
    ----------
    device_index : Device, str, int or None
        As of `memory_allocated`.
    """
    return memory_stats(device_index).get("reserved", 0)


def max_memory_reserved(device_index: Any = None) -> int:
    """Return the most bytes that the pool has had since `reset_peak_memory_stats`.

    Parameters
    ----------
    device_index : Device, str, int or None
        As of `memory_allocated`.
    """
    return memory_stats(device_index).get("peak_reserved", 0)


def reset_peak_memory_stats(device_index: Any = None) -> None:
    """Let the peaks of a device begin with what there is now.

    Parameters
    ----------
    device_index : Device, str, int or None
        As of `memory_allocated`.
    """
    device = find_device("gpu" if device_index is None else device_index)
    if isinstance(device, GpuDevice):
        evaluate()
        device.gpu.reset_memory_peaks()


def get_memory_info(device_index: Any = None) -> tuple[int, int]:
    """Return the bytes that a device has left, and all that it has.

    Parameters
    ----------
    device_index : Device, str, int or None
        As of `memory_allocated`.

    Raises
    ------
    ValueError
        If it is the host.
    """
    device = find_device("gpu" if device_index is None else device_index)
    if not isinstance(device, GpuDevice):
        raise ValueError(
            f"accelerator.get_memory_info: the device is {device}, which is the host;"
            " it must be a Vulkan device"
        )
    gpu = device.gpu
    heaps = gpu.info.heaps
    own = max(
        range(len(heaps)), key=lambda at: (heaps[at].device_local, heaps[at].size)
    )
    return gpu.memory.available(own), heaps[own].size


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
