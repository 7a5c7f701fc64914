"""Autocast mode: blocks of mixed precision, and the state of a thread.

The policies of ops are in `dispatch.autocast_policy`.
"""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from vkbackend import fork_safety

from .dtype import DTYPES, DType, DTypeLike, as_dtype, bfloat16, float16
from .errors import DTypeError
from .scoped_setting import ScopedSetting, ScopeFrame, SettingScope

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from .device import Device


class AutocastState(NamedTuple):
    """Autocast state of a thread.

    Attributes
    ----------
    dtype : DType or None
        Of the innermost block.
    cast_cache : dict or None
        Copies of parameters made in the outermost block.
    host : bool
        Whether the policies are those that PyTorch has for the host.
    """

    dtype: DType | None = None
    cast_cache: dict[Any, Any] | None = None
    host: bool = False


autocast_state = ScopedSetting(AutocastState())
"""Holds an `AutocastState`."""

default_dtypes: ScopedSetting = ScopedSetting({})
"""Dtypes of blocks that are given none, by the type of device, where they were set."""

cast_caching = ScopedSetting(True)
"""Whether blocks that are not told otherwise keep casts of parameters."""

autocast_blocks = 0
"""Blocks entered in all threads: a quick test for the common case of none."""

# A plain counter would stay wrong after an interrupt beside its update.
_counted: set[ScopeFrame] = set()
# Signal handlers, too, may enter blocks.
_counting = threading.RLock()
fork_safety.renew(sys.modules[__name__], "_counting", threading.RLock)


class autocast(SettingScope):  # noqa: N801 - PyTorch's name
    """Block, or function, in which matrix products run in 16 bits.

    Parameters, optimizer state and precision-sensitive ops stay in float32.
    Call `backward` outside of the block, with `GradScaler` if the dtype is float16.

    Parameters
    ----------
    device_type : str, Device or None
        "cpu" chooses PyTorch's policies for the host, where exponentials, softmax,
        norms and sums keep 16 bits, and bfloat16 as the default dtype; all others
        those for CUDA, and float16. The block is for tensors on every device. A dtype
        may take its place.
    dtype : DType, str or None
        float16 or bfloat16.
    enabled : bool, default True
        False switches the blocks around this one off.
    cache_enabled : bool, default True
        Whether a parameter that is used more than once is cast once, until it changes
        or the outermost block ends.

    Raises
    ------
    DTypeError
        If the dtype is another one. Where the device cannot store it, the first product
        raises.

    Notes
    -----
    Blocks belong to a thread. Under `jit` they may be inside the function or around
    its calls, which then have a trace of their own.

    Examples
    --------
    >>> a = fw.ones((2, 2))
    >>> with fw.autocast("gpu", dtype=fw.bfloat16):
    ...     (a @ a).dtype.name, (a @ a).softmax(-1).dtype.name
    ('bfloat16', 'float32')
    """

    def __init__(
        self,
        device_type: str | Device | DTypeLike | None = None,
        dtype: DTypeLike | bool | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if isinstance(device_type, DType) or device_type in DTYPES:
            enabled = dtype if isinstance(dtype, bool) else enabled
            dtype = as_dtype(device_type)
        elif dtype is None:
            dtype = _default_dtype(str(device_type))
        wanted = as_dtype(dtype)  # type: ignore[arg-type]  # it refuses a bool
        if enabled and wanted not in (float16, bfloat16):
            raise DTypeError(
                f"autocast: dtype is {wanted.name}; it must be float16 or bfloat16"
            )
        super().__init__(autocast_state, None)
        self._dtype = wanted if enabled else None
        self._host = str(device_type) == "cpu"
        own = cast_caching.top.value if cache_enabled is None else cache_enabled
        self._cache = bool(own)

    def _recreate_cm(self) -> autocast:
        # As a decorator: each call has a block of its own.
        return _autocast(*self._settings())

    def _settings(self) -> tuple[DType | None, bool, bool]:
        return self._dtype, self._cache, self._host

    def __repr__(self) -> str:
        if self._dtype is None:
            return "autocast(enabled=False)"
        place = '"cpu", ' if self._host else ""
        cache = "" if self._cache else ", cache_enabled=False"
        return f"autocast({place}dtype={self._dtype.name}{cache})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _autocast, self._settings()

    def value(self, outer: AutocastState) -> AutocastState:
        """Return the autocast state within the block."""
        known = {} if outer.cast_cache is None else outer.cast_cache
        return AutocastState(self._dtype, known if self._cache else None, self._host)

    def on_enter(self, scope_frame: ScopeFrame) -> None:
        """Count the block."""
        global autocast_blocks
        with _counting:
            _counted.add(scope_frame)
            autocast_blocks = len(_counted)

    def on_exit(self, scope_frame: ScopeFrame) -> None:
        """Uncount the block."""
        global autocast_blocks
        with _counting:
            _counted.discard(scope_frame)
            autocast_blocks = len(_counted)


def _autocast(dtype: DType | None, cache: bool, host: bool) -> autocast:
    """Return a block of `autocast` by its settings; None is one that is not enabled."""
    place = "cpu" if host else None
    return autocast(place, dtype or float16, dtype is not None, cache)


def autocast_again() -> Callable[[], autocast]:
    """Return what makes blocks with the autocast mode that this thread has now."""
    state: AutocastState = autocast_state.top.value
    dtype = autocast_dtype()
    return lambda: _autocast(dtype, cast_caching.top.value, state.host)


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Return whether autocast is enabled in this thread, for every device.

    Parameters
    ----------
    device_type : str or None
        "cpu", "gpu" or "cuda"; the answer is the same for each.
    """
    return autocast_dtype() is not None


def is_autocast_available(device_type: str) -> bool:
    """Return whether autocast works for a type of device: for those that there are.

    Parameters
    ----------
    device_type : str
        "cpu", "gpu" or "cuda".
    """
    return device_type in ("cpu", "gpu", "vulkan")


def get_autocast_dtype(device_type: str) -> DType:
    """Return the dtype of this thread's block, or else the default of a device.

    Parameters
    ----------
    device_type : str
        "cpu", "gpu" or "cuda".
    """
    return autocast_dtype() or _default_dtype(device_type)


def _default_dtype(device_type: str) -> DType:
    found: DType | None = default_dtypes.top.value.get(device_type)
    return found or (bfloat16 if device_type == "cpu" else float16)


def count_statement(enabled: bool) -> None:
    """Count the innermost block, or what is outside of all, as one with autocast."""
    global autocast_blocks
    scope_frame = autocast_state.top
    with _counting:
        if enabled:
            _counted.add(scope_frame)
        elif scope_frame.outer is None:
            _counted.discard(scope_frame)
        autocast_blocks = len(_counted)


def autocast_mode() -> tuple[DType | None, bool]:
    """Return the dtype of this thread's block, and whether it is one for the host."""
    state: AutocastState = autocast_state.top.value
    dtype = state.dtype if autocast_blocks else None
    return dtype, dtype is not None and state.host


def autocast_dtype() -> DType | None:
    """Return the dtype of products in this thread's block, or None outside of one."""
    found: AutocastState = autocast_state.top.value
    return found.dtype if autocast_blocks else None


class _AutocastDisabled(SettingScope):
    def value(self, outer: AutocastState) -> AutocastState:
        return AutocastState(None, outer.cast_cache, outer.host)


def autocast_disabled() -> AbstractContextManager[object]:
    """Return a block in which autocast is disabled."""
    return (
        nullcontext()
        if autocast_dtype() is None
        else _AutocastDisabled(autocast_state, None)
    )


class _IsolatedCastCache(SettingScope):
    def value(self, outer: AutocastState) -> AutocastState:
        return outer._replace(cast_cache=None if outer.cast_cache is None else {})


def isolated_cast_cache() -> AbstractContextManager[object]:
    """Return a block with its own cast cache, as its ops may run elsewhere."""
    return _IsolatedCastCache(autocast_state, None)
