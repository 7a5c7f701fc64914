"""Schedulers made of others."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import StateError
from ..optimizer import Optimizer
from .scheduler import LRScheduler


class SequentialLR(LRScheduler):
    """Runs schedulers one after the other.

    Parameters
    ----------
    optimizer : Optimizer
    schedulers : sequence of LRScheduler
        Made for this optimizer, in order.
    milestones : sequence of int
        Epochs at which the next one begins: one fewer than there are schedulers.
    last_epoch : int, default -1

    Raises
    ------
    ValueError
        If there are not so many milestones, or a scheduler is of another optimizer.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        _check_members("SequentialLR", optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: {len(milestones)} milestones for {len(schedulers)}"
                " schedulers; there must be one fewer"
            )
        self.optimizer = optimizer
        self.schedulers = list(schedulers)
        self.milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        # Each of them made its first step when it was made; that is undone.
        for each in schedulers:
            each.last_epoch -= 1
        self.base_lrs = schedulers[0].base_lrs
        schedulers[0]._advance()

    def _advance(self) -> None:
        self.last_epoch += 1
        at = bisect.bisect_right(self.milestones, self.last_epoch)
        current = self.schedulers[at]
        if at > 0 and self.milestones[at - 1] == self.last_epoch:
            current.last_epoch = -1
            current._set(current.base_lrs)
        current._advance()

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, the milestones and the states of the schedulers."""
        return _state_with_members(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where others stood; see `LRScheduler.load_state_dict`."""
        _load_members(self, state_dict)


class ChainedScheduler(LRScheduler):
    """Runs several schedulers in each step.

    Parameters
    ----------
    schedulers : sequence of LRScheduler
        Of one optimizer, in order.
    optimizer : Optimizer or None
        It; None takes the first scheduler's.

    Raises
    ------
    ValueError
        If there is none, or one is of another optimizer.
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise ValueError("ChainedScheduler: there is no scheduler; give one")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        _check_members("ChainedScheduler", self.optimizer, schedulers)
        self.schedulers = list(schedulers)
        self.base_lrs = schedulers[0].base_lrs
        self.last_epoch = 0

    def _advance(self) -> None:
        self.last_epoch += 1
        for each in self.schedulers:
            each._advance()

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and the states of the schedulers."""
        return _state_with_members(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where others stood; see `LRScheduler.load_state_dict`."""
        _load_members(self, state_dict)


def _check_members(
    where: str, optimizer: Optimizer, schedulers: Sequence[LRScheduler]
) -> None:
    for k, each in enumerate(schedulers):
        if each.optimizer is not optimizer:
            raise ValueError(
                f"{where}: scheduler {k} is of another optimizer; all must be of one"
            )


def _state_with_members(scheduler: SequentialLR | ChainedScheduler) -> dict[str, Any]:
    state = {
        name: value
        for name, value in vars(scheduler).items()
        if name not in ("optimizer", "schedulers")
    }
    return state | {"_schedulers": [each.state_dict() for each in scheduler.schedulers]}


def _load_members(
    scheduler: SequentialLR | ChainedScheduler, state_dict: Mapping[str, Any]
) -> None:
    states = state_dict.get("_schedulers", [])
    if len(states) != len(scheduler.schedulers):
        raise StateError(
            f"load_state_dict: the state has {len(states)} schedulers, this one"
            f" {len(scheduler.schedulers)}; they must be equal"
        )
    rest = {name: value for name, value in state_dict.items() if name != "_schedulers"}
    LRScheduler.load_state_dict(scheduler, rest)
    for each, state in zip(scheduler.schedulers, states):
        each.load_state_dict(state)
