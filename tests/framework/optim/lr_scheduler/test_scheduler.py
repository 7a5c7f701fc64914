"""States of schedulers, and schedulers of one's own."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.optim.lr_scheduler.schedules import (
    optimizer,
    torch_optimizer,
)
from vkbackend.framework import optim
from vkbackend.framework.base.errors import StateError
from vkbackend.framework.optim import lr_scheduler


def test_a_schedule_goes_on_from_a_saved_state() -> None:
    first = optim.StepLR(optimizer(), 2)
    for _ in range(3):
        first.step()
    second = optim.StepLR(optimizer(), 2)
    second.load_state_dict(first.state_dict())
    second.optimizer.load_state_dict(first.optimizer.state_dict())
    first.step()
    second.step()
    assert second.last_epoch == 4
    assert second.get_last_lr() == first.get_last_lr()
    other = optim.StepLR(optim.SGD([fw.ones(1, requires_grad=True)]), 2)
    with pytest.raises(StateError, match="has 2 groups, the optimizer 1"):
        other.load_state_dict(first.state_dict())


def test_the_rule_must_be_defined() -> None:
    with pytest.raises(NotImplementedError, match=r"LRScheduler\.get_lr"):
        lr_scheduler.LRScheduler(optimizer())


@pytest.mark.parametrize(
    "state",
    [
        *({}, [1], {"last_epoch": 1}),
        *(
            {"last_epoch": epoch, "base_lrs": [0.1, 0.5]}
            for epoch in ("1", -1, True, 1.0, None)
        ),
        *(
            {"last_epoch": 1, "base_lrs": [rate, 0.5]}
            for rate in (-0.1, float("nan"), True, "0.1")
        ),
    ],
)
def test_what_is_no_state_is_refused(state: Any) -> None:
    scheduler = optim.StepLR(optimizer(), 2)
    before = scheduler.state_dict()
    with pytest.raises(StateError, match=r"^load_state_dict: last_epoch is "):
        scheduler.load_state_dict(state)
    assert scheduler.state_dict() == before


class Decay:
    """A rule that is an object, of which states have the attributes."""

    def __init__(self, base: float) -> None:
        self.base = base

    def __call__(self, epoch: int) -> float:
        return self.base**epoch


def in_turn(s: Any, o: Any, *others: Any) -> Any:
    """Return schedulers in turn, or two together."""
    first = s.ConstantLR(o, 0.1, 3)
    if not others:
        return s.ChainedScheduler([first, s.ExponentialLR(o, 0.9)], optimizer=o)
    return s.SequentialLR(o, [first, *others], [3, 11][: len(others)])


SCHEDULERS: dict[str, Callable[[Any, Any], Any]] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, [lambda epoch: 0.9**epoch, Decay(0.95)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.95),
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], 0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.3, 9),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.3, 0.9, 12),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 12, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, 0.01),
    "WarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, 5),
    "CyclicLR-exp": lambda s, o: s.CyclicLR(
        o, 0.01, [0.2, 0.3], 4, mode="exp_range", gamma=0.9, cycle_momentum=False
    ),
    "CyclicLR-own": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, scale_fn=Decay(0.5)),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [0.3, 0.4], 30),
    "OneCycleLR-three": lambda s, o: s.OneCycleLR(
        o, 0.3, epochs=3, steps_per_epoch=10, three_phase=True, anneal_strategy="linear"
    ),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(
        o, factor=0.5, patience=1, cooldown=1, min_lr=[0.0, 0.1]
    ),
    "Sequential": lambda s, o: in_turn(
        s, o, s.ExponentialLR(o, 0.9), s.CosineAnnealingLR(o, 5)
    ),
    "Chained": in_turn,
}


def states(steps: int, scheduler: Any) -> list[list[float]]:
    """Make steps; return the rates and momenta after each."""
    found = []
    for step in range(steps):
        is_plateau = type(scheduler).__name__ == "ReduceLROnPlateau"
        scheduler.step(*([1.0 / (1 + step // 3)] if is_plateau else []))
        groups = scheduler.optimizer.param_groups
        found.append([value for g in groups for value in (g["lr"], g["momentum"])])
    return found


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler:UserWarning")
@pytest.mark.parametrize("name", SCHEDULERS)
def test_either_library_goes_on_from_a_state_of_the_other(name: str) -> None:
    libraries = (
        (lr_scheduler, optimizer),
        (torch.optim.lr_scheduler, torch_optimizer),
    )
    ours, theirs = (SCHEDULERS[name](space, make()) for space, make in libraries)
    np.testing.assert_allclose(states(7, ours), states(7, theirs), 1e-9, 1e-12)
    given = [copy.deepcopy(each.state_dict()) for each in (ours, theirs)]
    assert given[0].keys() == given[1].keys()
    options = [
        {k: v for k, v in group.items() if k in ours.optimizer.param_groups[0]}
        for group in theirs.optimizer.param_groups
    ]
    expected = states(20, theirs)
    for (space, make), state in zip(libraries, reversed(given)):
        scheduler = SCHEDULERS[name](space, make())
        for group, known in zip(scheduler.optimizer.param_groups, options):
            group.update({k: v for k, v in known.items() if k != "params"})
        scheduler.load_state_dict(state)
        assert scheduler.get_last_lr() == pytest.approx(options_lr(options))
        np.testing.assert_allclose(states(20, scheduler), expected, 1e-9, 1e-12)


def options_lr(options: list[dict[str, Any]]) -> list[float]:
    return [group["lr"] for group in options]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_epoch_that_is_given() -> None:
    """It is deprecated; where there is one, the closed form is taken."""
    for name in list(SCHEDULERS)[:10]:
        ours = SCHEDULERS[name](lr_scheduler, optimizer())
        theirs = SCHEDULERS[name](torch.optim.lr_scheduler, torch_optimizer())
        for epoch in (4, 2, 13):
            ours.step(epoch)
            theirs.step(epoch)
            assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr()), name
    with pytest.warns(UserWarning, match=r"StepLR\.step: epoch is deprecated"):
        optim.StepLR(optimizer(), 2).step(1)


def test_an_epoch_to_go_on_from() -> None:
    with pytest.raises(KeyError, match="a group has no initial_lr"):
        optim.StepLR(optimizer(), 2, last_epoch=3)
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer())
    with pytest.raises(ValueError, match="scheduler 0 is a ReduceLROnPlateau"):
        lr_scheduler.ChainedScheduler([plateau])


@pytest.mark.parametrize("library", [torch, fw])
def test_the_first_step_is_that_of_the_class(library: Any) -> None:
    """As schedules count that write `step` themselves."""

    class Warming(library.optim.lr_scheduler.LRScheduler):  # type: ignore[misc, name-defined]  # of either library
        def __init__(self, optimizer: Any) -> None:
            self.in_cycle = -1
            self.asked: list[bool] = []
            super().__init__(optimizer)

        def get_lr(self) -> list[float]:
            self.asked.append(self._get_lr_called_within_step)
            return [(self.in_cycle + 1) * base for base in self.base_lrs]

        def step(self, epoch: int | None = None) -> None:
            self.in_cycle += 1
            super().step(epoch)

    optimizer = library.optim.SGD([library.nn.Parameter(library.ones(1))], lr=0.5)
    made = Warming(optimizer)
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in range(2):
        optimizer.step()
        made.step()
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [0.5, 1.0, 1.5]
    assert made.asked == [True] * 3
    assert not made._get_lr_called_within_step
