"""Several schedules in turn and together."""

import pytest
import torch

from tests.framework.optim.lr_scheduler.schedules import (
    EPOCHS,
    optimizer,
    torch_optimizer,
)
from vkbackend.framework.optim import lr_scheduler


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
