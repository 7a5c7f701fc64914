"""Trace policy: which signatures are traced, and when it gives up."""

import gc
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.jit.signature import signature_of
from vkbackend.framework.jit.trace_policy import (
    MAX_CALL_KINDS,
    MAX_TRACE_ATTEMPTS,
    MIN_TRACE_WINDOW,
    TracePolicy,
)


class Held:
    """What a kind names by its number."""


def test_a_kind_is_remembered_while_its_objects_are_there() -> None:
    kinds, held = TracePolicy(8), [Held()]
    call = signature_of((held[0],), {})
    kind = kinds.of(call)
    kind.attempts = MAX_TRACE_ATTEMPTS
    assert kinds.of(call) is kind
    assert kind.untraced
    again = signature_of((held[0],), {})
    call.identity_keys.clear()
    held.clear()
    again.identity_keys.clear()
    gc.collect()
    assert not kinds.of(again).untraced


def test_not_all_kinds_are_remembered() -> None:
    kinds = TracePolicy(8)
    for number in range(MAX_CALL_KINDS * 2):
        kinds.of(signature_of((number,), {}))
    assert len(kinds) == MAX_CALL_KINDS + 8


def test_a_replay_counts_anew() -> None:
    kinds, call = TracePolicy(8), signature_of((1,), {})
    kind = kinds.of(call)
    for _ in range(MAX_TRACE_ATTEMPTS):
        assert not kind.untraced
        kinds.trace(kind, 0)
    assert kind.untraced
    kinds.replayed(call.key)
    assert not kind.untraced


def texts(_: GpuDevice) -> Iterator[tuple[Any, ...]]:
    for number in range(99):
        yield fw.ones(1, device=_), str(number)


def objects(gpu: GpuDevice) -> Iterator[tuple[Any, ...]]:
    for _ in range(99):
        yield fw.ones(1, device=gpu), Held()


def shapes(gpu: GpuDevice) -> Iterator[tuple[Any, ...]]:
    for number in range(99):
        yield fw.ones(number % 20 + 1, device=gpu), 1.0


@pytest.mark.core
@pytest.mark.parametrize("calls", [texts, objects, shapes])
def test_traces_in_vain_are_told_once(
    gpu: GpuDevice, calls: Callable[[GpuDevice], Iterator[tuple[Any, ...]]]
) -> None:
    step = fw.jit(lambda x, given: x * 2)
    with warnings.catch_warnings(record=True) as warning:
        warnings.simplefilter("always")
        for count, args in zip(range(3 * MIN_TRACE_WINDOW), calls(gpu)):
            step(*args)
            assert len(warning) == int(count >= MIN_TRACE_WINDOW)
    assert "was traced 16 times for 0 replays: more than max_tr" in str(
        warning[0].message
    )
    assert warning[0].filename == __file__


@pytest.mark.core
def test_what_changes_every_other_call_is_told(gpu: GpuDevice) -> None:
    place = SimpleNamespace(factor=1)
    step, x = fw.jit(lambda x: x * place.factor), fw.ones(1, device=gpu)
    with warnings.catch_warnings(record=True) as warning:
        warnings.simplefilter("always")
        for number in range(4 * MIN_TRACE_WINDOW):
            place.factor = number // 2
            assert float(step(x)) == number // 2
    assert [str(each.message) for each in warning] == [
        "jit: <lambda> was traced 16 times for 16 replays: `factor` is another one"
        " again and again"
    ]


@pytest.mark.core
def test_replays_that_are_many_need_no_word(gpu: GpuDevice) -> None:
    step = fw.jit(lambda x, given: x * 2, max_traces=4)
    x = fw.ones(1, device=gpu)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(2 * MIN_TRACE_WINDOW):
            for _ in range(4):
                step(x, str(number))
    assert step.replays == 3 * step.traces


@pytest.mark.core
def test_what_is_refused_for_every_kind_is_traced_no_longer(gpu: GpuDevice) -> None:
    @fw.jit
    def step(x: fw.Tensor, losses: list[float]) -> fw.Tensor:
        losses.append(1.0)
        return x * 2

    x, losses = fw.ones(1, device=gpu), list[float]()
    with pytest.warns(UserWarning, match="step runs without replay: it changes arg"):
        [step(x, losses) for _ in range(2 * MIN_TRACE_WINDOW)]
    assert step.traces == MIN_TRACE_WINDOW
    assert len(losses) == 2 * MIN_TRACE_WINDOW
