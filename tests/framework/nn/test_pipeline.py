"""Layers on several ranks compute what one process computes, forward and backward."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework import nn
from vkbackend.framework.base.errors import DistributedError, StateError
from vkbackend.framework.communication.group import Group
from vkbackend.framework.nn.pipeline import (
    BACKWARD,
    FORWARD,
    balanced,
    one_forward_one_backward,
)

mse_loss = nn.functional.mse_loss


@pytest.mark.parametrize("micro", [1, 2, 5, 8])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_schedule(ranks: int, micro: int) -> None:
    """Ranks never wait for each other, and have few micro-batches at once."""
    orders = [one_forward_one_backward(rank, ranks, micro) for rank in range(ranks)]
    for rank, order in enumerate(orders):
        assert sorted(order) == sorted(
            (what, k) for what in (FORWARD, BACKWARD) for k in range(micro)
        )
        live = np.cumsum([1 if what == FORWARD else -1 for what, _ in order])
        assert live.max() == min(ranks - rank, micro)
    done: set[tuple[int, str, int]] = set()
    left = [list(order) for order in orders]
    while any(left):
        before = len(done)
        for rank, order in enumerate(left):
            while order:
                what, k = order[0]
                needs = (rank - 1, FORWARD, k) if what == FORWARD else None
                needs = needs or (rank + 1, BACKWARD, k)
                if 0 <= needs[0] < ranks and needs not in done:
                    break
                done.add((rank, *order.pop(0)))
        assert len(done) > before


def test_balance() -> None:
    assert balanced([1, 1, 1, 1], 2) == [2, 4]
    assert balanced([9, 1, 1], 2) == [1, 3]
    assert balanced([0, 0, 5], 3) == [1, 2, 3]
    assert balanced([4], 1) == [1]


def layers(seed: int) -> nn.Module:
    rng = np.random.default_rng(seed)
    made = nn.Sequential(
        nn.Embedding(7, 4), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 2)
    )
    with fw.no_grad():
        for each in made.parameters():
            each.copy_(fw.tensor(rng.standard_normal(each.shape).astype(np.float32)))
    return made


def batch(step: int) -> tuple[fw.Tensor, fw.Tensor]:
    rng = np.random.default_rng(step)
    y = rng.standard_normal((7, 2)).astype(np.float32)
    return fw.tensor(rng.integers(0, 7, 7)), fw.tensor(y)


def alone(micro: int) -> tuple[Any, Any, Any]:
    """Train one process on the same micro-batches, and return weights and numbers."""
    model = layers(0)
    optimizer, losses = fw.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), []
    ends = [7 * k // micro for k in range(micro + 1)]
    for step in range(3):
        x, y = batch(step)
        optimizer.zero_grad()
        total = 0.0
        for low, high in pairwise(ends):
            loss = mse_loss(model(x[low:high]), y[low:high]) * ((high - low) / 7)
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(total)
    with fw.no_grad():
        return model.state_dict(), losses, model(batch(9)[0])


@pytest.mark.parametrize(
    ("size", "micro"),
    [
        (1, 2),
        (2, 3),
        (3, 5),
        *(pytest.param(4, n, marks=pytest.mark.wide) for n in (1, 4, 7)),
    ],
)
def test_training(monkeypatch: pytest.MonkeyPatch, size: int, micro: int) -> None:
    models = [layers(rank) for rank in range(size)]

    def work(group: Group) -> Any:
        model = nn.Pipeline(models[group.rank], micro, group, loss=mse_loss)
        optimizer = fw.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        losses = []
        for step in range(3):
            x, y = batch(step)
            optimizer.zero_grad()
            loss = model.step(
                x if model.is_first else None, y if model.is_last else None
            )
            model.clip_grad_norm_(1.0)
            optimizer.step()
            losses.append(None if loss is None else loss.item())
        out = model(batch(9)[0])
        return dict(model.state_dict()), losses, out

    weights, losses, out = alone(micro)
    results = as_threads(monkeypatch, size).run(work)
    state = {key: x for found, _, _ in results for key, x in found.items()}
    assert sorted(state) == sorted(weights)
    assert sum(len(found) for found, _, _ in results) == len(weights)
    for key, value in weights.items():
        np.testing.assert_allclose(state[key].numpy(), value.numpy(), rtol=1e-5)
    assert [each[1][0] for each in results[:-1]] == [None] * (size - 1)
    np.testing.assert_allclose(results[-1][1], losses, rtol=1e-5)
    np.testing.assert_allclose(results[-1][2].numpy(), out.numpy(), rtol=1e-4)


def test_bits_are_those_of_accumulated_gradients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of several tensors between stages, one of them without a gradient."""

    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x: fw.Tensor, mask: fw.Tensor) -> Any:
            return self.layer(x), x.detach().tanh(), mask

    class Second(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 1)

        def forward(self, x: fw.Tensor, y: fw.Tensor, mask: fw.Tensor) -> fw.Tensor:
            return self.layer(fw.where(mask, x, y)).sum(1)

    stages = [[First(), Second()] for _ in range(3)]
    x, mask = fw.tensor([[1.0, 2.0], [3.0, -1.0]]), fw.tensor([[True, False]] * 2)
    y = fw.tensor([0.5, 0.25])

    def work(group: Group) -> Any:
        model = nn.Pipeline(stages[group.rank], 2, group, loss=mse_loss)
        model.step((x, mask), y)
        return {key: p.grad.tolist() for key, p in model.named_parameters()}

    found: dict[str, Any] = {}
    for each in as_threads(monkeypatch, 2).run(work):
        found |= each
    first, second = stages[2]
    first.load_state_dict(stages[0][0].state_dict())
    second.load_state_dict(stages[0][1].state_dict())
    for k in range(2):
        part = slice(k, k + 1)
        (mse_loss(second(*first(x[part], mask[part])), y[part]) * 0.5).backward()
    for at, each in enumerate((first, second)):
        for key, p in each.named_parameters():
            assert found[f"{at}.{key}"] == p.grad.tolist()


def test_states(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = layers(5).state_dict()

    def work(group: Group) -> None:
        model = nn.Pipeline(layers(0), 1, group)
        model.load_state_dict(whole)
        for key, value in model.state_dict().items():
            assert fw.equal(value, whole[key])
        with pytest.raises(StateError, match="unexpected keys: other"):
            model.load_state_dict({**whole, "other": fw.ones(1)})

    as_threads(monkeypatch, 2).run(work)


def tied(seed: int) -> list[nn.Module]:
    """Return modules of which three have one weight, two of them in turn."""
    rng = np.random.default_rng(seed)
    made = [nn.Linear(4, 4, bias=False) for _ in range(4)]
    with fw.no_grad():
        for each in made:
            each.weight.copy_(fw.tensor(rng.standard_normal((4, 4)) / 2))
    made[2].weight = made[3].weight = made[0].weight
    return made


@pytest.mark.parametrize("size", [1, 2, 4])
def test_ranks_share_a_parameter(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Its gradient is the sum of those of all places, and counts once in a norm."""
    models, whole = [tied(rank) for rank in range(size)], nn.Sequential(*tied(0))
    x, y = fw.randn(6, 4), fw.randn(6, 4)

    def work(group: Group) -> Any:
        model = nn.Pipeline(models[group.rank], 3, group, loss=mse_loss)
        grads, norms = [], []
        for _ in range(2):
            model.step(x, y)
            grads.append({k: p.grad.tolist() for k, p in model.named_parameters()})
        norms.append(model.clip_grad_norm_(0.1).item())
        found = {k: p.grad.numpy() for k, p in model.named_parameters()}
        state = model.state_dict()
        once = dict(whole.state_dict())
        del once["2.weight"], once["3.weight"]
        if size > 1:
            model.load_state_dict({**state, **once})
        return grads, norms, found, state

    results = as_threads(monkeypatch, size).run(work)
    for _ in range(2):
        mse_loss(whole(x), y).backward()
    right = {"1.weight": whole[1].weight.grad}
    shared = whole[0].weight.grad
    norm = nn.utils.clip_grad_norm_(whole.parameters(), 0.1).item()
    states: list[str] = []
    for grads, norms, found, state in results:
        states += state
        np.testing.assert_allclose(norms, norm, rtol=1e-5)
        for key, value in found.items():
            expected = right.get(key, shared).numpy()
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-7)
            np.testing.assert_allclose(
                np.array(grads[1][key]), 2 * np.array(grads[0][key]), rtol=1e-5
            )
    assert sorted(states) == sorted(whole.state_dict())


class Text(nn.Module):
    def forward(self, x: fw.Tensor) -> Any:
        return x, "text"


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="micro_batches is 0; it must be at least 1"):
        nn.Pipeline([nn.Identity()], 0)
    model = nn.Pipeline([nn.Linear(1, 1)], 2, loss=mse_loss)
    with pytest.raises(ValueError, match="the last rank has no loss or no target"):
        model.step(fw.ones(2, 1))
    with pytest.raises(ValueError, match="rank 0 is given nothing; the first rank"):
        model.step(None, fw.ones(2, 1))
    with pytest.raises(ValueError, match="there are 1 samples for 2 micro-batches"):
        model.step(fw.ones(1, 1), fw.ones(1, 1))

    def work(group: Group) -> None:
        with pytest.raises(ValueError, match="there are 1 modules for 2 ranks"):
            nn.Pipeline([nn.Identity()], 1, group)
        two = [nn.Linear(1, 1), nn.Linear(1, 1 + group.rank)]
        with pytest.raises(DistributedError, match=r"rank 1 has 1\.weight: float32"):
            nn.Pipeline(two, 1, group)
        with pytest.raises(
            DistributedError, match="is 2 on rank 0 and 3 on rank 1; it"
        ):
            nn.Pipeline(two[:1] * 2, 2 + group.rank, group)
        wrong = nn.Pipeline([Text(), nn.Flatten()], 1, group, loss=mse_loss)
        if group.rank == 0:
            with pytest.raises(TypeError, match="a stage returns a str; it must"):
                wrong.step(fw.ones(1, 1))

    as_threads(monkeypatch, 2).run(work)
