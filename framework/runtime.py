"""Settings of PyTorch's runtime: threads, determinism, compilation.

Results do not depend on a setting here: every kernel is deterministic.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .jit import Jitted, jit

__all__ = [
    "are_deterministic_algorithms_enabled",
    "compile",
    "get_deterministic_debug_mode",
    "get_num_interop_threads",
    "get_num_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "use_deterministic_algorithms",
]


class _Settings:
    """What was asked for."""

    threads: int | None = None
    interop_threads: int | None = None
    deterministic = False
    warn_only = False


def set_num_threads(num: int) -> None:
    """Note the number of threads of the host; NumPy's stays as it is.

    Raises
    ------
    ValueError
        If it is not above 0.
    """
    _Settings.threads = _positive("set_num_threads", num)


def get_num_threads() -> int:
    """Return the number of threads that was set, or that of the host's cores."""
    return _Settings.threads or os.cpu_count() or 1


def set_num_interop_threads(num: int) -> None:
    """Note the number of threads between ops, which has no effect."""
    _Settings.interop_threads = _positive("set_num_interop_threads", num)


def get_num_interop_threads() -> int:
    """Return the number of threads that was set, or that of the host's cores."""
    return _Settings.interop_threads or os.cpu_count() or 1


def _positive(name: str, num: int) -> int:
    if isinstance(num, int) and num > 0:
        return num
    raise ValueError(f"{name}: num is {num!r}; it must be an int above 0")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Note whether algorithms must be deterministic: they always are."""
    _Settings.deterministic, _Settings.warn_only = bool(mode), bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Return what `use_deterministic_algorithms` was told."""
    return _Settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return what `use_deterministic_algorithms` was told."""
    return _Settings.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Note whether algorithms must be deterministic: 0 or "default" for no."""
    levels = {"default": 0, "warn": 1, "error": 2}
    level = levels.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if level not in levels.values():
        raise ValueError(
            f"set_deterministic_debug_mode: debug_mode is {debug_mode!r}; it must be"
            ' "default", "warn", "error", or 0, 1, 2'
        )
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """Return 0, 1 or 2, as `set_deterministic_debug_mode` was told."""
    return _Settings.deterministic * (1 if _Settings.warn_only else 2)


def set_flush_denormal(mode: bool) -> bool:
    """Return False: subnormal numbers are not flushed, and stay so."""
    return False


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Return a function that is traced and replayed, as `jit`; a module as it is.

    Parameters
    ----------
    model : callable or None
        Without it, a decorator is returned.
    fullgraph, dynamic, backend, mode, options
        Have no effect: what can be replayed is replayed.
    disable : bool, default False
        Return the callable itself.

    Notes
    -----
    Results of a replay are off the tape, so a module, which programs train from
    outside, is returned as it is: `jit` the whole training step instead. Functions that
    `jit` refuses raise `TraceError`.
    """
    if model is None:

        def decorate(function: Callable[..., Any]) -> Any:
            return compile(function, disable=disable)

        return decorate
    is_module = hasattr(model, "parameters") and hasattr(model, "forward")
    if disable or is_module or isinstance(model, Jitted):
        return model
    return jit(model)
