"""Optimizers that count steps: beside PyTorch, their states, and their replays."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.optim.against_torch import compare
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device, GpuDevice

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("Adam", {"amsgrad": True, "maximize": True}),
    ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.1}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {}),
    ("RAdam", {"betas": (0.8, 0.9), "weight_decay": 0.1}),
    ("ASGD", {"t0": 5, "weight_decay": 0.1}),
    ("Rprop", {}),
    ("Adafactor", {"weight_decay": 0.1, "lr": 0.1}),
    ("SGD", {"momentum": 0.9, "maximize": True}),
]
NAMES = sorted({name for name, _ in OPTIONS} | {"LAMB", "Lion"})


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_steps_are_pytorchs(
    name: str, options: dict[str, Any], place: Device, rng: np.random.Generator
) -> None:
    compare(getattr(optim, name), getattr(torch.optim, name), options, place, rng)


def layers(
    name: str, options: dict[str, Any], double: bool
) -> tuple[Any, Any, Any, Any]:
    """Return equal layers of both libraries, and their optimizers."""
    torch.manual_seed(0)
    theirs, ours = torch.nn.Linear(4, 3), nn.Linear(4, 3)
    if double:
        theirs, ours = theirs.double(), ours.double()
    ours.load_state_dict(to_ours(theirs.state_dict()))
    mine = getattr(optim, name)(ours.parameters(), **options)
    other = getattr(torch.optim, name)(theirs.parameters(), **options)
    return ours, mine, theirs, other


def to_ours(value: Any) -> Any:
    """Return a structure with PyTorch's tensors as ours."""
    if isinstance(value, torch.Tensor):
        return fw.tensor(value.detach().numpy())
    if isinstance(value, dict):
        return {key: to_ours(each) for key, each in value.items()}
    return [to_ours(each) for each in value] if isinstance(value, list) else value


def to_theirs(value: Any) -> Any:
    """Return a structure with our tensors as PyTorch's."""
    if isinstance(value, fw.Tensor):
        return torch.tensor(value.detach().numpy())
    if isinstance(value, dict):
        return {key: to_theirs(each) for key, each in value.items()}
    return [to_theirs(each) for each in value] if isinstance(value, list) else value


def steps(layer: Any, optimizer: Any, x: Any, count: int) -> list[float]:
    """Return the losses of some steps."""
    losses = []
    for _ in range(count):
        optimizer.zero_grad()
        loss = (layer(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "count", [4, pytest.param(50, marks=pytest.mark.wide)], ids=["few", "many"]
)
@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_states_continue_in_the_other_library(
    name: str, options: dict[str, Any], count: int
) -> None:
    # Near a minimum Adafactor's steps change sign: fifty of them make a last bit of
    # float32 into thousandths, in PyTorch alone as well.
    double = count > 4
    array = np.random.default_rng(1).standard_normal((5, 4))
    array = array.astype(np.float64 if double else np.float32)
    ours, mine, theirs, other = layers(name, options, double)
    x, given = fw.tensor(array), torch.tensor(array)
    expected = steps(theirs, other, given, count)
    np.testing.assert_allclose(steps(ours, mine, x, count), expected, 1e-5)
    # Each goes on from where the other has stopped.
    ours.load_state_dict(to_ours(theirs.state_dict()))
    mine.load_state_dict(to_ours(other.state_dict()))
    state = to_theirs(mine.state_dict())
    fresh = torch.nn.Linear(4, 3, dtype=given.dtype)
    fresh.load_state_dict(to_theirs(ours.state_dict()))
    continued = getattr(torch.optim, name)(fresh.parameters(), **options)
    continued.load_state_dict(state)
    expected = steps(theirs, other, given, count)
    np.testing.assert_allclose(steps(ours, mine, x, count), expected, 1e-5)
    np.testing.assert_allclose(steps(fresh, continued, given, count), expected, 1e-5)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("NAdam", "LAMB") else pytest.mark.wide)
        for name in NAMES
    ],
)
def test_replays_take_the_same_steps(name: str, gpu: GpuDevice) -> None:
    results = []
    for jitted in (False, True):
        fw.manual_seed(0)
        layer = nn.Linear(6, 4).to(gpu)
        optimizer = getattr(optim, name)(layer.parameters())
        x = fw.ones(5, 6, device=gpu)

        def step(
            x: fw.Tensor, layer: nn.Linear = layer, own: Any = optimizer
        ) -> fw.Tensor:
            own.zero_grad()
            loss = layer(x).square().mean()
            loss.backward()
            own.step()
            return loss

        run = fw.jit(step) if jitted else step
        results.append([run(x).item() for _ in range(5)])
    np.testing.assert_allclose(results[1], results[0], 1e-6)
    assert run.replays >= 3  # type: ignore[attr-defined]


def test_a_step_that_overflowed_is_not_counted() -> None:
    x = fw.ones(3, requires_grad=True)
    optimizer = optim.RAdam([x])
    x.grad = fw.tensor([1.0, float("inf"), 1.0])
    optimizer.step_unless(fw.tensor(True))
    assert x.tolist() == [1.0] * 3
    x.grad = fw.ones(3)
    optimizer.step_unless(fw.tensor(False))
    assert optimizer.state[x]["step"] == 1
