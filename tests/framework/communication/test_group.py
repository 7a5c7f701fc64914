"""Collectives on tensors, against NumPy, with ranks as threads."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework.base.errors import (
    DistributedError,
    GradError,
    ShapeError,
    TraceError,
)
from vkbackend.framework.communication.group import Group, alone

DTYPES = [
    *("float32", "float64", "float16", "bfloat16", "complex64", "int8", "int64"),
    *("uint8", "bool"),
]


def data_of(rank: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    made = np.random.default_rng(100 + rank).integers(-3, 4, shape)
    if dtype == "bool":
        return made > 0
    if dtype == "complex64":
        return (made + 1j * made[::-1]).astype(dtype) / 7
    floats = {"float16": np.float32, "bfloat16": np.float32}
    return made / 7 if "float" in dtype else made.astype(floats.get(dtype, dtype))


def tensor_of(rank: int, shape: tuple[int, ...], dtype: str) -> fw.Tensor:
    return fw.tensor(data_of(rank, shape, dtype), dtype=getattr(fw, dtype))


def sequential_sum(arrays: list[np.ndarray], dtype: str) -> np.ndarray:
    """Return the sum in rank order, of short floats in float32."""
    wide = np.float32 if dtype in ("float16", "bfloat16") else arrays[0].dtype
    total = arrays[0].astype(wide)
    for each in arrays[1:]:
        total = (total + each).astype(wide)
    return total


@pytest.mark.parametrize("size", [2, 3])
def test_every_dtype_and_layout(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    shape = (6, 5 * size)

    def work(group: Group) -> Any:
        found = []
        for dtype in DTYPES:
            x = tensor_of(group.rank, shape, dtype)
            for part in (x, x.T, x[1::2, 2:3], x[0, 0], x[:0], x[:1].expand(3, -1)):
                found.append(group.all_sum(part))
                found.append(group.all_gather(part, -1 if part.ndim else 0))
                found.append(group.broadcast(part, size - 1))
            found.append(group.reduce_scatter(x, 1))
            found.append(group.all_to_all(x, dim=1))
        return found

    results = as_threads(monkeypatch, size).run(work)
    for rank in range(size):
        left = iter(results[rank])
        for dtype in DTYPES:
            kind = getattr(fw, dtype)
            xs = [tensor_of(k, shape, dtype) for k in range(size)]
            hosts = [x.numpy() for x in xs]
            cuts: list[Any] = [
                lambda a: a,
                lambda a: a.T,
                lambda a: a[1::2, 2:3],
                lambda a: a[0, 0],
                lambda a: a[:0],
                lambda a: np.broadcast_to(a[:1], (3, a.shape[1])),
            ]
            for cut in cuts:
                parts = [np.asarray(cut(host)) for host in hosts]
                total = fw.tensor(sequential_sum(parts, dtype), dtype=kind)
                _same(next(left), total)
                rows = [np.atleast_1d(part) for part in parts]
                _same(next(left), fw.tensor(np.concatenate(rows, -1), dtype=kind))
                _same(next(left), fw.tensor(parts[-1].copy(), dtype=kind))
            total = fw.tensor(sequential_sum(hosts, dtype), dtype=kind)
            _same(next(left), total.chunk(size, 1)[rank])
            mine = [x.chunk(size, 1)[rank] for x in xs]
            _same(next(left), fw.cat(mine, 1))


def _same(found: fw.Tensor, expected: fw.Tensor) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.stored().tobytes() == expected.stored().tobytes()


def test_reductions_in_parts_and_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkbackend.framework.communication.group.DIRECT", 64)

    def work(group: Group) -> Any:
        x = fw.arange(101, dtype=fw.float32) / 3 + group.rank
        return [group.all_reduce(x, op) for op in ("sum", "mean", "max", "product")]

    results = as_threads(monkeypatch, 3, 1024).run(work)
    xs = [np.arange(101, dtype=np.float32) / np.float32(3) + k for k in range(3)]
    total = (xs[0] + xs[1]) + xs[2]
    expected = total, total / np.float32(3), xs[2], xs[0] * xs[1] * xs[2]
    for found in results:
        for each, wanted in zip(found, expected):
            np.testing.assert_array_equal(each.numpy(), wanted.astype(np.float32))


def test_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of the sum of all ranks' losses, which PyTorch's has too."""
    calls = {
        "all_sum": lambda g, x: g.all_sum(x),
        "all_mean": lambda g, x: g.all_mean(x),
        "all_gather": lambda g, x: g.all_gather(x, 1),
        "reduce_scatter": lambda g, x: g.reduce_scatter(x),
        "mean_scatter": lambda g, x: g.reduce_scatter(x, op="mean"),
        "broadcast": lambda g, x: g.broadcast(x, 1),
        "all_to_all": lambda g, x: g.all_to_all(x),
    }

    def whole(name: str, xs: list[fw.Tensor], rank: int) -> fw.Tensor:
        total = xs[0] + xs[1]
        return {
            "all_sum": lambda: total,
            "all_mean": lambda: total / 2,
            "all_gather": lambda: fw.cat(xs, 1),
            "reduce_scatter": lambda: total.chunk(2)[rank],
            "mean_scatter": lambda: total.chunk(2)[rank] / 2,
            "broadcast": lambda: xs[1],
            "all_to_all": lambda: fw.cat([x.chunk(2)[rank] for x in xs]),
        }[name]()

    def start(rank: int) -> fw.Tensor:
        return (tensor_of(rank, (4, 3), "float32") + 0.5).requires_grad_()

    def loss(y: fw.Tensor, rank: int) -> fw.Tensor:
        return (y * y * (rank + 1)).sum()

    def work(group: Group) -> Any:
        found = {}
        for name, call in calls.items():
            x = start(group.rank)
            loss(call(group, x), group.rank).backward()
            found[name] = x.grad
        with pytest.raises(GradError, match="all_max: the tensor requires"):
            group.all_max(start(group.rank))
        return found

    results = as_threads(monkeypatch, 2).run(work)
    for name in calls:
        xs = [start(k) for k in range(2)]
        parts = [loss(whole(name, xs, rank), rank) for rank in range(2)]
        (parts[0] + parts[1]).backward()
        for rank in range(2):
            grad, found = xs[rank].grad, results[rank][name].numpy()
            wanted = np.zeros((4, 3)) if grad is None else grad.numpy()
            np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=name)


def test_ranks_that_ask_for_different_things(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        rank = group.rank
        x = fw.ones(2 + rank)
        with pytest.raises(DistributedError, match=r"all_sum of float32 \(3,\)"):
            group.all_sum(x)
        with pytest.raises(DistributedError, match=r"rank 1 asks for|this rank, 1"):
            group.all_sum(x.int() if rank else x)
        with pytest.raises(DistributedError, match="all_gather"):
            (group.all_gather if rank else group.all_sum)(fw.ones(2))
        if rank:
            group.send(fw.ones(2), 0)
        else:
            with pytest.raises(DistributedError, match=r"float32 \(2,\), and int64"):
                group.recv((2,), fw.int64)
        return group.all_sum(fw.ones(1)).item()

    assert as_threads(monkeypatch, 2).run(work) == [2.0, 2.0]


def test_ranks_that_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        if group.rank == 0:
            return group.recv((1,), fw.float32, 1)
        return group.all_sum(fw.ones(1))

    texts = [str(each) for each in as_threads(monkeypatch, 2).run(work, keep=True)]
    assert any("the ranks wait for each other: rank 0 in recv" in x for x in texts)
    for text in texts:
        assert "wait for each other" in text or "has given up the group" in text


def test_alone() -> None:
    group = alone()
    x = fw.tensor([1.0, 2.0]).requires_grad_()
    for name in ("all_sum", "all_mean", "all_gather", "reduce_scatter", "broadcast"):
        found = getattr(group, name)(x)
        assert found.tolist() == [1.0, 2.0]
        assert found is not x
    group.all_sum(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert group.all_gather(fw.tensor(3)).tolist() == [3]
    assert fw.jit(group.all_sum)(x.detach()).tolist() == [1.0, 2.0]
    assert group.gather_objects("a") == ["a"]
    group.barrier()
    group.close()


def test_wrong_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    group = alone()
    x = fw.ones(3)
    with pytest.raises(TypeError, match="all_sum: a int is given"):
        group.all_sum(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="op is 'avg'; it must be one of sum"):
        group.all_reduce(x, "avg")
    with pytest.raises(ValueError, match="broadcast: rank 1 is no process's"):
        group.broadcast(x, 1)
    with pytest.raises(ValueError, match="rank 0 is this process"):
        group.send(x, 0)
    with pytest.raises(TypeError, match="int64, which has no mean"):
        group.all_mean(fw.ones(3, dtype=fw.int64))

    def work(group: Group) -> None:
        with pytest.raises(ShapeError, match="must be a multiple of 2"):
            group.reduce_scatter(x)
        with pytest.raises(TraceError, match="all_sum communicates"):
            fw.jit(group.all_sum)(x)

    assert as_threads(monkeypatch, 2).run(work) == [None, None]
