"""Cycles of the learning rate."""

import functools
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.optim.lr_scheduler.schedules import (
    optimizer,
    torch_optimizer,
)
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.optim import lr_scheduler


def test_a_fraction_of_an_epoch() -> None:
    ours = lr_scheduler.CosineAnnealingWarmRestarts(optimizer(), 2, 2)
    theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
        torch_optimizer(), 2, 2
    )
    for epoch in (0.5, 1.25, 2.0, 3.75, 6.1, 20.0):
        theirs.optimizer.step()
        ours.step(epoch)
        theirs.step(epoch)
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), abs=1e-12)


def test_a_cycle_that_has_ended() -> None:
    scheduler = lr_scheduler.OneCycleLR(optimizer(), 0.1, total_steps=2)
    scheduler.step()
    scheduler.step()
    with pytest.raises(ValueError, match="it is step 3; the cycle has 2"):
        scheduler.step()


MOVED: list[Any] = [
    ("Adam", {}),
    ("NAdam", {}),
    ("SGD", {"momentum": 0.9, "dampening": 0.1}),
    *[
        pytest.param(name, options, marks=pytest.mark.wide)
        for name, options in (
            ("AdamW", {"amsgrad": True}),
            ("Adamax", {}),
            ("RAdam", {}),
            ("RMSprop", {"momentum": 0.9}),
            ("SGD", {"momentum": 0.9, "nesterov": True}),
        )
    ],
]


def steps_of_a_cycle(library: Any, name: str, options: Any, place: Any) -> list[Any]:
    """Train a layer by a cycle of rate and momentum; return step and weights."""
    x = library.linspace(-1, 1, 12).reshape(4, 3).to(place)
    layer = library.nn.Linear(3, 2)
    with library.no_grad():
        layer.weight.copy_(library.linspace(-1, 1, 6).reshape(2, 3))
        layer.bias.fill_(0.5)
    layer = layer.to(place)
    made = getattr(library.optim, name)(layer.parameters(), lr=0.01, **options)
    cycle = library.optim.lr_scheduler.OneCycleLR(made, 0.05, total_steps=12)

    def step(x: Any) -> Any:
        made.zero_grad()
        loss = (layer(x) ** 2).mean()
        loss.backward()
        made.step()
        return loss

    replayed = step if library is torch else fw.jit(step)
    for _ in range(12):
        replayed(x)
        cycle.step()
    return [replayed, layer.weight.detach().cpu().numpy()]


@pytest.mark.parametrize(("name", "options"), MOVED)
def test_steps_whose_momentum_moves_are_replayed(
    name: str, options: dict[str, Any], gpu: GpuDevice
) -> None:
    train = functools.partial(steps_of_a_cycle, name=name, options=options)
    replayed, found = train(fw, place=gpu)
    assert replayed.replays == 10
    np.testing.assert_allclose(found, train(torch, place="cpu")[1], 1e-5, 1e-6)


def test_a_momentum_that_becomes_zero_is_seen() -> None:
    """Then the gradient is the direction, and the buffer stays as it is."""
    weights = []
    for library in (fw, torch):
        x = library.ones(3, requires_grad=True)
        made = library.optim.SGD([x], lr=0.1, momentum=0.5, dampening=0.5)
        for momentum in (0.5, 0.9, 0.0, 0.0, 0.5):
            made.param_groups[0]["momentum"] = momentum
            made.zero_grad()
            (x * x).sum().backward()
            made.step()
        weights.append(x.detach().numpy())
    np.testing.assert_allclose(*weights, 1e-6)
