"""The base of the schedulers, with PyTorch's names, arguments and recursions.

Each computes a group's next rate from the one that it has, so schedulers may be chained
and rates changed between steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...base import trace_hooks
from ...base.errors import StateError
from ...dispatch.diagnosis import explain_constructor
from ..optimizer import Optimizer
from ..state_dict import is_number

Rates = list[float]
"""Learning rates of the groups."""


_OF_PYTORCH = {
    "_get_lr_called_within_step",
    "_is_initial",
    "_last_lr",
    "_step_count",
    "verbose",
}
"""What states of PyTorch's schedulers have besides, and rates do not depend on."""


class LRScheduler:
    """Sets the learning rate of each group; call `step` once after each epoch.

    A subclass defines `get_lr`, which returns the rates of epoch `last_epoch`.

    Parameters
    ----------
    optimizer : Optimizer
        Its groups' learning rates now are those that the rule starts from.
    last_epoch : int, default -1
        Epoch to go on from; -1 begins, and notes the rates as "initial_lr" of
        groups that have none.

    Attributes
    ----------
    last_epoch : int
        Number of calls to `step`, added to the first epoch.
    base_lrs : list of float
        The learning rates that the rule starts from.

    Raises
    ------
    TypeError
        If something else than an optimizer is given.
    ValueError
        If it goes on from an epoch, and a group has no "initial_lr".
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        explain_constructor(cls)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        where = type(self).__name__
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"{where}: a {type(optimizer).__name__} was given; it must be an"
                " Optimizer"
            )
        self.optimizer = optimizer
        self.last_epoch = last_epoch
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ValueError(
                    f"{where}: last_epoch is {last_epoch}, and a group has no"
                    " initial_lr; begin with last_epoch=-1, or set it"
                )
        self.base_lrs: Rates = [group["initial_lr"] for group in optimizer.param_groups]
        self._advance()

    def get_lr(self) -> Rates:
        """Return the learning rates of `last_epoch`; each scheduler defines it."""
        raise NotImplementedError(f"{type(self).__name__}.get_lr: it is not defined")

    def step(self) -> None:
        """Set the learning rates of the next epoch."""
        trace_hooks.each_time(_EpochAdvance(self))

    def _advance(self) -> None:
        self.last_epoch += 1
        self._set(self.get_lr())

    def _set(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            group["lr"] = rate

    def get_last_lr(self) -> Rates:
        """Return the learning rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _scaled(self, factor: float) -> Rates:
        """Return the present rates times a factor."""
        return [rate * factor for rate in self.get_last_lr()]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and functions."""
        return {
            name: value
            for name, value in vars(self).items()
            if name != "optimizer" and not _has_functions(value)
        }

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
        wrong = sorted(set(known) - set(vars(self)) - _OF_PYTORCH)
        if wrong:
            raise StateError(
                f"load_state_dict: {type(self).__name__} has no {', '.join(wrong)};"
                " it must be the state of such a scheduler"
            )
        vars(self).update({name: known[name] for name in known if name in vars(self)})
        self.base_lrs = list(base_lrs)


class _EpochAdvance:
    """Epoch advance of a scheduler, as a host action of a trace."""

    def __init__(self, scheduler: LRScheduler) -> None:
        self._scheduler = scheduler

    def __call__(self) -> None:
        self._scheduler._advance()

    def mark(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return what a step changes: of schedulers, and of groups but parameters."""
        groups = self._scheduler.optimizer.param_groups
        return [dict(vars(each)) for each in self._schedulers()], [
            {name: value for name, value in group.items() if name != "params"}
            for group in groups
        ]

    def take_back(
        self, mark: tuple[list[dict[str, Any]], list[dict[str, Any]]]
    ) -> None:
        """Restore schedulers and groups as they were at an earlier mark."""
        schedulers, groups = mark
        for each, before in zip(self._schedulers(), schedulers):
            vars(each).update(before)
        for group, options in zip(self._scheduler.optimizer.param_groups, groups):
            group.update(options)

    def _schedulers(self) -> list[LRScheduler]:
        """Return the scheduler, and those that it is made of, at any depth."""
        found = [self._scheduler]
        for each in found:
            found += getattr(each, "schedulers", [])
        return found


def _are_rates(values: object) -> bool:
    return isinstance(values, list | tuple) and all(
        is_number(each) and each >= 0 for each in values
    )


def _has_functions(value: object) -> bool:
    each = value if isinstance(value, list) else [value]
    return any(map(callable, each))


def rates_of_groups(
    where: str, name: str, value: object, optimizer: Optimizer
) -> Rates:
    """Return an option of each group: one number for all, or a sequence."""
    groups = len(optimizer.param_groups)
    found: list[Any] = [value] * groups
    if isinstance(value, list | tuple):
        found = list(value)
    if len(found) != groups:
        raise ValueError(
            f"{where}: {name} has {len(found)} numbers; there are {groups} groups"
        )
    return found
