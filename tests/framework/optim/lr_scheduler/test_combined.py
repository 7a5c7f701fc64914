"""Several schedules in turn and together."""

from typing import Any

import pytest
import torch

from tests.framework.optim.lr_scheduler.schedules import (
    EPOCHS,
    optimizer,
    torch_optimizer,
)
from vkbackend.framework.optim import lr_scheduler
from vkbackend.framework.optim.lr_scheduler.scheduler import _EpochAdvance


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


def test_a_step_that_is_rolled_back_leaves_no_trace() -> None:
    own = optimizer()
    members = [
        lr_scheduler.CyclicLR(own, 0.01, 0.2, step_size_up=4),
        lr_scheduler.ExponentialLR(own, 0.9),
    ]
    scheduler = lr_scheduler.ChainedScheduler(members)
    advance = _EpochAdvance(scheduler)
    scheduler.step()

    def state() -> list[Any]:
        groups = [(group["lr"], group["momentum"]) for group in own.param_groups]
        epochs = [each.last_epoch for each in members]
        return [*groups, *epochs, *scheduler.get_last_lr()]

    before, mark = state(), advance.mark()
    advance()
    assert all(now != then for now, then in zip(state(), before))
    advance.take_back(mark)
    assert state() == before
