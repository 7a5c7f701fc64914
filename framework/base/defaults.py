"""Default dtype and device: what factories take where none is given."""

from __future__ import annotations

from . import trace_hooks
from .device import (
    CPU,
    DefaultDevice,
    Device,
    change_setting,
    default_device,
    find_device,
)
from .dtype import Default, DType, DTypeLike, as_dtype, default_dtype
from .errors import DTypeError


def get_default_dtype() -> DType:
    """Return the dtype of Python floats, and of factories that are given none."""
    return default_dtype()


def set_default_dtype(d: DTypeLike) -> None:
    """Set the dtype of Python floats, and of factories that are given none.

    Parameters
    ----------
    d : DType or str
        A float dtype; float32 at first. Integers that become floats take it, too.

    Raises
    ------
    DTypeError
        If the dtype is not a float one.

    Notes
    -----
    It is one for all threads. Cached calls and traces of another one are not used.
    """
    wanted = as_dtype(d)
    if not wanted.is_float:
        raise DTypeError(
            f"set_default_dtype: {wanted.name} is no float dtype; use float32, float64,"
            " float16 or bfloat16"
        )
    trace_hooks.refuse("the default dtype is set, which a replay does not repeat")
    if wanted is not Default.dtype:
        change_setting("default dtype", Default.dtype, wanted)
        Default.dtype = wanted


def get_default_device() -> Device:
    """Return the device of factories that are given none."""
    return default_device()


def set_default_device(device: Device | str | int | None) -> None:
    """Set the device of factories that are given none; None sets the host.

    It is one for all threads; `with device(...)` sets one for a block of one thread.

    Parameters
    ----------
    device : Device, str, int or None
        As `fw.device` takes it.
    """
    trace_hooks.refuse("the default device is set, which a replay does not repeat")
    DefaultDevice.device = CPU if device is None else find_device(device)
