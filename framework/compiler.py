"""What programs tell PyTorch's compiler: there is `fw.jit`, which needs none of it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from .base import trace_hooks
from .base.public_names import public_names as _public_names

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "mark_dynamic",
    "optimize",
    "reset",
    "set_stance",
]

config = SimpleNamespace(
    suppress_errors=False, cache_size_limit=8, recompile_limit=8, verbose=False
)
"""Settings that programs make, without effect."""


def disable(
    fn: Any = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """Return a function as it is, or a decorator that does.

    Notes
    -----
    `fw.jit` traces what the function does with tensors, as of any other.
    """
    return fn if fn is not None else _same


def _same(fn: Any) -> Any:
    return fn


def allow_in_graph(fn: Any) -> Any:
    """Return a function as it is: every function may be traced."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Return a function as it is: guards watch what it reads."""
    return fn


def optimize(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Return a decorator that leaves a function as it is; see `fw.compile`."""
    return _same


def reset() -> None:
    """Do nothing: a jitted function has its own traces."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing: results of a replay are tensors of their own."""


def mark_dynamic(t: Any, index: Any, **kwargs: Any) -> None:
    """Do nothing: a trace is made for each shape."""


def set_stance(stance: str = "default", **kwargs: Any) -> None:
    """Do nothing: whether a call is replayed does not depend on it."""


def is_compiling() -> bool:
    """Return whether a function of `fw.jit` is being traced."""
    return trace_hooks.running > 0 and trace_hooks.listener() is not None


def is_dynamo_compiling() -> bool:
    """Return whether a function of `fw.jit` is being traced."""
    return is_compiling()


def is_exporting() -> bool:
    """Return False: nothing is exported."""
    return False


def list_backends(exclude_tags: Any = None) -> list[str]:
    """Return the names of the backends: there is one way of compiling."""
    return ["inductor"]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
