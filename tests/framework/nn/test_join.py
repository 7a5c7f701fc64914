"""Ranks with fewer batches follow the steps of those that have more."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework import nn
from vkbackend.framework.communication.group import Group

X = np.random.default_rng(0).standard_normal((3, 4, 2)).astype(np.float32)
BATCHES = (2, 4, 1)


def made() -> nn.Module:
    layers = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    with fw.no_grad():
        for each in layers.parameters():
            each.copy_(fw.arange(each.numel()).reshape(each.shape) * 0.1 - 0.2)
    return layers


@pytest.mark.parametrize("by_all", [True, False])
def test_uneven_inputs(monkeypatch: pytest.MonkeyPatch, by_all: bool) -> None:
    def work(group: Group) -> Any:
        model = nn.DataParallel(made(), group, bucket_bytes=16)
        optimizer = fw.optim.SGD(model.parameters(), lr=0.5)
        with model.join(divide_by_initial_world_size=by_all):
            for step in range(BATCHES[group.rank]):
                optimizer.zero_grad()
                x = fw.tensor(X[group.rank, step : step + 1])
                model(x).square().sum().backward()
                optimizer.step()
        return model.module.state_dict()

    results = as_threads(monkeypatch, 3).run(work)
    alone = made()
    optimizer = fw.optim.SGD(alone.parameters(), lr=0.5)
    for step in range(4):
        ranks = [rank for rank in range(3) if step < BATCHES[rank]]
        optimizer.zero_grad()
        total = sum(
            alone(fw.tensor(X[rank, step : step + 1])).square().sum() for rank in ranks
        )
        (total / (3 if by_all else len(ranks))).backward()
        optimizer.step()
    for found in results:
        for key, value in alone.state_dict().items():
            np.testing.assert_allclose(found[key].numpy(), value.numpy(), rtol=1e-4)


def test_an_early_end_may_be_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(group: Group) -> str:
        model = nn.DataParallel(made(), group)

        def train() -> None:
            with model.join(throw_on_early_termination=True):
                for step in range(BATCHES[group.rank]):
                    x = fw.tensor(X[group.rank, step : step + 1])
                    model(x).square().sum().backward()

        with pytest.raises(RuntimeError, match="rank 2 has no further batch") as caught:
            train()
        assert model.joining is None
        return str(caught.value)

    assert len(set(as_threads(monkeypatch, 3).run(work))) == 1
