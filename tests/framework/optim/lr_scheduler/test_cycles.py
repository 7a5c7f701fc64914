"""Cycles of the learning rate."""

import pytest
import torch

from tests.framework.optim.lr_scheduler.schedules import (
    optimizer,
    torch_optimizer,
)
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
