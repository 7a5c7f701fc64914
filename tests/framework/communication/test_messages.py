"""Messages between two ranks, in any order of their tags."""

from typing import Any

import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework.communication.group import Group, alone


def test_messages_and_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        other = 1 - group.rank
        x = fw.arange(300) + group.rank
        if group.rank:
            group.send(x, 0, tag=2)
            group.send(x + 1, 0, tag=3)
            group.send(x[:0], 0)
            late = early = group.recv_like(x)
            empty = group.recv((0,), "int64", 0)
        else:
            late = group.recv((300,), fw.int64, 1, tag=3)
            early = group.recv((300,), fw.int64, 1, tag=2)
            empty = group.recv((0,), "int64")
            group.send(x, 1)
            group.send(x[:0], other)
        group.barrier()
        objects = group.gather_objects({"rank": group.rank})
        return late, early, empty, objects, group.broadcast_object(group.rank, 1)

    first, second = as_threads(monkeypatch, 2).run(work)
    assert first[0].tolist() == list(range(2, 302))
    assert first[1].tolist() == list(range(1, 301))
    assert second[0].tolist() == list(range(300))
    for each in (first, second):
        assert each[2].shape == (0,)
        assert each[3:] == ([{"rank": 0}, {"rank": 1}], 1)


def test_alone_there_is_nobody() -> None:
    with pytest.raises(ValueError, match="rank 1 is no process's"):
        alone().send(fw.ones(1), 1)
    with pytest.raises(ValueError, match="rank 0 is this process; it sends itself"):
        alone().recv((1,), fw.float32, 0)
