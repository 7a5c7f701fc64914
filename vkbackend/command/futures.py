"""Futures of timeline points, for `await`; one waiter thread per queue.

The thread sleeps in the driver, exists only while somebody waits, and is joined before
its queue is closed.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from vkbackend import fork_safety
from vkbackend.driver.queue import Queue, TimelinePoint

if TYPE_CHECKING:
    from concurrent.futures import Future

# A done-callback that blocks must not keep a device from closing for ever.
_JOIN_SECONDS = 5.0


def future_of(point: TimelinePoint) -> Future[None]:
    """Return a future that is done when the device has got to a point.

    Parameters
    ----------
    point : TimelinePoint
        What to wait for. A point that is reached already needs no thread.

    Returns
    -------
    Future
        Its exception is that of `TimelinePoint.wait`, as `DeviceLost`. In a coroutine
        `await asyncio.wrap_future(future_of(point))`.
    """
    # This imports `logging`, and few programs await.
    from concurrent.futures import Future

    future: Future[None] = Future()
    if point.done():
        future.set_result(None)
    else:
        with _lock:
            waiter = _waiters.get(point.queue)
            if waiter is None:
                waiter = _waiters[point.queue] = _Waiter()
                point.queue.at_close.append(waiter.join)
        waiter.add(point, future)
    return future


class _Waiter:
    """Waiter thread of one queue: resolves futures in the order of their points."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[tuple[TimelinePoint, Future[None]]] = []
        self._thread: threading.Thread | None = None

    def add(self, point: TimelinePoint, future: Future[None]) -> None:
        with self._lock:
            self._pending.append((point, future))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"{point.queue.name} futures", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._pending:
                    self._thread = None
                    return
                first = min(self._pending, key=lambda pair: pair[0].value)[0]
            failure: Exception | None = None
            try:
                first.wait()
            except Exception as error:  # what waiting raises belongs to the futures
                failure = error
            with self._lock:
                reached = [
                    future
                    for point, future in self._pending
                    if failure is not None or point.value <= point.queue.completed
                ]
                self._pending = [
                    pair for pair in self._pending if pair[1] not in reached
                ]
            for future in reached:
                if future.set_running_or_notify_cancel():
                    if failure is None:
                        future.set_result(None)
                    else:
                        future.set_exception(failure)

    def join(self) -> None:
        """Wait for the thread, whose points have all been reached."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_SECONDS)


_lock = threading.Lock()
fork_safety.renew(sys.modules[__name__], "_lock", threading.Lock)
_waiters: WeakKeyDictionary[Queue, _Waiter] = WeakKeyDictionary()


def _forget_parent() -> None:
    """Start afresh in a forked child, which has none of these threads."""
    global _waiters
    _waiters = WeakKeyDictionary()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)
