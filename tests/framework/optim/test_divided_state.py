"""A state of some ranks goes on with another number of them, wrapped otherwise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.nn.parallel_program import batch, loss_of, make
from tests.rank_threads import as_threads
from vkbackend.framework import nn
from vkbackend.framework.base.errors import StateError
from vkbackend.framework.communication.group import Group
from vkbackend.framework.io.part_files import PartReader, write_parts
from vkbackend.framework.optim.divided_state import (
    MemoryReader,
    gathered,
    load_model_state,
    load_optimizer_state,
    model_state,
    optimizer_state,
    parameter_names,
)

PLAN = {"0": "column", "2": "row"}


def wrapped(kind: str, group: Group, seed: int) -> tuple[nn.Module, Any]:
    model = make("mlp", seed)
    if kind == "data":
        model = nn.DataParallel(model, group)
    elif kind == "fsdp":
        model = nn.FSDP(model, group, auto_wrap_policy="children")
    else:
        nn.tensor_parallel(model, group, PLAN)
    return model, fw.optim.AdamW(model.parameters(), lr=0.01)


def train(model: nn.Module, optimizer: Any, group: Group, steps: range) -> None:
    divided = isinstance(model, nn.DataParallel | nn.FSDP)
    for step in steps:
        x, y = batch("mlp", step, 8)
        part = np.array_split(np.arange(8), group.size)[group.rank]
        part = part if divided else np.arange(8)
        optimizer.zero_grad()
        loss_of(model, x[part], y[part]).backward()
        optimizer.step()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("data 2", "fsdp 4"),
        ("fsdp 2", "tensor 2"),
        ("fsdp 4", "data 1"),
        ("tensor 4", "fsdp 1"),
        *(
            pytest.param(f"{a} {m}", f"{b} {n}", marks=pytest.mark.wide)
            for a in ("data", "fsdp", "tensor")
            for b in ("data", "fsdp", "tensor")
            for m in (1, 2, 4)
            for n in (1, 2, 4)
        ),
    ],
)
def test_resumed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: str, after: str
) -> None:
    def save(group: Group) -> Any:
        model, optimizer = wrapped(before.split()[0], group, 0)
        train(model, optimizer, group, range(2))
        state = {
            "model": model_state(model),
            "optimizer": optimizer_state(model, optimizer),
        }
        write_parts(state, tmp_path, group)
        whole = gathered(state, group)
        train(model, optimizer, group, range(2, 4))
        return whole, gathered(model_state(model), group)

    def load(group: Group) -> Any:
        model, optimizer = wrapped(after.split()[0], group, 7)
        found = []
        for reader in (PartReader(tmp_path), MemoryReader(whole)):
            load_model_state(model, reader, ("model",))
            load_optimizer_state(model, optimizer, reader, ("optimizer",))
            found.append(gathered(optimizer_state(model, optimizer), group))
        train(model, optimizer, group, range(2, 4))
        return found, gathered(model_state(model), group)

    results = as_threads(monkeypatch, int(before[-1])).run(save)
    whole, expected = results[0]
    moments = whole["optimizer"]["state"]
    for states, found in as_threads(monkeypatch, int(after[-1])).run(load):
        for state in states:
            assert sorted(state["state"]) == sorted(moments)
            for name, entry in moments.items():
                for key, value in entry.items():
                    other = state["state"][name][key]
                    if isinstance(value, fw.Tensor):
                        assert fw.equal(other, value), (name, key)
                    else:
                        assert other == value
        for name, value in expected.items():
            np.testing.assert_allclose(
                found[name].numpy(), value.numpy(), rtol=1e-3, atol=1e-6
            )


def test_what_is_refused() -> None:
    group = fw.distributed.init()
    model, optimizer = wrapped("fsdp", group, 0)
    assert [*parameter_names(model).values()] == [*model.state_dict()]
    state = gathered(optimizer_state(model, optimizer), group)
    state["param_groups"][0]["params"] = ["0.weight"]
    with pytest.raises(StateError, match=r"the state has the parameters \[\['0\.wei"):
        load_optimizer_state(model, optimizer, MemoryReader(state))
    with pytest.raises(ValueError, match="that is none of the module's"):
        optimizer_state(nn.Linear(1, 1), optimizer)
    whole = gathered(model_state(model), group)
    whole["0.weight"] = fw.ones(5, 5)
    with pytest.raises(StateError, match=r"`0\.weight` is \(5, 5\), the module's is"):
        load_model_state(model, MemoryReader(whole))
    del whole["0.weight"]
    with pytest.raises(StateError, match=r"missing keys: 0\.weight"):
        load_model_state(model, MemoryReader(whole))
