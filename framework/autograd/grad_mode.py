"""Grad modes: whether ops are recorded on the tape, by block, function or statement."""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections.abc import Callable, Generator
from typing import Any, TypeVar, cast, overload

from ..base import inference
from ..base.scoped_setting import ScopedSetting, ScopeFrame, SettingScope

Function = TypeVar("Function", bound=Callable[..., Any])

grad_mode = ScopedSetting(True)
"""Whether ops are recorded; read where a call of `is_grad_enabled` costs too much."""


def is_grad_enabled() -> bool:
    """Return whether ops are recorded for `backward` in this thread."""
    enabled: bool = grad_mode.top.value
    return enabled


def is_inference_mode_enabled() -> bool:
    """Return whether this thread is in a block of `inference_mode`."""
    enabled: bool = inference.mode.top.value
    return enabled


def is_inference(input: Any) -> bool:
    """Return whether a tensor is an inference tensor; see `inference_mode`.

    Parameters
    ----------
    input : Tensor
        Any dtype.
    """
    found: bool = input.is_inference()
    return found


class set_multithreading_enabled:  # noqa: N801 - PyTorch's name
    """Block that accepts whether backward passes use threads; they use the caller's.

    Parameters
    ----------
    mode : bool
        It has no effect: the device works beside the host in any case.
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: object) -> None:
        pass


class GradScope(SettingScope):
    """Block, or decorator, with another grad mode.

    Notes
    -----
    A generator function has the mode whenever it runs, and its caller never. The same
    holds of coroutines and asynchronous generators, which PyTorch's decorators leave
    in the caller's mode.
    """

    def __call__(self, function: Function) -> Function:
        """Return the function with a block of its own in each call."""
        if inspect.isclass(function):
            warnings.warn(
                f"a grad mode decorates the class {function.__name__}: only its"
                " constructor runs in it; decorate the methods themselves",
                FutureWarning,
                stacklevel=2,
            )
        return cast(Function, _decorated(self._recreate_cm, function))

    def __repr__(self) -> str:
        return "enable_grad()" if self._value else "no_grad()"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # A block of its own, that nobody has entered.
        return enable_grad if self._value else no_grad, ()


def _decorated(
    block: Callable[[], Any], function: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function that runs in a new block, also where it is suspended."""
    wrapper: Callable[..., Any]
    if inspect.isgeneratorfunction(function):

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return (yield from _driven(block, function(*args, **kwargs)))

    elif inspect.iscoroutinefunction(function):

        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            return await _awaited(_driven(block, function(*args, **kwargs)))

    elif inspect.isasyncgenfunction(function):

        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            source, request = function(*args, **kwargs), None
            try:
                while True:
                    step = source.asend(request).__await__()
                    request = yield await _awaited(_driven(block, step))
            except StopAsyncIteration:
                return
            finally:
                await source.aclose()

    else:

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with block():
                return function(*args, **kwargs)

    return functools.update_wrapper(wrapper, function)


@types.coroutine
def _awaited(steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    return (yield from steps)


def _driven(block: Callable[[], Any], source: Any) -> Generator[Any, Any, Any]:
    """Yield what a generator or coroutine does, each of its steps in a block."""
    step: Callable[[], Any] = functools.partial(source.send, None)
    try:
        while True:
            with block():
                response = step()
            try:
                step = functools.partial(source.send, (yield response))
            except GeneratorExit:
                with block():
                    source.close()
                raise
            except BaseException as error:
                step = functools.partial(source.throw, error)
    except StopIteration as end:
        return end.value


class set_grad_enabled(GradScope):  # noqa: N801 - PyTorch's name
    """Record, or do not record, ops on the tape.

    In force within the block, or the function; or, called on its own, from then on:
    until the end of the enclosing block, or for good.

    Parameters
    ----------
    mode : bool
        Whether they are recorded.

    Examples
    --------
    >>> before = set_grad_enabled(False)
    >>> is_grad_enabled()
    False
    >>> before = set_grad_enabled(True)
    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        if type(mode) is not bool:
            raise TypeError(
                f"set_grad_enabled: mode is a {type(mode).__name__}; it must be a bool"
            )
        super().__init__(grad_mode, mode)
        scope_frame = grad_mode.top
        self._called: tuple[ScopeFrame, bool] | None = (scope_frame, scope_frame.value)
        scope_frame.value = mode

    def _recreate_cm(self) -> Any:
        return GradScope(grad_mode, self._value)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self._value})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _block_without_call, (self._value,)

    def _take_back(self) -> None:
        """Restore the enclosing setting, as this is a block or a decorator."""
        if self._called is not None:
            scope_frame, before = self._called
            scope_frame.value = before
            self._called = None

    def __enter__(self) -> set_grad_enabled:
        self._take_back()
        return super().__enter__()

    def __call__(self, function: Function) -> Function:
        """Return the function with a block of its own in each call."""
        self._take_back()
        return super().__call__(function)


def _block_without_call(mode: bool) -> set_grad_enabled:
    """Return a `set_grad_enabled` that leaves the mode of its caller as it is."""
    block = set_grad_enabled(mode)
    block._take_back()
    return block


@overload
def no_grad(orig_func: None = None) -> GradScope: ...
@overload
def no_grad(orig_func: Function) -> Function: ...
def no_grad(orig_func: Any = None) -> Any:
    """Return a context in which nothing is recorded; also works as a decorator.

    Parameters
    ----------
    orig_func : callable or None
        The function, where it decorates one without parentheses.

    Notes
    -----
    The context ends at the latest when nothing refers to it any more, so
    `no_grad().__enter__()` on its own does nothing: `set_grad_enabled(False)` stays in
    force.

    Examples
    --------
    >>> with no_grad():
    ...     is_grad_enabled()
    False
    >>> @no_grad
    ... def enabled():
    ...     return is_grad_enabled()
    >>> enabled()
    False
    """
    scope = GradScope(grad_mode, False)
    return scope if orig_func is None else scope(orig_func)


@overload
def enable_grad(orig_func: None = None) -> GradScope: ...
@overload
def enable_grad(orig_func: Function) -> Function: ...
def enable_grad(orig_func: Any = None) -> Any:
    """Return a context in which ops are recorded, also inside `no_grad`.

    Also works as a decorator, with and without parentheses.

    Parameters
    ----------
    orig_func : callable or None
        A function to decorate; None makes a context or a decorator.
    """
    scope = GradScope(grad_mode, True)
    return scope if orig_func is None else scope(orig_func)


class inference_mode:  # noqa: N801 - PyTorch's name
    """Block, or function, in which nothing is recorded and nothing will be.

    Parameters
    ----------
    mode : bool or callable, default True
        False leaves the mode inside of another block of it: ops are recorded. A
        callable is decorated, as without parentheses.

    Notes
    -----
    Tensors made in the block are inference tensors for good, but not views of others.
    Outside of it they are neither changed in place nor saved for `backward`: use a
    `clone` of one.

    Examples
    --------
    >>> with inference_mode():
    ...     is_grad_enabled(), is_inference_mode_enabled()
    (False, True)
    """

    def __new__(cls, mode: Any = True) -> Any:
        """Return a block, or the decorated function."""
        made = super().__new__(cls)
        if callable(mode):
            made.__init__(True)  # type: ignore[misc]  # as Python does not
            return made(mode)
        return made

    def __init__(self, mode: bool = True) -> None:
        self.mode = bool(mode)
        self._scopes: list[tuple[SettingScope, SettingScope]] = []

    def __enter__(self) -> None:
        inner = GradScope(grad_mode, not self.mode)
        outer = inference.InferenceScope(inference.mode, self.mode)
        self._scopes.append((outer, inner))
        outer.__enter__()
        inner.__enter__()

    def __exit__(self, *raised: object) -> None:
        outer, inner = self._scopes.pop()
        try:
            inner.__exit__(*raised)
        finally:
            outer.__exit__(*raised)

    def __repr__(self) -> str:
        return f"inference_mode(mode={self.mode})"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(self), (self.mode,)

    def clone(self) -> inference_mode:
        """Return another block of the same mode."""
        made: inference_mode = type(self)(self.mode)
        return made

    def __call__(self, function: Function) -> Function:
        """Return the function with a block of its own in each call."""
        return cast(Function, _decorated(self.clone, function))
