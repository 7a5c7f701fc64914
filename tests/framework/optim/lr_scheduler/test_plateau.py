"""The learning rate when a metric no longer improves."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from tests.framework.optim.lr_scheduler.schedules import (
    optimizer,
    torch_optimizer,
)
from vkbackend.framework.optim import lr_scheduler


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
