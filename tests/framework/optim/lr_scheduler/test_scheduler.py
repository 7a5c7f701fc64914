"""States of schedulers, and schedulers of one's own."""

from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.optim.lr_scheduler.schedules import (
    optimizer,
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
