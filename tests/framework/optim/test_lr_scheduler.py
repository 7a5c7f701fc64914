"""Learning-rate schedules."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import optim
from vkbackend.framework.base.errors import StateError
from vkbackend.framework.optim.lr_scheduler import LRScheduler

EPOCHS = 25


def optimizer() -> optim.SGD:
    groups: list[dict[str, Any]] = [
        {"params": [fw.ones(1, requires_grad=True)]},
        {"params": [fw.ones(1, requires_grad=True)], "lr": 0.5},
    ]
    return optim.SGD(groups, lr=0.1)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("StepLR", {"step_size": 3}),
        ("StepLR", {"step_size": 1, "gamma": 0.9}),
        ("CosineAnnealingLR", {"T_max": 10}),
        ("CosineAnnealingLR", {"T_max": 40, "eta_min": 0.01}),
    ],
)
def test_schedules_are_pytorchs(name: str, options: dict[str, Any]) -> None:
    ours = getattr(optim, name)(optimizer(), **options)
    groups = [{"params": [torch.ones(1)], "lr": lr} for lr in (0.1, 0.5)]
    reference = torch.optim.SGD(groups)
    theirs = getattr(torch.optim.lr_scheduler, name)(reference, **options)
    for _ in range(EPOCHS):
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), abs=1e-12)
        reference.step()
        ours.step()
        theirs.step()


def test_a_schedule_goes_on_from_a_saved_state() -> None:
    first = optim.StepLR(optimizer(), 2)
    for _ in range(3):
        first.step()
    second = optim.StepLR(optimizer(), 2)
    second.load_state_dict(first.state_dict())
    first.step()
    second.step()
    assert second.last_epoch == 4
    assert second.get_last_lr() == first.get_last_lr()
    other = optim.StepLR(optim.SGD([fw.ones(1, requires_grad=True)]), 2)
    with pytest.raises(StateError, match="has 2 groups, the optimizer 1"):
        other.load_state_dict(first.state_dict())


def test_the_rule_must_be_defined() -> None:
    with pytest.raises(NotImplementedError, match=r"LRScheduler\.rule"):
        LRScheduler(optimizer()).step()


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
