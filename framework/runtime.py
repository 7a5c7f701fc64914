"""Settings of PyTorch's runtime: threads, determinism, compilation.

Only sums and stores by index depend on determinism; every other kernel is
deterministic.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from .autograd.anomaly_mode import set_detect_anomaly
from .base.defaults import set_default_device, set_default_dtype
from .base.determinism import is_deterministic, set_deterministic
from .base.device import devices, find_device
from .base.dtype import int64
from .base.modes import is_autocast_enabled
from .base.symbolic_number import SymbolicFloat, SymbolicInt
from .nn.module import Module
from .nn.optimized_module import OptimizedModule
from .tensor.from_data import tensor
from .tensor.tensor import Tensor
from .tensor.type_names import TYPES

__all__ = [
    "SymFloat",
    "SymInt",
    "are_deterministic_algorithms_enabled",
    "compile",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_num_interop_threads",
    "get_num_threads",
    "is_autocast_cpu_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_distributed",
    "is_warn_always_enabled",
    "set_anomaly_enabled",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_num_threads",
    "set_warn_always",
    "show_config",
    "sym_float",
    "sym_int",
    "sym_max",
    "sym_min",
    "sym_not",
    "use_deterministic_algorithms",
]


SymInt, SymFloat = SymbolicInt, SymbolicFloat

_MODULES = {"vulkan": "accelerator", "gpu": "accelerator", "cpu": "cpu"}
_MODULES |= {name: name for name in ("cuda", "xpu", "mps")}


def get_device_module(device: Any = None) -> Any:
    """Return the module of functions of a device: `fw.accelerator` of a Vulkan one.

    Parameters
    ----------
    device : Device, str or None
        None is the best Vulkan device, and the host where there is none.

    Raises
    ------
    RuntimeError
        If there is no module of that name.
    """
    if device is None:
        kind = "vulkan" if len(devices()) > 1 else "cpu"
    else:
        kind = str(getattr(device, "type", device)).partition(":")[0]
    if kind not in _MODULES:
        raise RuntimeError(
            f"get_device_module: there is no module of {kind!r}; there is one of"
            f" {', '.join(_MODULES)}"
        )
    return importlib.import_module(f".{_MODULES[kind]}", __package__)


def sym_int(a: Any) -> int:
    """Return a number as an int, towards 0.

    Parameters
    ----------
    a : number
        Not infinite, nor NaN.
    """
    return int(a)


def sym_float(a: Any) -> float:
    """Return a number as a float.

    Parameters
    ----------
    a : number
        Real.
    """
    return float(a)


def sym_max(a: Any, b: Any) -> Any:
    """Return the larger of two numbers; a float if one is.

    Parameters
    ----------
    a, b : number
        Real.
    """
    found = max(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers; a float if one is.

    Parameters
    ----------
    a, b : number
        Real.
    """
    found = min(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_not(a: Any) -> bool:
    """Return the opposite of a truth value.

    Parameters
    ----------
    a : object
        What `not` takes.
    """
    return not a


class _Settings:
    """What was asked for."""

    threads: int | None = None
    interop_threads: int | None = None
    warn_only = False
    warn_always = False


def set_num_threads(num: int) -> None:
    """Note the number of threads of the host; NumPy's stays as it is.

    Parameters
    ----------
    num : int
        What `get_num_threads` returns from now on.

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
    """Note the number of threads between ops, which has no effect.

    Parameters
    ----------
    num : int
        What `get_num_interop_threads` returns from now on.
    """
    _Settings.interop_threads = _positive("set_num_interop_threads", num)


def get_num_interop_threads() -> int:
    """Return the number of threads that was set, or that of the host's cores."""
    return _Settings.interop_threads or os.cpu_count() or 1


def _positive(name: str, num: int) -> int:
    if isinstance(num, int) and num > 0:
        return num
    raise ValueError(f"{name}: num is {num!r}; it must be an int above 0")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Choose whether algorithms must be deterministic.

    Parameters
    ----------
    mode : bool
        False, the default: GPUs may add up floats by index in any order
        (`scatter_add`, `index_add`, `index_put` that accumulates, and from 65,536
        indices on the gradients of indexing and `embedding`), and where 1 Mi or more
        indices of single elements name one several times (`scatter`, `put`,
        `index_copy`, `x[index] = y`), any of them may be written, not the last: that is
        quicker. All else is deterministic.
    warn_only : bool, default False
        Noted only: no op is without a deterministic kernel.

    Notes
    -----
    It is one for all threads. Traces of `jit` with another mode are not used.
    """
    set_deterministic(bool(mode))
    _Settings.warn_only = bool(warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Return what `use_deterministic_algorithms` was told."""
    return is_deterministic()


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return what `use_deterministic_algorithms` was told."""
    return _Settings.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Note whether algorithms must be deterministic: 0 or "default" for no.

    Parameters
    ----------
    debug_mode : {0, 1, 2} or {"default", "warn", "error"}
        1 and 2, or their names, for yes.
    """
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
    return is_deterministic() * (1 if _Settings.warn_only else 2)


def set_flush_denormal(mode: bool) -> bool:
    """Return False: subnormal numbers are not flushed, and stay so.

    Parameters
    ----------
    mode : bool
        Without effect.
    """
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
    """Return a function that is traced and replayed, as `jit`; a module in another.

    Parameters
    ----------
    model : callable or None
        Without it, a decorator is returned.
    fullgraph : bool, default False
        Whether a function raises `TraceError` where a replay could not go on, as
        where it reads a tensor on the host; otherwise the call runs on untraced.
    dynamic, backend, mode, options
        Have no effect: what can be replayed is replayed.
    disable : bool, default False
        Return the callable itself.

    Notes
    -----
    Of a module, an `OptimizedModule` is returned, which has its attributes, and calls
    it as it is. Results keep their place on the tape, so calls whose results require a
    gradient run untraced. `jit` the whole training step to replay it.
    """
    if model is None:

        def decorate(function: Callable[..., Any]) -> Any:
            return compile(function, fullgraph=fullgraph, disable=disable)

        return decorate
    from .jit.trace_cache import Jitted  # programs that trace nothing start without

    if disable or isinstance(model, Jitted | OptimizedModule):
        return model
    if isinstance(model, Module):
        return OptimizedModule(model)
    return Jitted(model, max_traces=8, on_tape=True, breaks=not fullgraph)


def set_default_tensor_type(t: Any) -> None:
    """Set the dtype of factories that are given none, by an old tensor type.

    Parameters
    ----------
    t : type or str
        `fw.FloatTensor` and its like, or "torch.FloatTensor".

    Raises
    ------
    TypeError
        If it is no such type.
    NoVulkanError
        If it is one of CUDA, as "torch.cuda.FloatTensor".
    """
    name = t if isinstance(t, str) else getattr(t, "__name__", repr(t))
    if "cuda" in name.split("."):
        find_device("cuda")
    dtype = TYPES.get(name.rpartition(".")[2])
    if dtype is None or not dtype.is_floating_point:
        raise TypeError(
            f"set_default_tensor_type: the type is {name}; it must be a floating one,"
            " as FloatTensor"
        )
    set_default_dtype(dtype)
    set_default_device(None)


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Set whether `backward` looks for nan; see `autograd.set_detect_anomaly`.

    Parameters
    ----------
    mode : bool
        Whether it does.
    check_nan : bool, default True
        Whether NaN in a gradient is an error then.
    """
    set_detect_anomaly(mode, check_nan)


def set_warn_always(b: bool) -> None:
    """Note whether warnings repeat: Python's `warnings` decides that.

    Parameters
    ----------
    b : bool
        What `is_warn_always_enabled` returns from now on.
    """
    _Settings.warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """Return what `set_warn_always` was told."""
    return _Settings.warn_always


def is_distributed(input: Any) -> bool:
    """Return False: a tensor is on one device.

    Parameters
    ----------
    input : Tensor
        Any.
    """
    return False


def is_autocast_cpu_enabled() -> bool:
    """Return whether autocast is enabled in this thread."""
    return is_autocast_enabled()


def show_config() -> str:
    """Return what the library is built on, as `torch.__config__.show` says."""
    return "vkbackend: kernels are GLSL for Vulkan; the host is NumPy.\n"


def log_api_usage_once(event: str) -> None:
    """Do nothing: what a program uses is not reported."""


def _assert(condition: Any, message: str) -> None:
    """Raise `AssertionError` with a message unless a condition holds."""
    assert condition, message


def _assert_async(condition: Any, message: str = "") -> None:
    """Raise `RuntimeError` unless a tensor of one element is true; it is read.

    Parameters
    ----------
    condition : Tensor
        Of one element.
    message : str, default ""
    """
    if not bool(condition):
        raise RuntimeError(message or "_assert_async: the element is zero")


def _checking(error: type[Exception], name: str) -> Callable[..., None]:
    def check(cond: Any, message: Callable[[], object] | None = None) -> None:
        if not isinstance(cond, bool | SymInt):
            raise TypeError(
                f"{name}: cond is a {type(cond).__name__}; it must be a bool"
            )
        if not cond:
            raise error(
                f"{name}: the condition does not hold"
                if message is None
                else str(message())
            )

    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"""Raise `{error.__name__}` unless a condition holds.

    Parameters
    ----------
    cond : bool
    message : callable, optional
        Returns the text of the error.
    """
    return check


_check = _checking(RuntimeError, "_check")
_check_index = _checking(IndexError, "_check_index")
_check_value = _checking(ValueError, "_check_value")
_check_type = _checking(TypeError, "_check_type")
_check_not_implemented = _checking(NotImplementedError, "_check_not_implemented")


def _shape_as_tensor(self: Tensor) -> Tensor:
    """Return the shape of a tensor as an int64 tensor on the host."""
    return tensor(list(self.shape), dtype=int64)
