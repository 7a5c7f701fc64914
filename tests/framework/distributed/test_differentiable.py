"""Gradients go through communication within one process."""

from typing import Any

import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework.communication.group import Group
from vkbackend.framework.distributed.nn import functional


def test_gradients(group: Any) -> None:
    x = fw.ones(2, requires_grad=True)
    results = (
        functional.all_reduce(x),
        *functional.all_gather(x),
        functional.broadcast(x, 0),
        functional.reduce(x, 0),
        *functional.gather(x),
        functional.scatter([x]),
        functional.reduce_scatter(fw.zeros(2), [x]),
        *functional.all_to_all([fw.zeros(2)], [x]),
        functional.all_to_all_single(fw.zeros(2), x),
    )
    sum(results).sum().backward()  # type: ignore[union-attr]  # not of nothing
    assert x.grad.tolist() == [9.0, 9.0]


def test_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of the sum of both ranks' losses, as PyTorch's functions have them."""

    def work(engine: Group) -> None:
        rank, group = engine.rank, engine
        x = (fw.tensor([1.0, 2.0]) + 10 * rank).requires_grad_()
        found = functional.all_gather(x, group)
        (found[0] * 3 + found[1] * 5 * (rank + 1)).sum().backward()
        assert x.grad.tolist() == [15.0, 15.0] if rank else [6.0, 6.0]
        assert functional.all_reduce(x, group=group).tolist() == [12.0, 14.0]
        assert functional.reduce(x, 0, group=group).tolist() == [12.0, 14.0]
        assert functional.broadcast(x, 1, group).tolist() == [11.0, 12.0]
        assert functional.gather(x, 0, group)[1].tolist() == [11.0, 12.0]
        assert functional.scatter([x, -x], 1, group)[0].item() == (1 - 2 * rank) * 11
        out = fw.zeros(2)
        both = [x, x * 2]
        wanted = [12.0 * (rank + 1), 14.0 * (rank + 1)]
        assert functional.reduce_scatter(out, both, group=group).tolist() == wanted
        assert functional.all_to_all([out, out], both, group)[1].tolist() == [
            11.0 * (rank + 1),
            12.0 * (rank + 1),
        ]
        single = functional.all_to_all_single(out, x, group=group)
        assert single.tolist() == [1.0 + rank, 11.0 + rank]

    as_threads(monkeypatch, 2).run(work)
