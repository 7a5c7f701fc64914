"""Learning-rate schedules."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import optim
from vkbackend.framework.base.errors import StateError
from vkbackend.framework.optim import lr_scheduler

EPOCHS = 25


def optimizer() -> optim.SGD:
    groups: list[dict[str, Any]] = [
        {"params": [fw.ones(1, requires_grad=True)]},
        {"params": [fw.ones(1, requires_grad=True)], "lr": 0.5},
    ]
    return optim.SGD(groups, lr=0.1, momentum=0.9)


def torch_optimizer() -> torch.optim.SGD:
    groups = [{"params": [torch.ones(1)], "lr": lr} for lr in (0.1, 0.5)]
    return torch.optim.SGD(groups, momentum=0.9)


CASES: list[tuple[str, dict[str, Any]]] = [
    ("StepLR", {"step_size": 3}),
    ("StepLR", {"step_size": 1, "gamma": 0.9}),
    ("MultiStepLR", {"milestones": [3, 7, 7, 20], "gamma": 0.5}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 0.95**epoch}),
    ("LambdaLR", {"lr_lambda": [lambda epoch: epoch / 9, lambda epoch: 1.0]}),
    ("MultiplicativeLR", {"lr_lambda": lambda epoch: 1 / (1 + epoch)}),
    ("ConstantLR", {}),
    ("ConstantLR", {"factor": 0.5, "total_iters": 9}),
    ("LinearLR", {}),
    ("LinearLR", {"start_factor": 1.0, "end_factor": 0.1, "total_iters": 20}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("PolynomialLR", {"total_iters": 11, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 10}),
    ("CosineAnnealingLR", {"T_max": 40, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 2, "eta_min": 0.01}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 4}),
    (
        "CyclicLR",
        {
            "base_lr": [0.01, 0.1],
            "max_lr": [0.2, 0.3],
            "step_size_up": 3,
            "step_size_down": 5,
            "mode": "triangular2",
        },
    ),
    (
        "CyclicLR",
        {
            "base_lr": 0.01,
            "max_lr": 0.2,
            "step_size_up": 4,
            "mode": "exp_range",
            "gamma": 0.9,
            "cycle_momentum": False,
        },
    ),
    ("OneCycleLR", {"max_lr": 0.4, "total_steps": EPOCHS + 1}),
    (
        "OneCycleLR",
        {
            "max_lr": [0.4, 0.2],
            "epochs": 13,
            "steps_per_epoch": 2,
            "three_phase": True,
            "anneal_strategy": "linear",
        },
    ),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_schedules_are_pytorchs(name: str, options: dict[str, Any]) -> None:
    own, reference = optimizer(), torch_optimizer()
    ours = getattr(lr_scheduler, name)(own, **options)
    theirs = getattr(torch.optim.lr_scheduler, name)(reference, **options)
    for _ in range(EPOCHS):
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), abs=1e-12)
        for group, wanted in zip(own.param_groups, reference.param_groups):
            assert group["lr"] == pytest.approx(wanted["lr"], abs=1e-12)
            assert group["momentum"] == pytest.approx(wanted["momentum"], abs=1e-12)
        reference.step()
        ours.step()
        theirs.step()


@pytest.mark.parametrize("name", ["SequentialLR", "ChainedScheduler"])
def test_several_schedules_are_pytorchs(name: str) -> None:
    made = []
    for own, module in (
        (optimizer(), lr_scheduler),
        (torch_optimizer(), torch.optim.lr_scheduler),
    ):
        members = [
            module.ConstantLR(own, factor=0.1, total_iters=4),
            module.ExponentialLR(own, gamma=0.9),
            module.CosineAnnealingLR(own, T_max=6),
        ]
        if name == "SequentialLR":
            made.append(module.SequentialLR(own, members, milestones=[4, 11]))
        else:
            made.append(module.ChainedScheduler(members, optimizer=own))
    ours, theirs = made
    for _ in range(EPOCHS):
        rates = [group["lr"] for group in theirs.optimizer.param_groups]
        assert ours.get_last_lr() == pytest.approx(rates, abs=1e-12)
        theirs.optimizer.step()
        ours.step()
        theirs.step()


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2},
        {"mode": "max", "factor": 0.5, "patience": 0, "cooldown": 2},
        {"threshold": 0.3, "threshold_mode": "abs", "patience": 1, "min_lr": 0.03},
    ],
)
def test_plateaus_are_pytorchs(options: dict[str, Any]) -> None:
    own, reference = optimizer(), torch_optimizer()
    ours = lr_scheduler.ReduceLROnPlateau(own, **options)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(reference, **options)
    for epoch in range(40):
        metric = 3 / (1 + epoch) if epoch < 9 else 0.375 + epoch % 5 / 64
        metric = fw.tensor(metric).item()
        ours.step(fw.tensor(metric) if epoch % 2 else metric)
        theirs.step(metric)
        rates = [group["lr"] for group in reference.param_groups]
        assert ours.get_last_lr() == pytest.approx(rates, abs=1e-12)


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


@pytest.mark.parametrize(("name", "options"), [case for case in CASES if case[1]])
def test_states_go_on(name: str, options: dict[str, Any]) -> None:
    kind = getattr(lr_scheduler, name)
    first, second = optimizer(), optimizer()
    one = kind(first, **options)
    for _ in range(5):
        one.step()
    other = kind(second, **options)
    other.load_state_dict(one.state_dict())
    for group, wanted in zip(second.param_groups, first.param_groups):
        group["lr"] = wanted["lr"]
    for _ in range(5):
        one.step()
        other.step()
        assert other.get_last_lr() == one.get_last_lr()


@pytest.mark.parametrize(
    ("name", "options", "text"),
    [
        ("LambdaLR", {"lr_lambda": [abs]}, "1 functions for 2 groups"),
        ("LinearLR", {"start_factor": 0.0}, "start_factor is 0.0"),
        ("ConstantLR", {"factor": 2.0}, r"factor is 2.0; it must be in \[0, 1\]"),
        ("CosineAnnealingWarmRestarts", {"T_0": 0}, "T_0 is 0"),
        ("CyclicLR", {"base_lr": 0, "max_lr": 1, "mode": "saw"}, "mode is 'saw'"),
        ("CyclicLR", {"base_lr": [0], "max_lr": 1}, "base_lr has 1 numbers"),
        ("OneCycleLR", {"max_lr": 1}, "total_steps is None"),
        ("OneCycleLR", {"max_lr": 1, "total_steps": 4, "pct_start": 2}, "pct_start"),
        ("ReduceLROnPlateau", {"factor": 1.0}, "factor is 1.0; it must be below 1"),
        ("ReduceLROnPlateau", {"mode": "least"}, "mode is 'least'"),
        ("StepLR", {"step_size": 2, "last_epoch": 3}, "a group has no initial_lr"),
        ("SequentialLR", {"schedulers": [], "milestones": []}, "0 milestones"),
    ],
)
def test_options_are_checked(name: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        getattr(lr_scheduler, name)(optimizer(), **options)


def test_a_cycle_that_has_ended() -> None:
    scheduler = lr_scheduler.OneCycleLR(optimizer(), 0.1, total_steps=2)
    scheduler.step()
    scheduler.step()
    with pytest.raises(ValueError, match="it is step 3; the cycle has 2"):
        scheduler.step()


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
