"""Schedulers made of others."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import StateError
from ..optimizer import Optimizer
from .plateau import ReduceLROnPlateau
from .scheduler import LRScheduler


class _Combined(LRScheduler):
    """Scheduler whose state holds those of others, `_schedulers`."""

    _schedulers: list[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """Return the scheduler's own state and those of its schedulers."""
        own = {
            name: value
            for name, value in vars(self).items()
            if name not in ("optimizer", "_schedulers")
        }
        return own | {"_schedulers": [each.state_dict() for each in self._schedulers]}

    def _check_state(self, state_dict: Mapping[str, Any], least: int = 0) -> None:
        super()._check_state(state_dict, least)
        states = state_dict.get("_schedulers", [])
        if len(states) != len(self._schedulers):
            raise StateError(
                f"load_state_dict: the state has {len(states)} schedulers, this one"
                f" {len(self._schedulers)}; they must be equal"
            )
        for each, state in zip(self._schedulers, states):
            each._check_state(state, -1)

    def _take_state(self, state_dict: Mapping[str, Any]) -> None:
        members = self._schedulers
        super()._take_state({**state_dict, "_schedulers": members})
        for each, state in zip(members, state_dict["_schedulers"]):
            each._take_state(state)


class SequentialLR(_Combined):
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
        self._schedulers = list(schedulers)
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self.recursive_undo()
        first = self._schedulers[bisect.bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Undo the first steps, which schedulers made when they were made.

        Parameters
        ----------
        sched : LRScheduler or None
            One of them; None means all.
        """
        given = self if sched is None else sched
        if hasattr(given, "_schedulers"):
            for each in given._schedulers:
                self.recursive_undo(each)
        elif hasattr(given, "last_epoch"):
            given.last_epoch -= 1

    def _advance(self, epoch: float | None = None) -> None:
        self.last_epoch += 1
        at = bisect.bisect_right(self._milestones, self.last_epoch)
        current = self._schedulers[at]
        if at > 0 and self._milestones[at - 1] == self.last_epoch:
            current._update_lr(0)
        else:
            current._advance()
        self._last_lr = current.get_last_lr()

    def _update_lr(self, epoch: float | None = None) -> None:
        """Begin anew, as a member of another one."""
        self.last_epoch = 0
        first = self._schedulers[bisect.bisect_right(self._milestones, 0)]
        first._update_lr(0)
        self._last_lr = first.get_last_lr()


class ChainedScheduler(_Combined):
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
        self._schedulers = list(schedulers)
        self._last_lr = self._rates_now()

    def _advance(self, epoch: float | None = None) -> None:
        for each in self._schedulers:
            each._advance()
        self._last_lr = self._rates_now()

    def _update_lr(self, epoch: float | None = None) -> None:
        """Begin anew, as a member of another one."""
        for each in self._schedulers:
            each._update_lr(0)
        self._last_lr = self._rates_now()


def _check_members(
    where: str, optimizer: Optimizer, schedulers: Sequence[LRScheduler]
) -> None:
    if not schedulers:
        raise ValueError(f"{where}: there is no scheduler; give one")
    for k, each in enumerate(schedulers):
        if not hasattr(each, "optimizer"):
            raise TypeError(
                f"{where}: scheduler {k} is a {type(each).__name__}; it must be a"
                " scheduler"
            )
        if isinstance(each, ReduceLROnPlateau):
            raise ValueError(
                f"{where}: scheduler {k} is a ReduceLROnPlateau, whose steps take a"
                " metric; call it beside"
            )
        if each.optimizer is not optimizer:
            raise ValueError(
                f"{where}: scheduler {k} is of another optimizer; all must be of one"
            )
