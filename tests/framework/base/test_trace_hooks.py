"""What traces hear from the layers below."""

import copy
import threading
from types import SimpleNamespace
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base import trace_hooks
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import TraceError
from vkbackend.framework.ir.lazy_graph import mark_replay_owned, observe


def heard() -> Any:
    """Return a listener that keeps what it hears."""
    said: list[Any] = []

    def refused(what: str) -> None:
        raise TraceError(f"jit: {what}")

    return SimpleNamespace(
        said=said,
        on_node=lambda device, node: said.append((device, node)),
        on_rebind=lambda array, before: said.append((array, before)),
        on_draw=lambda generator, words: said.append(words) or words,
        changing=lambda read: said.append(read) or read(),
        each_time=said.append,
        once=said.append,
        refused=refused,
    )


def test_without_a_trace_nothing_is_heard() -> None:
    assert trace_hooks.listener() is None
    assert trace_hooks.changing(lambda: 2.5) == 2.5
    trace_hooks.once("anything")
    trace_hooks.refuse("nothing is refused")
    done: list[int] = []
    trace_hooks.each_time(lambda: done.append(1))
    assert done == [1]


def test_numbers_and_actions_are_heard() -> None:
    trace = heard()
    done: list[int] = []
    with trace_hooks.listening(trace):
        assert trace_hooks.changing(lambda: 2.5) == 2.5
        trace_hooks.each_time(lambda: done.append(1))
        trace_hooks.once("made")
        with pytest.raises(TraceError, match="jit: it is so; make it otherwise"):
            trace_hooks.refuse("it is so; make it otherwise")
    assert len(trace.said) == 3
    assert done == [1]
    assert trace_hooks.running == 0


def test_storages_and_draws_are_heard() -> None:
    trace = heard()
    x = fw.ones(3)
    before = x.array.value
    with trace_hooks.listening(trace):
        x.add_(1)
        fw.rand(3)
    assert trace.said[0] == (x.array, before)
    assert len(trace.said[1]) == 4


def test_a_generator_is_not_seeded_within() -> None:
    with (
        trace_hooks.listening(heard()),
        pytest.raises(TraceError, match="seeded inside"),
    ):
        fw.manual_seed(0)


@pytest.mark.core
def test_operations_go_to_the_trace_of_their_thread(gpu: GpuDevice) -> None:
    trace = heard()
    x = fw.ones(3, device=gpu)
    fw.eval()
    with trace_hooks.listening(trace):
        y = x + 1
        other = threading.Thread(target=lambda: (x * 2).numpy())
        other.start()
        other.join()
        with pytest.raises(TraceError, match="is read on the host"):
            x.numpy()
    ((device, node),) = trace.said
    assert device is gpu
    assert node.op.name == "add"
    assert gpu.pending == []
    del y


def test_holders_of_a_watched_value_are_heard() -> None:
    x = fw.ones(3)
    counts: list[int] = []
    value = x.array.value

    def note(grew: bool) -> None:
        counts.append(value.external_refs if grew else -value.external_refs)

    observe(value, note)
    observe(value, note)
    twin = copy.deepcopy(x)
    assert value.external_refs == 2
    del twin
    # Before and after.
    x.add_(1)
    assert counts == [2, -1, -1, 0]
    value.observers.discard(note)
    x.array.rebind(value)
    assert counts == [2, -1, -1, 0]


def test_versions_count_replays() -> None:
    x = fw.ones(3)
    value = x.array.value
    note = type("Note", (), {"__call__": lambda self, grew: None, "replays": 0})()
    observe(value, note)
    mark_replay_owned(x.array)
    assert x.array.version == 0
    note.replays = 4
    assert x.array.version == 4
    x.add_(1)
    assert x.array.version == 5
    x.array.replace(value)
    assert x.array.version == 5
    note.replays = 6
    assert x.array.version == 7


@pytest.mark.parametrize(
    ("event", "arguments", "answer"),
    [
        ("on_rebind", (None, None), None),
        ("on_copy", (None,), None),
        ("on_draw", (None, (1, 2, 3, 4)), (1, 2, 3, 4)),
        ("changing", (lambda: 2.5,), 2.5),
        ("each_time", (print,), None),
        ("once", ("anything",), None),
        ("called", (None,), None),
        ("on_grad_write", (None, True), None),
        ("on_grad_read", (None,), None),
        ("refused", ("anything",), None),
    ],
)
def test_what_is_not_overridden_rules_a_replay_out(
    event: str, arguments: tuple[Any, ...], answer: object
) -> None:
    hooks = trace_hooks.TraceHooks()
    assert hooks.replayable
    assert getattr(hooks, event)(*arguments) == answer
    assert not hooks.replayable
    assert trace_hooks.TraceHooks().replayable
