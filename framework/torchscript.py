"""Names of `torch.jit` beside the function `jit`: there is no TorchScript.

What a decorator marks stays the Python function that it is, and runs as one, so that
programs which script parts of themselves give the same results. Files of TorchScript
are neither read nor written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import UnionType
from typing import Any, Final, NoReturn, Union, get_args, get_origin

from . import nn
from .jit import jit

__all__ = [
    "Final",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "boolean_dispatch",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


class TracerWarning(Warning):
    """What PyTorch says of traces that may hold for their inputs alone; not here."""


class ScriptModule(nn.Module):
    """Module as others: nothing is scripted."""


class ScriptFunction:
    """A scripted function, which there is none of: only for `isinstance`."""


def script(obj: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a function, class or module as it is; further arguments have no effect.

    Notes
    -----
    `fw.jit` is what makes a step quicker here: it traces and replays it.
    """
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return a function or module as it is, without calling it.

    Notes
    -----
    PyTorch's records the ops of one call, so that branches on values become fixed; here
    they stay. `fw.jit` replays a recorded call and guards what it depended on.
    """
    return func


def trace_module(mod: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a module as it is; see `trace`."""
    return mod


def script_if_tracing(fn: Any) -> Any:
    """Return a function as it is."""
    return fn


def script_method(fn: Any) -> Any:
    """Return a method as it is."""
    return fn


def export(fn: Any) -> Any:
    """Return a method as it is."""
    return fn


def interface(obj: Any) -> Any:
    """Return a class as it is."""
    return obj


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """Return a function as it is, or a decorator that does."""
    return drop if callable(drop) else export


def unused(fn: Any) -> Any:
    """Return a function as it is."""
    return fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value."""
    return the_value


def freeze(mod: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a module as it is."""
    return mod


def optimize_for_inference(mod: Any, *args: Any, **kwargs: Any) -> Any:
    """Return a module as it is."""
    return mod


def _is_instance(obj: Any, target_type: Any) -> bool:
    """Return whether something is of a type, also one such as `list[Tensor]`.

    Parameters
    ----------
    obj
    target_type : type, annotation, or tuple of these
        Elements of lists, tuples and dictionaries are looked at, too.
    """
    if type(target_type) is tuple:
        return any(_is_instance(obj, each) for each in target_type)
    origin, parts = get_origin(target_type), get_args(target_type)
    if target_type is Any:
        return True
    if origin is None:
        return isinstance(obj, target_type or type(None))
    if origin is Union or origin is UnionType:
        return _is_instance(obj, parts)
    if not isinstance(obj, origin):
        return False
    if origin is dict:
        pairs = [
            (each, parts[at]) for two in obj.items() for at, each in enumerate(two)
        ]
        return all(_is_instance(each, kind) for each, kind in pairs)
    if origin is tuple and parts[-1:] != (...,):
        return len(obj) == len(parts) and all(map(_is_instance, obj, parts))
    return all(_is_instance(each, parts[0]) for each in obj)


def is_scripting() -> bool:
    """Return False: nothing is scripted."""
    return False


def is_tracing() -> bool:
    """Return False: nothing is traced for TorchScript."""
    return False


def get_tracing_state() -> None:
    """Return what a trace that is under way has recorded: nothing, as none is."""


def is_fake(x: object) -> bool:
    """Return whether a tensor has a shape and no elements: none is so."""
    return False


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function now and return its result, which `wait` takes."""
    return func(*args, **kwargs)


def wait(future: Any) -> Any:
    """Return what `fork` returned."""
    return future


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """Return a function that calls one of two, by an argument's value."""

    def chosen(*args: Any, **kwargs: Any) -> Any:
        by_position = args[arg_index] if arg_index < len(args) else default
        is_true = kwargs.get(arg_name, by_position)
        return (if_true if is_true else if_false)(*args, **kwargs)

    chosen.__name__, chosen.__doc__ = func_name, if_true.__doc__
    return chosen


def optimized_execution(should_optimize: bool) -> AbstractContextManager[None]:
    """Return a block in which nothing changes."""
    return nullcontext()


def strict_fusion() -> AbstractContextManager[None]:
    """Return a block in which nothing changes."""
    return nullcontext()


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Do nothing: fusion is the library's own; return no earlier strategy."""
    return []


def onednn_fusion_enabled() -> bool:
    """Return False: there is no such library."""
    return False


def _no_files(name: str) -> NoReturn:
    raise NotImplementedError(
        f"jit.{name}: files of TorchScript are not read or written; save the module's"
        " state_dict() with fw.save, load it with fw.load"
    )


def save(m: Any, f: Any, *args: Any, **kwargs: Any) -> None:
    """Raise `NotImplementedError`: save the state instead."""
    _no_files("save")


def load(f: Any, *args: Any, **kwargs: Any) -> Any:
    """Raise `NotImplementedError`: load a state instead."""
    _no_files("load")


def install() -> None:
    """Make the names attributes of the function `jit` and of its package."""
    package = sys.modules[jit.__module__.rpartition(".")[0]]
    for name in __all__:
        value = globals()[name]
        setattr(jit, name, value)
        setattr(package, name, value)
    for home in (jit, package):
        setattr(home, "isinstance", _is_instance)  # noqa: B010 - hides Python's own
