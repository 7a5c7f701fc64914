"""Operations that wait, and waits that cannot end."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tests.rank_threads import as_threads
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication.group import Group
from vkbackend.framework.communication.progress import (
    READY,
    AnyOf,
    Progress,
    Reached,
    Steps,
    Task,
)


class Silent:
    """An owner of operations that is not told anything."""

    def give_up(self, task: Task, error: BaseException) -> None:
        pass

    def surrendered(self, ranks: Any) -> str:
        return ""


def control_of(words: list[int]) -> Any:
    return SimpleNamespace(
        words=words,
        owner=lambda counter: counter,
        obituary=lambda rank: "",
        publish=lambda *given: None,
        waits=dict,
        fence=lambda: None,
    )


def test_operations_go_on_side_by_side() -> None:
    control = control_of([0, 0])
    progress = Progress(0, control, 60)
    seen = []

    def steps(name: str, counter: int) -> Steps:
        for least in (1, 2):
            yield Reached(control, [counter], least)
            seen.append((name, least))
        return name

    first = progress.start(Silent(), steps("a", 0), "a")
    second = progress.start(Silent(), steps("b", 1), "b")
    control.words[1] = 1
    progress.advance()
    assert seen == [("b", 1)]
    control.words[:] = [2, 1]
    assert progress.wait(first) == "a"
    assert not second.done
    control.words[1] = 2
    assert progress.wait(second) == "b"


def test_who_waits_goes_on_once_it_is_ready() -> None:
    """The rest is done beside what is waited for later, and before a group's end."""
    control = control_of([0])
    progress = Progress(0, control, 60)
    seen = []

    def steps(name: str) -> Steps:
        yield READY
        yield Reached(control, [0], 1)
        seen.append(name)

    first, second = (progress.start(Silent(), steps(name), name) for name in "ab")
    assert progress.wait(first) is None
    assert progress.wait(second) is None
    assert (first.ready, first.done, seen) == (True, False, [])
    control.words[0] = 1
    progress.finish(first)
    assert first.done
    assert seen == ["a", "b"]


def test_an_error_is_raised_where_it_is_waited_for() -> None:
    progress = Progress(0, control_of([0]), 60)

    def steps() -> Steps:
        raise KeyError("lost")
        yield

    task = progress.start(Silent(), steps(), "a")
    with pytest.raises(KeyError, match="lost"):
        progress.wait(task)


def test_the_longest_wait() -> None:
    control = control_of([0])
    progress = Progress(3, control, 0)

    def steps() -> Steps:
        yield AnyOf([Reached(control, [0], 1)])

    task = progress.start(Silent(), steps(), "all_sum")
    with pytest.raises(DistributedError, match=r"rank 3 still waits for ranks .0. aft"):
        progress.wait(task)
    assert task.done


def test_circles_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of three ranks waits for the next; a fourth one does not."""

    def work(group: Group) -> Any:
        if group.rank == 3:
            return "ran"
        return group.recv((1,), "int32", (group.rank + 1) % 3)

    found = as_threads(monkeypatch, 4).run(work, keep=True)
    assert found[3] == "ran"
    texts = [str(each) for each in found[:3]]
    circle = "rank 0 in recv of int32 (1,) from rank 1, rank 1 in recv of int32 (1,)"
    assert any(circle in text for text in texts)
    for text in texts:
        assert "wait for each other" in text or "given up" in text or "failed" in text


def test_another_thread_may_end_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank two threads of which communicate waits for nobody as long as one runs."""

    def work(group: Group) -> Any:
        other = 1 - group.rank
        if group.rank == 1:
            return group.recv((1,), "int32", other, 1), group.barrier()
        first = threading.Thread(target=group.barrier)
        assert group._transport is not None
        progress = group._transport.world.progress
        progress._threads[threading.current_thread()] = None
        first.start()
        while 1 not in group._transport.world.control.waits():
            pass
        import vkbackend.framework as fw

        group.send(fw.ones(1, dtype=fw.int32), other, 1)
        first.join()
        return "sent"

    assert as_threads(monkeypatch, 2).run(work)[0] == "sent"
