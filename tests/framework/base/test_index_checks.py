"""Index checks: which error an index out of range gives, when, and at what cost."""

from collections.abc import Callable

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import nn, ops
from vkbackend.framework.base import index_checks
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import IndexRangeError, ShapeError

X = np.arange(12, dtype=np.float32).reshape(3, 4)

Indices = Callable[..., fw.Tensor]

CALLS: dict[str, tuple[Callable[[fw.Tensor, Indices], fw.Tensor], str]] = {
    "index_select": (
        lambda x, i: x.index_select(1, i(0, -1)),
        "index_select: index -1 is out of range: dimension 1 has size 4",
    ),
    "gather": (
        lambda x, i: fw.gather(x, 1, i(2, -1, 0).reshape(3, 1)),
        "gather: index -1 is out of range: dimension 1 has size 4",
    ),
    "take": (
        lambda x, i: fw.take(x, i(12)),
        "take: index 12 is out of range: the flat tensor has size 12",
    ),
    "take_along_dim": (
        lambda x, i: fw.take_along_dim(x, i(-1)),
        "take_along_dim: index -1 is out of range: dimension 0 has size 12",
    ),
    "embedding": (
        lambda x, i: ops.embedding(i(0, -1), x),
        "embedding: index -1 is out of range: weight has size 3",
    ),
    "getitem": (
        lambda x, i: x[0, i(1, 4)],
        "index: 4 is out of range: dimension 1 has size 4",
    ),
    "getitem of two": (
        lambda x, i: x[i(0), i(-5)],
        "index: -5 is out of range: dimension 1 has size 4",
    ),
    "setitem": (
        lambda x, i: x.index_put((i(3),), x[0]),
        "index: 3 is out of range: dimension 0 has size 3",
    ),
    "index_put": (
        lambda x, i: ops.index_put(x, (i(3),), x[:1], accumulate=True),
        "index: 3 is out of range: dimension 0 has size 3",
    ),
    "put": (
        lambda x, i: ops.put(x, i(-13), x[0, :1]),
        "put: index -13 is out of range: the flat tensor has size 12",
    ),
    "scatter": (
        lambda x, i: ops.scatter(x, 1, i(-1).reshape(1, 1), 0),
        "scatter: index -1 is out of range: dimension 1 has size 4",
    ),
    "scatter_add": (
        lambda x, i: ops.scatter_add(x, 0, i(-1).reshape(1, 1), x),
        "scatter_add: index -1 is out of range: dimension 0 has size 3",
    ),
    "scatter_reduce": (
        lambda x, i: ops.scatter_reduce(x, 0, i(-1).reshape(1, 1), x, "prod"),
        "scatter_reduce: index -1 is out of range: dimension 0 has size 3",
    ),
    "index_add": (
        lambda x, i: fw.index_add(x, 0, i(3), x[:1]),
        "index_add: index 3 is out of range: dimension 0 has size 3",
    ),
    "index_copy": (
        lambda x, i: fw.index_copy(x, 0, i(-1), x[:1]),
        "index_copy: index -1 is out of range: dimension 0 has size 3",
    ),
    "index_fill": (
        lambda x, i: fw.index_fill(x, 0, i(3), 1),
        "index_fill: index 3 is out of range: dimension 0 has size 3",
    ),
    "one_hot": (
        lambda x, i: ops.one_hot(i(0, -1), 3),
        "one_hot: label -1 is out of range: there are 3 classes",
    ),
    "cross_entropy": (
        lambda x, i: ops.cross_entropy(x, i(0, 4, -100)),
        "cross_entropy: label 4 is out of range: there are 4 classes",
    ),
    "cross_entropy with weights": (
        lambda x, i: ops.cross_entropy(x, i(0, -1, 1), x[0]),
        "cross_entropy: label -1 is out of range: there are 4 classes",
    ),
    "nll_loss": (
        lambda x, i: ops.nll_loss(x, i(0, 4, 1), reduction="none"),
        "nll_loss: label 4 is out of range: there are 4 classes",
    ),
}


@pytest.mark.int64
@pytest.mark.parametrize("name", CALLS)
def test_an_index_out_of_range(name: str, place: Device) -> None:
    call, message = CALLS[name]
    x = fw.tensor(X, device=place)
    for dtype in ("int32", "int64"):
        with pytest.raises(IndexRangeError) as raised:
            call(x, lambda *at, kind=dtype: fw.tensor([*at], kind, place)).tolist()
        assert str(raised.value) == message
        assert isinstance(raised.value, IndexError)
        assert isinstance(raised.value, ShapeError)
    # The error was taken away, and nothing was changed.
    assert x.tolist() == X.tolist()


@pytest.mark.core
@pytest.mark.parametrize(
    ("dtype", "index", "said"),
    [
        ("int16", 200, "200"),
        ("int8", -4, "-4"),
        ("uint32", (1 << 31) - 2, "2147483646"),
        ("int64", 1 << 40, "2147483647 or more"),
        ("int64", -(1 << 40), "-2147483647 or less"),
        ("int32", -(1 << 31), "-2147483647 or less"),
        ("uint64", (1 << 64) - 1, "2147483647 or more"),
    ],
)
def test_the_index_is_named(dtype: str, index: int, said: str, gpu: GpuDevice) -> None:
    at = fw.tensor(np.array([index], dtype), device=gpu)
    with pytest.raises(IndexError, match=rf"^index: {said} is out of range"):
        fw.tensor(X, device=gpu)[at].tolist()


def test_an_empty_dimension(place: Device) -> None:
    with pytest.raises(IndexError, match="index 0 is out of range: dimension 0 has"):
        fw.zeros((0, 2), device=place).index_select(
            0, fw.tensor([0], "int32", place)
        ).tolist()


def test_the_first_of_several_is_named(gpu: GpuDevice) -> None:
    x = fw.zeros((7, 59), device=gpu)
    bad = fw.tensor([60], "int64", gpu)
    total = x.index_select(0, bad).sum() + x.index_copy(1, bad, x[:, :1]).sum()
    with pytest.raises(IndexError, match=r"^index_select: index 60 .* has size 7$"):
        total.item()


def test_any_wait_raises_it(gpu: GpuDevice) -> None:
    x, other = fw.tensor(X, device=gpu), fw.ones(2, device=gpu)
    x[fw.tensor([3], "int64", gpu)] = 5
    fw._evaluate(x)
    with pytest.raises(IndexError, match=r"^index: 3 is out"):
        gpu.synchronize()
    gpu.synchronize()
    fw._evaluate(x.index_select(0, fw.tensor([4], "int64", gpu)))
    # A read waits for its own value alone.
    gpu.gpu.synchronize()
    with pytest.raises(IndexError, match=r"^index_select: index 4"):
        other.tolist()
    assert other.tolist() == [1, 1]
    assert x.tolist() == X.tolist()
    fw.device("cpu").synchronize()


def test_replays_check_indices(gpu: GpuDevice) -> None:
    @fw.jit
    def step(x: fw.Tensor, index: fw.Tensor) -> fw.Tensor:
        return x.index_select(0, index) * 2

    x = fw.tensor(X, device=gpu)
    good, bad = (fw.tensor([k], "int64", gpu) for k in (1, 3))
    for _ in range(3):
        assert step(x, good).tolist() == [[8, 10, 12, 14]]
    found = step(x, bad)
    with pytest.raises(IndexError, match=r"^index_select: index 3 is out of range"):
        found.tolist()
    assert step(x, good).tolist() == [[8, 10, 12, 14]]


def test_they_can_be_switched_off(gpu: GpuDevice, unchecked_indices: None) -> None:
    @fw.jit
    def step(x: fw.Tensor, index: fw.Tensor) -> fw.Tensor:
        return x[index]

    x, bad = fw.tensor(X, device=gpu), fw.tensor([3], "int64", gpu)
    assert not fw.is_index_checks_enabled()
    assert np.isnan(x.index_select(0, bad).numpy()).all()
    assert np.isnan(step(x, bad).numpy()).all()
    fw.set_index_checks(True)
    for call in (step, lambda x, bad: x.index_select(0, bad)):
        with pytest.raises(IndexError, match="3 is out of range"):
            call(x, bad).tolist()


def test_checks_cost_no_work(gpu: GpuDevice) -> None:
    """The counters of a warm loop are the same with and without."""
    model = nn.Embedding(11, 8).to(gpu)
    index = fw.tensor([[1, 2], [3, 4]], "int64", gpu)

    def step() -> tuple[int, ...]:
        before = gpu.gpu.counters.snapshot()
        scores = model(index).reshape((4, 8))
        loss = ops.cross_entropy(scores, index.reshape((4,)))
        loss.backward()
        loss.item()
        change = gpu.gpu.counters.snapshot() - before
        return (
            change.submits,
            change.dispatches,
            change.barriers,
            change.host_reads,
            change.host_read_bytes,
            change.device_allocations,
            change.uploads,
        )

    def run() -> tuple[int, ...]:
        """Return the counts of steps that are alike: in some, kernels are compared."""
        counts = [step() for _ in range(4)]
        while len(set(counts[-4:])) > 1 and len(counts) < 64:
            counts.append(step())
        return counts[-1]

    checked = run()
    fw.set_index_checks(False)
    try:
        assert run() == checked
    finally:
        fw.set_index_checks(True)


def test_more_sites_than_slots(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch, device: vkbackend.Device
) -> None:
    known = {(f"filler: {k}", 1): k for k in range(1, 3)}
    monkeypatch.setattr(index_checks, "_sites", known)
    monkeypatch.setattr(index_checks, "_LAST_SLOT", 3)
    x, bad = fw.zeros((2, 61), device=gpu), fw.tensor([63], "int64", gpu)
    with pytest.raises(IndexError, match=r"^index: 63 .* one of more than 2 different"):
        x.index_select(1, bad).tolist()
