"""Futures are done once, and tell those that wait."""

import threading

import pytest

from vkbackend.framework import futures


def test_result() -> None:
    future: futures.Future[int] = futures.Future()
    later = future.then(lambda done: done.value() + 1)
    with pytest.raises(RuntimeError, match="no result is set yet"):
        future.value()
    thread = threading.Thread(target=future.set_result, args=(1,))
    thread.start()
    assert later.wait() == 2
    thread.join()
    assert future.done()
    assert future.then(lambda done: done.wait()).value() == 1
    with pytest.raises(RuntimeError, match="is set already"):
        future.set_result(2)


def test_error() -> None:
    future: futures.Future[int] = futures.Future()
    later = future.then(lambda done: done.wait())
    future.set_exception(KeyError("a"))
    with pytest.raises(KeyError):
        later.wait()
    with pytest.raises(AssertionError, match="is no exception"):
        futures.Future().set_exception(1)  # type: ignore[arg-type]  # on purpose


def test_several() -> None:
    both: list[futures.Future[int]] = [futures.Future(), futures.Future()]
    collected = futures.collect_all(both)
    both[1].set_result(2)
    assert not collected.done()
    both[0].set_result(1)
    assert collected.wait() == both
    assert futures.wait_all(both) == [1, 2]
    assert futures.wait_all([]) == []
