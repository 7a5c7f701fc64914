"""What one process sends, it gets itself."""

from typing import Any

import pytest

import vkbackend.framework as fw

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
