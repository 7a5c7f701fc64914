"""Schedules beside PyTorch, and their options."""

from typing import Any

import pytest
import torch

from tests.framework.optim.lr_scheduler.schedules import (
    EPOCHS,
    optimizer,
    torch_optimizer,
)
from vkbackend.framework.optim import lr_scheduler

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
        ("SequentialLR", {"schedulers": [], "milestones": []}, "there is no scheduler"),
    ],
)
def test_options_are_checked(name: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        getattr(lr_scheduler, name)(optimizer(), **options)
