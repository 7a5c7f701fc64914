"""Callees of a traced call, and their reads of the outside world."""

import cProfile
import gc
import json
import logging
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vkbackend.framework.base.trace_hooks import listening
from vkbackend.framework.jit.callees import CalleeTracker, source_kind


def heard(function: Callable[[], object]) -> CalleeTracker:
    calls = CalleeTracker()
    listener: Any = object()
    with listening(listener), calls:
        function()
    return calls


def helper() -> int:
    return 1


def names(calls: CalleeTracker) -> set[str]:
    return {code.co_name for code in calls.codes}


def test_what_runs_is_heard() -> None:
    calls = heard(lambda: [helper() for _ in range(2)])
    assert "helper" in names(calls)
    assert calls.codes[helper.__code__] is globals()
    assert not calls.reason


def test_packages_are_heard_where_the_user_calls_them() -> None:
    assert "dumps" in names(heard(lambda: json.dumps([1])))
    assert "mean" in names(heard(lambda: np.mean([1.0])))


def test_what_only_reports_is_not_heard() -> None:
    calls = heard(lambda: logging.getLogger("calls").warning("%s", time.time))
    assert names(calls) == {"<lambda>", "getLogger"}
    assert not calls.reason


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (time.perf_counter, "the clock by `perf_counter`"),
        (random.random, "draws numbers"),
        (Path(__file__).read_text, "a file by `read`"),
        (Path(__file__).exists, "the system by `stat`"),
        (sys.getrecursionlimit, "the interpreter by `getrecursionlimit`"),
        (time.localtime, "the clock by `localtime`"),
    ],
)
def test_what_answers_for_the_world_is_named(
    function: Callable[[], object], reason: str
) -> None:
    def use() -> None:
        function()

    assert reason in heard(use).reason


class Dropped:
    """Says something when it goes."""

    def __del__(self) -> None:
        helper()


class Collected:
    """Hears of collections, as what counts or profiles them does."""

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        helper()


def test_what_the_collector_calls_is_not_the_function_s() -> None:
    def method(phase: str, info: dict[str, int]) -> None:
        helper()

    def run() -> None:
        Dropped()
        gc.collect()

    callbacks = [method, Collected()]
    gc.callbacks += callbacks
    try:
        calls = heard(run)
    finally:
        for each in callbacks:
            gc.callbacks.remove(each)
    assert "run" in names(calls)
    assert names(calls).isdisjoint({"helper", "method", "__call__", "__del__"})
    assert not calls.reason


def test_what_may_have_changed_is_noted() -> None:
    held: list[int] = []
    assert id(held) in heard(lambda: held.append(1)).mutated


def test_profiles_go_on_afterwards() -> None:
    def hear(*_: object) -> None:
        events.append(1)

    events: list[int] = []
    sys.setprofile(hear)
    try:
        heard(helper)
        assert sys.getprofile() is hear
    finally:
        sys.setprofile(None)
    profile = cProfile.Profile()
    profile.enable()
    heard(helper)
    len(events)
    profile.disable()
    # From Python 3.12 on it is no profile function.
    assert any(
        "built-in method builtins.len" in str(e.code) for e in profile.getstats()
    )


def test_source_kinds() -> None:
    import sklearn

    import vkbackend.framework as fw

    kinds = {source_kind(str(each.__file__)) for each in (fw, fw.optim)}
    assert len(kinds) == 1
    assert (
        source_kind("<stdin>")
        == source_kind(__file__)
        == source_kind(str(sklearn.__file__))
    )
    assert source_kind(str(json.__file__)) == source_kind("<frozen os>")
    others = (str(json.__file__), str(logging.__file__), __file__, str(fw.__file__))
    assert len({source_kind(each) for each in others}) == len(others)
