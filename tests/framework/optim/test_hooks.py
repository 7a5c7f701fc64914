"""Hooks of optimizers beside PyTorch's: what is called, with what, in which order."""

import copy
import sys
from typing import Any

import pytest
import torch

import vkbackend.framework as fw


def own_optimizer(library: Any, parameter: Any) -> Any:
    """Return an optimizer that a program defines."""

    class Plain(library.optim.Optimizer):  # type: ignore[misc]  # of either library
        def __init__(self, params: Any, lr: float = 0.1) -> None:
            super().__init__(params, {"lr": lr})

        @library.no_grad()
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                for each in group["params"]:
                    each.add_(each.grad, alpha=-group["lr"])
            return "done"

    return Plain([parameter])


def events(library: Any, own: bool, scaled: bool) -> list[Any]:
    """Return what hooks of a few steps see; the third step overflows if scaled."""
    module = sys.modules[library.optim.Optimizer.__module__]
    x = library.ones(2, requires_grad=True)
    made = own_optimizer(library, x) if own else library.optim.SGD([x], lr=0.1)
    seen: list[Any] = []

    def note(name: str) -> Any:
        return lambda _, args, kwargs: seen.append((name, len(args), [*kwargs]))

    handles = [
        module.register_optimizer_step_pre_hook(note("every before")),
        module.register_optimizer_step_post_hook(note("every after")),
        made.register_step_pre_hook(note("before")),
        made.register_step_post_hook(note("after")),
    ]
    scaler = library.amp.GradScaler("cpu", init_scale=8.0, enabled=scaled)
    for step in range(4):
        made.zero_grad()
        factor = float("inf") if scaled and step == 2 else 2.0
        scaler.scale((x * factor).sum()).backward()
        seen.append(scaler.step(made))
        scaler.update()
    for handle in handles:
        handle.remove()
    if not scaled:
        seen.append(made.step(closure=None))
    return [*seen, [round(each, 5) for each in x.tolist()], scaler.get_scale()]


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
def test_hooks_of_steps(own: bool, scaled: bool) -> None:
    assert events(fw, own, scaled) == events(torch, own, scaled)


def states(library: Any) -> list[Any]:
    x = library.ones(2, requires_grad=True)
    made, seen = library.optim.SGD([x], lr=0.5), []

    def louder(_: Any, state: Any) -> Any:
        groups = [{**group, "lr": group["lr"] * 2} for group in state["param_groups"]]
        return {**state, "param_groups": groups}

    made.register_state_dict_pre_hook(lambda own: seen.append(type(own).__name__))
    made.register_state_dict_post_hook(louder)
    made.register_load_state_dict_pre_hook(louder)
    made.register_load_state_dict_pre_hook(lambda *_: seen.append("first"), True)
    made.register_load_state_dict_post_hook(lambda own: seen.append("loaded"))
    seen.append(made.state_dict()["param_groups"][0]["lr"])
    made.load_state_dict(made.state_dict())
    copied = copy.deepcopy(made)
    copied.load_state_dict(copied.state_dict())
    return [*seen, made.param_groups[0]["lr"], copied.param_groups[0]["lr"]]


def test_hooks_of_states() -> None:
    assert states(fw) == states(torch)


def test_a_hook_replaces_arguments() -> None:
    found = []
    for library in (fw, torch):
        x = library.ones(1, requires_grad=True)
        made = library.optim.SGD([x], lr=0.1)
        made.register_step_pre_hook(lambda own, args, _: ((own, lambda: 7), {}))
        found.append(made.step())
        made.register_step_pre_hook(lambda *_: 1)
        with pytest.raises(RuntimeError):
            made.step()
    assert found == [7, 7]
