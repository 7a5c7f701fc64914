"""States by the names of parameters are PyTorch's, and are loaded again."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
import vkbackend.framework.distributed.checkpoint.state_dict as ours


def trained(of: Any) -> tuple[Any, Any]:
    model = of.nn.Sequential(of.nn.Linear(2, 2), of.nn.Linear(2, 1))
    groups = [
        {"params": [*model[1].parameters()], "lr": 0.5},
        {"params": [*model[0].parameters()]},
    ]
    optimizer = of.optim.Adam(groups)
    model(of.ones(1, 2)).sum().backward()
    optimizer.step()
    return model, optimizer


def keys(state: dict[str, Any]) -> dict[str, Any]:
    return {
        key: keys(each) if isinstance(each, dict) else key
        for key, each in state.items()
        if key not in ("foreach", "fused", "capturable", "differentiable")
    }


@pytest.mark.parametrize("flat", [False, True])
def test_optimizer(flat: bool) -> None:
    # For this alone PyTorch loads SymPy, which each collection would wait for.
    import torch.distributed.checkpoint.state_dict as theirs

    found = {}
    for of, states in ((fw, ours), (torch, theirs)):
        model, optimizer = trained(of)
        options = states.StateDictOptions(flatten_optimizer_state_dict=flat)
        found[of] = states.get_optimizer_state_dict(model, optimizer, options=options)
    mine, others = found[fw], found[torch]
    ignored = (".foreach", ".fused", ".capturable", ".differentiable")
    assert {each for each in keys(mine) if not each.endswith(ignored)} == {
        each for each in keys(others) if not each.endswith(ignored)
    }
    if not flat:
        assert keys(mine["state"]) == keys(others["state"])
        assert [each["params"] for each in mine["param_groups"]] == [
            each["params"] for each in others["param_groups"]
        ]
    model, optimizer = trained(fw)
    ours.set_optimizer_state_dict(model, optimizer, mine)
    again = ours.get_optimizer_state_dict(
        model,
        optimizer,
        options=ours.StateDictOptions(flatten_optimizer_state_dict=flat),
    )
    key = "state.0.weight.exp_avg"
    values = [each[key] if flat else each["state"]["0.weight"]["exp_avg"]
              for each in (mine, again)]  # fmt: skip
    assert fw.equal(*values)
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_model() -> None:
    model, optimizer = trained(fw)
    model[0].weight.requires_grad_(False)
    options = ours.StateDictOptions(ignore_frozen_params=True, cpu_offload=True)
    names = ["0.bias", "1.weight", "1.bias"]
    assert [*ours.get_model_state_dict(model, options=options)] == names
    options = ours.StateDictOptions(keep_submodule_prefixes=False, strict=False)
    part = ours.get_model_state_dict(model, submodules={model[1]}, options=options)
    assert [*part] == ["weight", "bias"]
    assert ours.set_model_state_dict(model, {}, options=options).missing_keys
    states = ours.get_state_dict(model, optimizer)
    ours.set_state_dict(
        model, optimizer, model_state_dict=states[0], optim_state_dict=states[1]
    )
    with pytest.raises(ValueError, match="is none of the module's"):
        ours.get_optimizer_state_dict(fw.nn.Identity(), optimizer)
    with pytest.raises(KeyError, match="has no options of the parameters"):
        ours.set_optimizer_state_dict(model, optimizer, {})
