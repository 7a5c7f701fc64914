"""Steps of a trace that send and receive, as a replay runs them."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication.group import Group
from vkbackend.framework.nn.pipeline_flow import (
    Arrive,
    Finish,
    Post,
    Tell,
    TraceMessages,
    head_of,
)

NOTHING = np.zeros(1, np.int32)


def test_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        shared = TraceMessages(group)
        data = np.arange(6, dtype=np.float32) + group.rank
        other = 1 - group.rank
        Post(shared, 1, (2, 3), fw.float32, other, 4).run(data)
        found = Arrive(shared, 2, (2, 3), fw.float32, other, 4).run(data[:1])
        Finish(shared).run(NOTHING)
        assert not shared.tasks
        return found.tolist()

    assert as_threads(monkeypatch, 2).run(work) == [
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0],
    ]


@pytest.mark.parametrize("rows", [2, 3])
def test_replays_compare(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """What the rank before sends may be another shape than that of the trace."""

    def work(group: Group) -> None:
        shared = TraceMessages(group)
        head = head_of(fw.ones(rows if group.rank == 0 else 2, 4))
        heads = shared.told if group.rank == 0 else shared.received
        heads[0] = [head]
        tell = Tell(shared)
        tell.run(NOTHING)  # the ranks have told each other in the trace
        if group.rank == 1 and rows == 3:
            with pytest.raises(
                DistributedError,
                match=r"rank 0 sends float32 \(3, 4\) as micro-batch 0, and rank 1 was"
                r" traced for float32 \(2, 4\); within fw\.jit give all ranks the",
            ):
                tell.run(NOTHING)
        else:
            tell.run(NOTHING)
            Finish(shared).run(NOTHING)

    as_threads(monkeypatch, 2).run(work)
