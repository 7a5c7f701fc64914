"""A state of some ranks goes on with another number of them, wrapped otherwise."""

from copy import deepcopy
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
from vkbackend.framework.distributed.named_states import (
    StateDictOptions,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
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
    elif kind == "pipe":
        loss = nn.functional.cross_entropy
        model = nn.Pipeline(model, 2, group, loss=loss)
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
        if isinstance(model, nn.Pipeline):
            model.step(fw.as_tensor(x), fw.as_tensor(y))
        else:
            loss_of(model, x[part], y[part]).backward()
        optimizer.step()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("data 2", "fsdp 4"),
        ("fsdp 2", "tensor 2"),
        ("fsdp 4", "data 1"),
        ("tensor 4", "fsdp 1"),
        ("pipe 2", "data 1"),
        ("fsdp 4", "pipe 2"),
        *(
            pytest.param(f"{a} {m}", f"{b} {n}", marks=pytest.mark.wide)
            for a in ("data", "fsdp", "tensor", "pipe")
            for b in ("data", "fsdp", "tensor", "pipe")
            for m in ((1, 2) if a == "pipe" else (1, 2, 4))
            for n in ((1, 2) if b == "pipe" else (1, 2, 4))
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


def tied(seed: int) -> list[nn.Module]:
    made = [nn.Linear(4, 4) for _ in range(3)]
    rng = np.random.default_rng(seed)
    with fw.no_grad():
        for each in [x for layer in made for x in layer.parameters()]:
            each.copy_(fw.tensor(rng.standard_normal(each.shape) / 2))
    made[2].weight = made[0].weight
    return made


def optimizer_of(model: nn.Module) -> fw.optim.Optimizer:
    """Return one with a group of weights, and one of biases."""
    kinds = {"weight": 0.1, "bias": 0.0}
    named = list(model.named_parameters())
    groups = [
        {"params": [x for name, x in named if name.endswith(kind)], "weight_decay": wd}
        for kind, wd in kinds.items()
    ]
    return fw.optim.AdamW(groups, lr=0.01)


def test_stages_of_a_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their optimizers' states together are that of the whole model's, both ways."""
    x, y = fw.randn(6, 4), fw.randn(6, 4)
    loss = nn.functional.mse_loss
    models, others = ([tied(k) for _ in range(2)] for k in (0, 1))

    def step(model: nn.Module, optimizer: Any) -> None:
        optimizer.zero_grad()
        if isinstance(model, nn.Pipeline):
            model.step(x, y)
        else:
            loss(model(x), y).backward()
        optimizer.step()

    whole = nn.Sequential(*tied(0))
    own = optimizer_of(whole)
    step(whole, own)
    wanted = deepcopy(get_state_dict(whole, own))
    numbered = deepcopy({"optimizer": own.state_dict()})
    step(whole, own)
    full = StateDictOptions(full_state_dict=True)

    def work(group: Group) -> Any:
        model = nn.Pipeline(models[group.rank], 2, group, loss=loss)
        optimizer = optimizer_of(model)
        step(model, optimizer)
        states = deepcopy(get_state_dict(model, optimizer, options=full))
        later = []
        for how in ("named", "numbered", "own"):
            again = nn.Pipeline(others[group.rank], 2, group, loss=loss)
            last = optimizer_of(again)
            parts = get_state_dict(model, optimizer) if how == "own" else wanted
            set_model_state_dict(again, parts[0])
            if how == "numbered":
                reader = MemoryReader(numbered)
                load_optimizer_state(again, last, reader, ("optimizer",))
            else:
                set_optimizer_state_dict(again, last, parts[1])
            step(again, last)
            later.append({k: x.numpy() for k, x in again.state_dict().items()})
        return states, later

    right = {k: x.numpy() for k, x in whole.state_dict().items()}
    for (weights, state), later in as_threads(monkeypatch, 2).run(work):
        assert sorted(weights) == sorted(wanted[0])
        assert state["param_groups"] == wanted[1]["param_groups"]
        assert sorted(state["state"]) == sorted(wanted[1]["state"])
        for name, entry in wanted[1]["state"].items():
            for key, value in entry.items():
                found = state["state"][name][key]
                np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-7)
        for each in later:
            for name, value in each.items():
                np.testing.assert_allclose(value, right[name], rtol=1e-4, atol=1e-6)


def test_stages_with_other_numbers_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [tied(0) for _ in range(2)]

    def work(group: Group) -> str:
        model = nn.Pipeline(models[group.rank], 2, group)
        optimizer = fw.optim.SGD(model.parameters(), lr=0.1)
        if group.rank:
            optimizer = optimizer_of(model)
        with pytest.raises(StateError) as caught:
            optimizer_state(model, optimizer)
        return str(caught.value)

    for told in as_threads(monkeypatch, 2).run(work):
        assert "the optimizers of the stages have [1, 2] groups" in told


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
