"""Functions of PyTorch's protocol for objects like tensors: only tensors are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .base.public_names import public_names as _public_names
from .tensor.tensor import Tensor

__all__ = [
    "get_ignored_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "wrap_torch_function",
]


def is_tensor_like(inp: Any) -> bool:
    """Return whether something is a tensor."""
    return isinstance(inp, Tensor)


def has_torch_function(relevant_args: Any) -> bool:
    """Return False: no function asks its arguments for another implementation."""
    return False


def has_torch_function_unary(argument: Any) -> bool:
    """Return False; see `has_torch_function`."""
    return False


def has_torch_function_variadic(*arguments: Any) -> bool:
    """Return False; see `has_torch_function`."""
    return False


def handle_torch_function(public_api: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Raise `TypeError`: call it only where `has_torch_function` is True."""
    raise TypeError(
        "handle_torch_function: no argument has another implementation; ask"
        " has_torch_function first"
    )


def wrap_torch_function(dispatcher: Any) -> Callable[[Any], Any]:
    """Return a decorator that leaves a function as it is."""

    def wrap(function: Any) -> Any:
        return function

    return wrap


def is_tensor_method_or_property(func: Any) -> bool:
    """Return whether a function is an attribute of `Tensor`."""
    name = getattr(func, "__name__", "")
    return getattr(Tensor, name, None) is func


def get_ignored_functions() -> set[Any]:
    """Return no functions: none can be overridden."""
    return set()


def get_overridable_functions() -> dict[Any, list[Any]]:
    """Return no functions: none can be overridden."""
    return {}


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
