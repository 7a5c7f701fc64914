"""Learning rate schedulers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..base import trace_hooks
from ..base.errors import StateError
from .optimizer import Optimizer
from .state_dict import is_number


class LRScheduler:
    """Sets the learning rate of each group; call `step` once after each epoch.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' learning rates now are those that the rule starts from.

    Attributes
    ----------
    last_epoch : int
        Number of calls to `step`.
    base_lrs : list of float
        The learning rates that the rule starts from.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.last_epoch = 0
        self.base_lrs = [group["lr"] for group in optimizer.param_groups]

    def rule(self, base: float, epoch: int) -> float:
        """Return the learning rate of an epoch; each scheduler defines it."""
        raise NotImplementedError(f"{type(self).__name__}.rule: it is not defined")

    def step(self) -> None:
        """Set the learning rates of the next epoch."""
        trace_hooks.each_time(_EpochAdvance(self))

    def get_last_lr(self) -> list[float]:
        """Return the learning rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and the learning rates that the rule starts from."""
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where another scheduler stood; the optimizer has a state of its own.

        Raises
        ------
        StateError
            If it is no such state, a number is below 0, or the number of groups
            differs; nothing has been changed then.
        """
        known = state_dict if isinstance(state_dict, Mapping) else {}
        epoch: object = known.get("last_epoch")
        base_lrs: Any = known.get("base_lrs")
        if type(epoch) is not int or epoch < 0 or not _are_rates(base_lrs):
            raise StateError(
                f"load_state_dict: last_epoch is {epoch!r}, base_lrs {base_lrs!r};"
                " they must be an int and a list of numbers, all at least 0, as"
                " state_dict() gives"
            )
        if len(base_lrs) != len(self.base_lrs):
            raise StateError(
                f"load_state_dict: the state has {len(base_lrs)} groups, the optimizer"
                f" {len(self.base_lrs)}; they must be equal"
            )
        self.last_epoch, self.base_lrs = epoch, list(base_lrs)


class _EpochAdvance:
    """Epoch advance of a scheduler, as a host action of a trace."""

    def __init__(self, scheduler: LRScheduler) -> None:
        self._scheduler = scheduler

    def __call__(self) -> None:
        scheduler = self._scheduler
        scheduler.last_epoch += 1
        for group, base in zip(scheduler.optimizer.param_groups, scheduler.base_lrs):
            group["lr"] = scheduler.rule(base, scheduler.last_epoch)

    def mark(self) -> tuple[int, list[float]]:
        """Return the epoch and its learning rates."""
        return self._scheduler.last_epoch, self._scheduler.get_last_lr()

    def take_back(self, mark: tuple[int, list[float]]) -> None:
        """Set the learning rates of an earlier epoch again."""
        self._scheduler.last_epoch, rates = mark
        for group, rate in zip(self._scheduler.optimizer.param_groups, rates):
            group["lr"] = rate


def _are_rates(values: object) -> bool:
    return isinstance(values, list | tuple) and all(
        is_number(each) and each >= 0 for each in values
    )


class StepLR(LRScheduler):
    """Multiplies the learning rate by a factor every few epochs.

    Parameters
    ----------
    optimizer : Optimizer
    step_size : int
        Epochs between changes.
    gamma : float, default 0.1
        The factor.
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1
    ) -> None:
        super().__init__(optimizer)
        self.step_size = step_size
        self.gamma = gamma

    def rule(self, base: float, epoch: int) -> float:
        """Return base * gamma^(epoch // step_size)."""
        factor: float = self.gamma ** (epoch // self.step_size)
        return base * factor


class CosineAnnealingLR(LRScheduler):
    """Lowers the learning rate along half a cosine.

    Parameters
    ----------
    optimizer : Optimizer
    T_max : int
        Epochs until the lowest rate; after it, the rate rises again as it fell.
    eta_min : float, default 0
        The lowest rate.

    Notes
    -----
    Source: Loshchilov and Hutter, arXiv:1608.03983, without restarts.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803 - PyTorch's name
        eta_min: float = 0.0,
    ) -> None:
        super().__init__(optimizer)
        self.T_max = T_max
        self.eta_min = eta_min

    def rule(self, base: float, epoch: int) -> float:
        """Return eta_min + (base - eta_min) * (1 + cos(pi * epoch / T_max)) / 2."""
        share = (1.0 + math.cos(math.pi * epoch / self.T_max)) / 2.0
        return self.eta_min + (base - self.eta_min) * share
