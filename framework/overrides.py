"""PyTorch's protocol `__torch_function__`: modes, and questions about arguments.

Examples
--------
>>> class Names(fw.overrides.TorchFunctionMode):
...     def __torch_function__(self, func, types, args=(), kwargs=None):
...         print(func.__name__)
...         return func(*args, **(kwargs or {}))
>>> with Names():
...     total = (fw.ones(2) * 3).sum()
ones
mul
sum
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from . import interception
from .base import torch_function
from .base.public_names import public_names as _public_names
from .base.torch_function import DisableTorchFunction, DisableTorchFunctionSubclass
from .tensor.methods.subclass import unwrapped_functions as _unwrapped_functions
from .tensor.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

Mode = TypeVar("Mode", bound="TorchFunctionMode")


class TorchFunctionMode:
    """Block within which a method sees the calls of public functions.

    A subclass defines `__torch_function__`. Of nested modes the innermost is called;
    within its method it is off, so that a call there goes to the next one outside.
    Seen are functions, methods, operators and properties that this thread calls, but
    not what they call themselves. Functions that `jit` has made run untraced.

    Examples
    --------
    >>> class Zeros(fw.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         return func(*args, **(kwargs or {})) if func is fw.zeros else 0
    >>> with Zeros():
    ...     fw.rand(3)
    0
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Answer a call of a public function.

        Parameters
        ----------
        func : callable
            The function; of a property, its `__get__` or `__set__`.
        types : sequence of type
            The classes of arguments that have the protocol; not `Tensor`.
        args : tuple
            The arguments by position.
        kwargs : mapping of str, optional
            Those by name.

        Returns
        -------
        object
            What the call returns; `NotImplemented` leaves it to `types`.
        """
        raise NotImplementedError(
            f"{type(self).__name__}: __torch_function__ is missing; define it"
        )

    def __enter__(self: Mode) -> Mode:
        scopes = self.__dict__.setdefault("_scopes", [])
        scopes.append(torch_function.ModeScope(self))
        scopes[-1].__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        scope = self.__dict__["_scopes"].pop()
        scope.__exit__(*raised)

    @classmethod
    def push(cls: type[Mode], *args: Any, **kwargs: Any) -> Mode:
        """Return a mode, as the class does; PyTorch's old way."""
        warnings.warn(
            f"{cls.__name__}.push: it is no longer needed; use {cls.__name__}()",
            stacklevel=2,
        )
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing; subclasses call its method by `super()`."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return what the function returns."""
        return func(*args, **kwargs or {})


def is_tensor_like(inp: Any) -> bool:
    """Return whether something is a tensor, or its class has the protocol.

    Parameters
    ----------
    inp : object
    """
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether a call is for a mode, or for the class of an argument.

    Parameters
    ----------
    relevant_args : iterable
        Arguments that may be tensors.
    """
    if torch_function.modes.top.value:
        return any(True for _ in relevant_args)
    asked = map(torch_function.is_overloaded, relevant_args)
    return torch_function.subclasses.top.value and any(asked)


def has_torch_function_unary(argument: Any) -> bool:
    """Return `has_torch_function` of one argument.

    Parameters
    ----------
    argument : object
    """
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """Return `has_torch_function` of several arguments.

    Parameters
    ----------
    *arguments : object
    """
    return has_torch_function(arguments)


def handle_torch_function(
    public_api: Callable[..., Any],
    relevant_args: Iterable[Any],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Return what modes and the classes of arguments make of a call.

    A function of a program calls it where `has_torch_function` is True.

    Parameters
    ----------
    public_api : callable
        The function that was called.
    relevant_args : iterable
        Its arguments that may be tensors.
    *args, **kwargs : object
        All of its arguments.

    Raises
    ------
    TypeError
        If none of them has an answer.

    Examples
    --------
    >>> def double(x):
    ...     if fw.overrides.has_torch_function_unary(x):
    ...         return fw.overrides.handle_torch_function(double, (x,), x)
    ...     return x * 2
    >>> double(3)
    6
    """
    asked: list[Any] = []
    if torch_function.subclasses.top.value:
        asked = torch_function.overloaded_args(relevant_args)
    return torch_function.dispatch(public_api, asked, args, kwargs)


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that lets a function ask for other answers.

    Parameters
    ----------
    dispatcher : callable
        Takes the function's arguments; returns those that may be tensors.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether a function is an attribute of `Tensor`, or of its properties.

    Parameters
    ----------
    func : callable
    """
    name = getattr(func, "__name__", "")
    return name in ("__get__", "__set__") or getattr(Tensor, name, None) is func


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Return PyTorch's full name of a function, as "torch.nn.functional.relu".

    Parameters
    ----------
    f : callable
        A public function, or `__get__` of a property of `Tensor`; of others None.
    """
    names = [each.name for each in interception.table() if each.func == f]
    return min(names, key=_is_of_tensor, default=None)


def _is_of_tensor(name: str) -> tuple[bool, bool]:
    return name.startswith("torch.Tensor."), name.startswith("torch.Tensor.__")


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return functions whose results `Tensor.__torch_function__` leaves as they are."""
    return {*_unwrapped_functions()}


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return public functions that neither modes nor classes are asked about."""
    names = vars(interception.namespace_of("torch"))
    return {names[name] for name in interception.IGNORED if name in names}


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions that modes and classes are asked about, by namespace."""
    found: dict[Any, list[Callable[..., Any]]] = {}
    for each in interception.table():
        if each.code is each.func or each.func.__name__ == "__get__":
            space: Any = interception.namespace_of(each.name)
            found.setdefault(space, []).append(each.func)
    return found


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
