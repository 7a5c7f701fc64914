"""What one process sends, it gets itself."""

from typing import Any

import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.communication.group import Group

dist = fw.distributed


def test_tensors(group: Any) -> None:
    x = fw.tensor([1.0, 2.0])
    assert dist.all_reduce(x, op=dist.ReduceOp.MAX) is None
    assert dist.broadcast(x, src=0, async_op=True).wait()
    dist.reduce(x, 0)
    assert x.tolist() == [1.0, 2.0]
    calls = {
        "all_gather": lambda out: dist.all_gather([out], x),
        "all_gather_into_tensor": lambda out: dist.all_gather_into_tensor(out, x),
        "gather": lambda out: dist.gather(x, [out]),
        "scatter": lambda out: dist.scatter(out, [x]),
        "reduce_scatter": lambda out: dist.reduce_scatter(out, [x]),
        "reduce_scatter_tensor": lambda out: dist.reduce_scatter_tensor(out, x),
        "all_to_all": lambda out: dist.all_to_all([out], [x]),
        "all_to_all_single": lambda out: dist.all_to_all_single(out, x),
    }
    for name, call in calls.items():
        out = fw.zeros(2)
        assert call(out) is None
        assert fw.equal(out, x), name
    with pytest.raises(ValueError, match="the list has 2 elements"):
        dist.all_gather([x, x], x)
    with pytest.raises(ValueError, match=r"the output has shape \(3,\)"):
        dist.all_gather([fw.zeros(3)], x)
    for name in ("send", "recv", "isend", "irecv"):
        with pytest.raises(ValueError, match=f"{name}: rank 0 is this process"):
            getattr(dist, name)(x, 0)


def test_objects(group: Any) -> None:
    said, got = {"a": [1]}, [None]
    dist.all_gather_object(got, said)
    assert got == [said]
    assert got[0] is not said
    dist.gather_object([2], got)
    assert got == [[2]]
    dist.scatter_object_list(got, [3])
    assert got == [3]
    dist.broadcast_object_list(got, 0)
    dist.monitored_barrier()
    assert dist.barrier() is None


def test_without_a_group() -> None:
    with pytest.raises(ValueError, match="no process group is initialised"):
        dist.all_reduce(fw.ones(1))


def test_several_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function with ranks as threads, whose groups are passed."""

    def work(engine: Group) -> None:
        rank, other = engine.rank, 1 - engine.rank
        group: Any = engine
        own, both = fw.tensor([1.0, 2.0]) + 10 * rank, [fw.zeros(2), fw.zeros(2)]
        dist.all_gather(both, own, group=group)
        assert [each.tolist() for each in both] == [[1.0, 2.0], [11.0, 12.0]]
        x = own.clone()
        dist.all_reduce(x, group=group)
        assert x.tolist() == [12.0, 14.0]
        dist.all_reduce(x[:1], dist.ReduceOp.AVG, group=group)
        assert x.tolist() == [12.0, 14.0]
        dist.reduce(y := own.clone(), 1, dist.ReduceOp.MAX, group=group)
        assert y.tolist() == ([11.0, 12.0] if rank else [1.0, 2.0])
        dist.broadcast(y, 1, group=group)
        assert y.tolist() == [11.0, 12.0]
        flat = fw.zeros(2, 2)
        dist.all_gather_into_tensor(flat, own, group=group)
        assert flat[1].tolist() == [11.0, 12.0]
        dist.gather(own, both if rank == 0 else None, dst=0, group=group)
        out = fw.zeros(2)
        dist.scatter(out, [own, own + 1] if rank else None, src=1, group=group)
        assert out.tolist() == [11.0 + rank, 12.0 + rank]
        dist.reduce_scatter(out, [own, own * 2], group=group)
        assert out.tolist() == [12.0 * (rank + 1), 14.0 * (rank + 1)]
        dist.reduce_scatter_tensor(out[:1], own, group=group)
        assert out[0].item() == 12.0 + 2 * rank
        dist.all_to_all(both, [own, own + 5], group=group)
        assert both[0].tolist() == [1.0 + 5 * rank, 2.0 + 5 * rank]
        rows = fw.arange(3) + 10 * rank
        sizes = ([1, 2], [2, 1])[rank]
        got = fw.zeros(3, dtype=fw.int64)
        dist.all_to_all_single(got, rows, [1, 2] if rank == 0 else [2, 1], sizes, group)
        assert got.tolist() == ([0, 10, 11] if rank == 0 else [1, 2, 12])
        objects: list[Any] = [None, None]
        dist.all_gather_object(objects, rank, group)
        assert objects == [0, 1]
        dist.scatter_object_list(objects, ["a", "b"] if rank else None, 1, group)
        assert objects[0] == "ab"[rank]
        works = [
            dist.isend(own, other, group=group),
            dist.irecv(out, other, group=group),
        ]
        assert works[1] is not None
        assert [each is not None and each.wait() for each in works] == [True, True]
        assert works[1].source == other
        assert out.tolist() == [1.0 + 10 * other, 2.0 + 10 * other]
        if rank:
            dist.send(own, 0, group=group)
        else:
            assert dist.recv(out, group=group) == 1
        with pytest.raises(ShapeError, match=r"the output has shape \(2,\)"):
            dist.all_gather([out, out], fw.zeros(3), group=group)
        with pytest.raises(ValueError, match="there are 2, ranks 0, 1"):
            dist.broadcast(out, 2, group=group)

    as_threads(monkeypatch, 2).run(work)
