"""PyTorch's protocol `__torch_function__`: who answers a call of a public function.

A class may have a method `__torch_function__`, and a thread may be within modes, which
have one too. Public functions do not ask for them: `interception` replaces the code of
the functions while there is anyone to ask, so that calls cost nothing otherwise.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .late_modules import late_function
from .scoped_setting import ScopedSetting, ScopeFrame, SettingScope

modes = ScopedSetting(())
"""The modes of a thread, the innermost last."""

subclasses = ScopedSetting(True)
"""Whether classes of arguments are asked, in a thread."""

plain: set[type] = set()
"""Classes that have the protocol and are never asked: `Tensor` itself."""

_active: set[object] = set()
_watched: weakref.WeakSet[object] = weakref.WeakSet()
_update = late_function("interception:update")


def disabled_torch_function_impl(
    func: Callable[..., Any],
    types: Sequence[type],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Call the function; a class with it as `__torch_function__` is not asked."""
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs or {})


def is_overloaded(value: object) -> bool:
    """Return whether the class of an argument is asked."""
    kind = type(value)
    if kind in plain or isinstance(value, type):
        return False
    found = getattr(kind, "__torch_function__", disabled_torch_function_impl)
    return found is not disabled_torch_function_impl


def overloaded_args(values: Iterable[Any]) -> list[Any]:
    """Return arguments whose classes are asked, one of each, in the order of asking.

    A subclass comes before its base, others from left to right.
    """
    found: list[Any] = []
    for each in values:
        kind = type(each)
        if not is_overloaded(each) or any(type(other) is kind for other in found):
            continue
        places = [at for at, other in enumerate(found) if issubclass(kind, type(other))]
        found.insert(places[0] if places else len(found), each)
    return found


def relevant_args(args: Iterable[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Return all arguments of a call, and what is in those that are sequences."""
    found: list[Any] = []
    for each in (*args, *kwargs.values()):
        if type(each) is list or type(each) is tuple:
            found.extend(each)
        found.append(each)
    return found


def dispatch(
    func: Callable[..., Any],
    asked: Sequence[Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Return what the innermost mode, or else a class of `asked`, makes of a call.

    Raises
    ------
    TypeError
        If each of them answers `NotImplemented`.
    """
    types = tuple(type(each) for each in asked)
    stack = modes.top.value
    if stack:
        with SettingScope(modes, stack[:-1]):
            result = stack[-1].__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for each in asked:
        result = each.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    names = ", ".join(kind.__name__ for kind in types) or "no argument"
    mode = f", nor is the mode {type(stack[-1]).__name__}" if stack else ""
    raise TypeError(
        f"{getattr(func, '__name__', func)}: no implementation found: {names} is not"
        f" for it{mode}; one __torch_function__ must not return NotImplemented"
    )


def call(
    func: Callable[..., Any],
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Return the result of a public function that was called.

    Parameters
    ----------
    func : callable
        What its user called.
    original : callable
        What it does.
    args, kwargs
        The arguments.
    """
    asked: list[Any] = []
    if subclasses.top.value:
        asked = overloaded_args(relevant_args(args, kwargs))
    if asked or modes.top.value:
        return dispatch(func, asked, args, kwargs)
    return original(*args, **kwargs)


def unseen(
    original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the result of an internal function: no mode sees what it calls."""
    if not modes.top.value:
        return original(*args, **kwargs)
    with SettingScope(modes, ()):
        return original(*args, **kwargs)


def watch(cause: object) -> None:
    """Let the classes of arguments be asked, as long as there is this object."""
    _watched.add(cause)
    _update()


@contextmanager
def asking(cause: object) -> Iterator[None]:
    """Let the classes of arguments be asked within a block."""
    _active.add(cause)
    try:
        _update()
        yield
    finally:
        _active.discard(cause)
        _update()


def is_wanted() -> bool:
    """Return whether there is a mode or a class to ask in any thread."""
    return bool(_active or _watched)


class ModeScope(SettingScope):
    """Block within which a thread has one more mode.

    Parameters
    ----------
    mode : object
        Its `__torch_function__` is called for each call of a public function.
    """

    def __init__(self, mode: Any) -> None:
        super().__init__(modes, mode)

    def value(self, outer: Any) -> Any:
        """Return the modes inside."""
        return (*outer, self._value)

    def on_enter(self, scope_frame: ScopeFrame) -> None:
        """Let the functions ask."""
        _active.add(scope_frame)
        _update()

    def on_exit(self, scope_frame: ScopeFrame) -> None:
        """Let the functions be as they were, where nobody is left to ask."""
        _active.discard(scope_frame)
        _update()


class DisableTorchFunctionSubclass(SettingScope):
    """Block within which the classes of arguments are not asked; modes are."""

    def __init__(self) -> None:
        super().__init__(subclasses, False)

    def _recreate_cm(self) -> DisableTorchFunctionSubclass:
        return type(self)()


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Block within which neither classes of arguments nor modes are asked."""

    def __init__(self) -> None:
        super().__init__()
        self._modes = SettingScope(modes, ())

    def __enter__(self) -> DisableTorchFunction:
        self._modes.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            super().__exit__(*raised)
        finally:
            self._modes.__exit__(*raised)
