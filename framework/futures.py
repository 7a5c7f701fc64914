"""Results that are set later, by another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .base.public_names import public_names as _public_names

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A result that is set later.

    Parameters
    ----------
    devices : list of device, optional
        Without effect: what is pending on a device is waited for where it is read.
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        self._changed = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Return whether a result or an error is set."""
        return self._done

    def wait(self) -> T:
        """Return the result, or raise the error, as soon as one is set."""
        with self._changed:
            self._changed.wait_for(self.done)
        return self.value()

    def value(self) -> T:
        """Return the result, or raise the error.

        Raises
        ------
        RuntimeError
            If neither is set.
        """
        if not self._done:
            raise RuntimeError("Future.value: no result is set yet; call wait()")
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def set_result(self, result: T) -> None:
        """Set the result, and call what waits for it.

        Raises
        ------
        RuntimeError
            If a result or an error is set already.
        """
        self._set("set_result", result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an error, which `wait` raises.

        Raises
        ------
        RuntimeError
            If a result or an error is set already.
        """
        if not isinstance(result, BaseException):
            raise AssertionError(
                f"Future.set_exception: {result!r} is no exception; pass one"
            )
        self._set("set_exception", None, result)

    def _set(self, where: str, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(f"Future.{where}: a result is set already")
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for each in callbacks:
            each(self)

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call a function with this future, once a result or an error is set."""
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Return the future of what a function makes of this one, once it is done."""
        following: Future[S] = Future()

        def follow(done: Future[T]) -> None:
            try:
                made = callback(done)
            except Exception as error:
                following.set_exception(error)
            else:
                following.set_result(made)

        self.add_done_callback(follow)
        return following


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return the future of a list of futures, which is done when all of them are."""
    collected: Future[list[Future[Any]]] = Future()
    # One call each, which no other thread interrupts.
    left = iter(range(len(futures)))

    def note(_: Future[Any]) -> None:
        if next(left) == len(futures) - 1:
            collected.set_result(futures)

    if not futures:
        collected.set_result(futures)
    for each in futures:
        each.add_done_callback(note)
    return collected


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """Return the results of futures once all are done; raises the first's error."""
    return [each.wait() for each in collect_all(futures).wait()]


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
