"""Autocast by statements instead of blocks, as PyTorch's `set_autocast_enabled`.

They hold in this thread: within the block that they are called in, or for good.
"""

from __future__ import annotations

from typing import Any

from .dtype import DType, DTypeLike, as_dtype, bfloat16, float16
from .errors import DTypeError
from .modes import (
    AutocastState,
    autocast_state,
    cast_caching,
    count_statement,
    default_dtypes,
    get_autocast_dtype,
)
from .scoped_setting import ScopedSetting

_nesting = ScopedSetting(0)
_statement: ScopedSetting = ScopedSetting(None)


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Switch autocast on or off until the end of the block, or for good.

    Parameters
    ----------
    device_type : str
        Chooses the dtype and the policies; as with `autocast`, it holds for tensors on
        every device. It may be left out, which means "cuda".
    enabled : bool
    """
    if enabled is None:
        device_type, enabled = "cuda", device_type
    if not isinstance(enabled, bool) or not isinstance(device_type, str):
        raise TypeError(
            f"set_autocast_enabled: the arguments are {device_type!r} and {enabled!r};"
            " they must be a type of device and a bool"
        )
    # No cast of a parameter is kept, as no end of a block would free it.
    dtype = _default_of(device_type) if enabled else None
    autocast_state.top.value = AutocastState(dtype, None, device_type == "cpu")
    _statement.top.value = device_type if enabled else None
    count_statement(enabled)


def _default_of(device_type: str) -> DType:
    found: DType | None = default_dtypes.top.value.get(device_type)
    return found or (bfloat16 if device_type == "cpu" else float16)


def set_autocast_dtype(device_type: str, dtype: DTypeLike) -> None:
    """Set the dtype of blocks for a type of device that are given none.

    Parameters
    ----------
    device_type : str
        As `autocast` takes it.
    dtype : DType or str
        float16 or bfloat16.

    Raises
    ------
    DTypeError
        If it is another.
    """
    wanted = as_dtype(dtype)
    if wanted not in (float16, bfloat16):
        raise DTypeError(
            f"set_autocast_dtype: dtype is {wanted.name}; it must be float16 or"
            " bfloat16"
        )
    known: dict[str, DType] = default_dtypes.top.value
    default_dtypes.top.value = {**known, device_type: wanted}
    state: AutocastState = autocast_state.top.value
    if state.dtype is not None and _statement.top.value == device_type:
        autocast_state.top.value = state._replace(dtype=wanted)


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast on or off, in the dtype for the host.

    Parameters
    ----------
    enabled : bool
        Whether ops cast what they are given.
    """
    set_autocast_enabled("cpu", enabled)


def set_autocast_cpu_dtype(dtype: DTypeLike) -> None:
    """Set the dtype of autocast for the host; see `set_autocast_dtype`.

    Parameters
    ----------
    dtype : DType or str
        float16 or bfloat16.
    """
    set_autocast_dtype("cpu", dtype)


def set_autocast_gpu_dtype(dtype: DTypeLike) -> None:
    """Set the dtype of autocast for "cuda" and "gpu"; see `set_autocast_dtype`.

    Parameters
    ----------
    dtype : DType or str
        float16 or bfloat16.
    """
    for device_type in ("cuda", "gpu", "vulkan"):
        set_autocast_dtype(device_type, dtype)


def get_autocast_cpu_dtype() -> DType:
    """Return the dtype of this thread's block, or else that for the host."""
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> DType:
    """Return the dtype of this thread's block, or else that for "cuda"."""
    return get_autocast_dtype("cuda")


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether blocks that are not told otherwise cast a parameter once.

    Parameters
    ----------
    enabled : bool
        False casts it for each op that takes it.
    """
    cast_caching.top.value = bool(enabled)


def is_autocast_cache_enabled() -> bool:
    """Return whether blocks that are not told otherwise cast a parameter once."""
    enabled: bool = cast_caching.top.value
    return enabled


def clear_autocast_cache() -> None:
    """Forget the casts of parameters that this thread's blocks have kept."""
    cache = autocast_state.top.value.cast_cache
    if cache:
        cache.clear()


def autocast_increment_nesting() -> int:
    """Count a level of autocast by hand, and return how many there are."""
    _nesting.top.value += 1
    return int(_nesting.top.value)


def autocast_decrement_nesting() -> int:
    """Count a level of autocast less, and return how many there are."""
    _nesting.top.value -= 1
    return int(_nesting.top.value)
