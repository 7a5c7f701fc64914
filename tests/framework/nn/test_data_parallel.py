"""Ranks with parts of a batch do the steps of one process with all of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.nn.parallel_program import CASES, ROWS, batch, loss_of, make
from tests.rank_processes import run_ranks
from tests.rank_threads import as_threads
from vkbackend.framework import nn
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication.group import Group


def train_alone(
    name: str, size: int, steps: int, whole: bool
) -> tuple[nn.Module, list[float]]:
    """Train on whole batches, or on the sums of the ranks' gradients in their order."""
    model, losses = make(name, 0), []
    optimizer = fw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    parameters = list(model.parameters())
    for step in range(steps):
        x, y = batch(name, step, ROWS * size)
        parts = (
            [slice(None)]
            if whole
            else [slice(ROWS * rank, ROWS * (rank + 1)) for rank in range(size)]
        )
        sums, total = [np.float32(0)] * len(parameters), 0.0
        for part in parts:
            optimizer.zero_grad()
            loss = loss_of(model, x[part], y[part])
            loss.backward()
            sums = [a + b.grad.numpy() for a, b in zip(sums, parameters)]
            total += loss.item() / len(parts)
        for each, found in zip(parameters, sums):
            each.grad = fw.tensor(found / np.float32(len(parts)))
        optimizer.step()
        losses.append(total)
    return model, losses


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *(("mlp", 1), ("mlp", 2), ("cnn", 2), ("gpt", 2)),
        *(pytest.param(each, 4, marks=pytest.mark.wide) for each in CASES),
    ],
)
def test_parts_of_a_batch(
    monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    steps = 3
    models = [make(name, seed) for seed in range(size)]

    def work(group: Group) -> tuple[nn.Module, list[float]]:
        model = nn.DataParallel(models[group.rank], group, bucket_bytes=256)
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for step in range(steps):
            x, y = batch(name, step, ROWS * size)
            part = slice(ROWS * group.rank, ROWS * (group.rank + 1))
            optimizer.zero_grad()
            loss = loss_of(model, x[part], y[part])
            loss.backward()
            optimizer.step()
            losses.append(group.all_mean(loss.detach()).item())
        return model.module, losses

    results = as_threads(monkeypatch, size, 4096).run(work)
    exact, _ = train_alone(name, size, steps, whole=False)
    close, losses = train_alone(name, size, steps, whole=True)
    for model, found in results:
        np.testing.assert_allclose(found, losses, rtol=1e-5)
        for key, value in model.state_dict().items():
            assert fw.equal(value, exact.state_dict()[key]), key
            expected = close.state_dict()[key].numpy()
            np.testing.assert_allclose(value.numpy(), expected, rtol=1e-3, atol=1e-6)


def test_accumulation_and_parts_of_other_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    models = [make("mlp", seed) for seed in range(3)]
    rows = {0: (3, 1), 1: (2, 2), 2: (0, 1)}
    x, y = batch("mlp", 0, 9)

    def work(group: Group) -> Any:
        model = nn.DataParallel(models[group.rank], group)
        ends = np.cumsum([n for rank in rows for n in rows[rank]])
        starts = [0, *ends[:-1]]
        at = 2 * group.rank
        first, second = (slice(starts[k], max(ends[k], 1)) for k in (at, at + 1))
        count = rows[group.rank]
        with model.no_sync():
            a = slice(0, 1) if not count[0] else first
            model.weighted_loss(loss_of(model, x[a], y[a]), count[0]).backward()
            own = model.module[0].weight.grad.clone()
        model.weighted_loss(loss_of(model, x[second], y[second]), count[1]).backward()
        return own, [each.grad.numpy() for each in model.parameters()]

    results = as_threads(monkeypatch, 3).run(work)
    alone = make("mlp", 0)
    for rank in range(3):
        assert not rank or not fw.equal(results[rank][0], results[0][0])
    parts = [(0, 3), (4, 6)], [(3, 4), (6, 8), (8, 9)]
    for spans in parts:
        chosen = np.concatenate([np.arange(*each) for each in spans])
        loss_of(alone, x[chosen], y[chosen]).backward()
    for _, found in results:
        for own, right in zip(found, alone.parameters()):
            np.testing.assert_allclose(own, right.grad.numpy(), rtol=1e-4, atol=1e-6)


def test_unused_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        layers = nn.ModuleList([nn.Linear(1, 1, bias=False) for _ in range(4)])
        layers[3].requires_grad_(False)
        model = nn.DataParallel(layers, group, bucket_bytes=1)
        x = fw.ones(1, 1)
        out = layers[0](x) + (layers[1](x) if group.rank else layers[3](x))
        out.sum().backward()
        return [each.grad and each.grad.item() for each in model.parameters()]

    for found in as_threads(monkeypatch, 2).run(work):
        assert found == [1.0, 0.5, None, None]


def test_buffers_are_those_of_rank_0(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> Any:
        layer = nn.BatchNorm1d(2)
        layer.running_mean += group.rank
        model = nn.DataParallel(layer, group)
        x = fw.full((3, 2), float(group.rank))
        model(x)
        own = layer.running_mean.tolist()
        with model.no_sync():
            model(x)
        model(x)
        return own, layer.running_mean.tolist(), int(layer.num_batches_tracked)

    first, second = as_threads(monkeypatch, 2).run(work)
    assert first == ([0.0, 0.0], [0.0, 0.0], 3)
    np.testing.assert_allclose(second[0], 0.1, rtol=1e-6)
    np.testing.assert_allclose(second[1], 0.1, rtol=1e-6)


def test_other_modules_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> None:
        nn.DataParallel(nn.Linear(2, 3 + group.rank), group)

    for error in as_threads(monkeypatch, 2).run(work, keep=True):
        assert isinstance(error, DistributedError)
        assert "rank 1 has weight: float32 (4, 2) where rank 0 has" in str(error)


def test_a_group_is_wanted() -> None:
    with pytest.raises(TypeError, match="group is a list; it must be a group of"):
        nn.DataParallel(nn.Identity(), [0, 1])  # type: ignore[arg-type]  # devices
    with pytest.raises(ValueError, match="bucket_bytes is 0"):
        nn.DataParallel(nn.Identity(), bucket_bytes=0)
    model = nn.DataParallel(nn.Linear(1, 1))
    with pytest.raises(ValueError, match="count is -1"):
        model.weighted_loss(fw.ones(()), -1)


@pytest.mark.device
@pytest.mark.parametrize(
    ("size", "names"),
    [
        (2, []),
        *(
            pytest.param(size, [*CASES, "heads"], marks=pytest.mark.wide)
            for size in (1, 2, 4)
        ),
    ],
)
def test_replayed_in_processes(size: int, names: list[str]) -> None:
    done = run_ranks(size, Path(__file__).with_name("parallel_program.py"), *names)
    told = done.stdout + done.stderr
    for rank in range(size):
        for what in (*names, "data parallel", "tensor parallel", "pipeline"):
            assert f"[{rank}] {what}: rank {rank} is right" in done.stdout, told
    assert done.returncode == 0, told
