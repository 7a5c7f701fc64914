"""The base of the schedulers, with PyTorch's names, arguments and recursions.

Each computes a group's next rate from the one that it has, so schedulers may be chained
and rates changed between steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from copy import copy
from types import FunctionType
from typing import Any

from ...base import trace_hooks
from ...base.errors import StateError
from ...dispatch.diagnosis import explain_constructor
from ...tensor.tensor import Tensor
from ..optimizer import Optimizer
from ..state_dict import is_number

Rates = list[float]
"""Learning rates of the groups."""


_OF_OTHERS = {"verbose", "_is_initial", "_get_lr_called_within_step"}
"""What states of some of PyTorch's versions have, and rates do not depend on."""


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
    KeyError
        If it goes on from an epoch, and a group has no "initial_lr".

    Notes
    -----
    States are PyTorch's: either library goes on from a state of the other.
    """

    # What PyTorch notes beside a step; states have them.
    _is_initial = False
    _get_lr_called_within_step = False

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
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{where}: last_epoch is {last_epoch}, and a group has no"
                    " initial_lr; begin with last_epoch=-1, or set it"
                )
        self.base_lrs: Rates = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def get_lr(self) -> Rates:
        """Return the learning rates of `last_epoch`; each scheduler defines it."""
        raise NotImplementedError(f"{type(self).__name__}.get_lr: it is not defined")

    def step(self, epoch: int | None = None) -> None:
        """Set the learning rates of the next epoch.

        Parameters
        ----------
        epoch : int or None
            Another epoch to set them of; deprecated, as in PyTorch.
        """
        if epoch is not None:
            warnings.warn(
                f"{type(self).__name__}.step: epoch is deprecated; call step()",
                UserWarning,
                stacklevel=2,
            )
        self._take_step(epoch)

    def _take_step(self, epoch: float | None) -> None:
        """Set the rates, in each replay of a trace that this is called in."""
        if self._is_initial:
            self._advance(epoch)
        else:
            trace_hooks.each_time(_EpochAdvance(self, epoch))

    def __repr__(self) -> str:
        epoch = getattr(self, "last_epoch", None)
        rates = getattr(self, "_last_lr", None)
        return f"{type(self).__name__}(last_epoch={epoch}, lr={rates})"

    def _initial_step(self) -> None:
        """Make the step that begins, by the class's own `step`."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def _advance(self, epoch: float | None = None) -> None:
        """Count a step, and set the rates of the next epoch or of the one given."""
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: float | None = None) -> None:
        if epoch is None:
            self.last_epoch += 1
            rule = self.get_lr
        else:
            self.last_epoch = int(epoch)
            rule = getattr(self, "_get_closed_form_lr", self.get_lr)
        self._get_lr_called_within_step = True
        try:
            rates = rule()
        finally:
            self._get_lr_called_within_step = False
        for group, rate in zip(self.optimizer.param_groups, rates):
            group["lr"] = rate
        self._last_lr = self._rates_now()

    def get_last_lr(self) -> Rates:
        """Return the learning rate of each group that the last step has set."""
        return self._last_lr

    def _rates_now(self) -> Rates:
        """Return the groups' present rates."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _scaled(self, factor: float) -> Rates:
        """Return the present rates times a factor."""
        return [rate * factor for rate in self._rates_now()]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and functions."""
        state = {
            name: value
            for name, value in vars(self).items()
            if name != "optimizer" and not _has_functions(value)
        }
        if "_step_count" in state:
            state |= dict.fromkeys(("_is_initial", "_get_lr_called_within_step"), False)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where another scheduler stood; the optimizer has a state of its own.

        Raises
        ------
        StateError
            If it is no such state, a number is below 0, or the number of groups
            differs; nothing has been changed then.
        """
        self._check_state(state_dict)
        self._take_state(state_dict)

    def _take_state(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state that has been checked."""
        vars(self).update(
            {
                name: copy(value)
                for name, value in state_dict.items()
                if name not in _OF_OTHERS
            }
        )

    def _check_state(self, state_dict: Mapping[str, Any], least: int = 0) -> None:
        """Raise `StateError` if a state is none of this scheduler.

        `least` is the first epoch: -1 where a `SequentialLR` has not begun with it.
        """
        known = state_dict if isinstance(state_dict, Mapping) else {}
        own = self.state_dict()
        epoch: object = known.get("last_epoch", 0 if "last_epoch" not in own else None)
        names = [name for name in ("base_lrs", "_last_lr") if name in own]
        # A state may be older than the note of the last rates.
        names = [name for name in names if name in known or name == "base_lrs"]
        lists: Any = {name: known.get(name) for name in names}
        is_epoch = type(epoch) is int and epoch >= least
        if not known or not is_epoch or not all(map(_are_rates, lists.values())):
            said = "".join(f", {name} {value!r}" for name, value in lists.items())
            raise StateError(
                f"load_state_dict: last_epoch is {epoch!r}{said}; they must be an int"
                " and lists of numbers, all at least 0, as state_dict() gives"
            )
        for rates in lists.values():
            if len(rates) != len(self.optimizer.param_groups):
                raise StateError(
                    f"load_state_dict: the state has {len(rates)} groups, the optimizer"
                    f" {len(self.optimizer.param_groups)}; they must be equal"
                )
        wrong = sorted(set(known) - set(own) - _OF_OTHERS)
        if wrong:
            raise StateError(
                f"load_state_dict: {type(self).__name__} has no {', '.join(wrong)};"
                " it must be the state of such a scheduler"
            )


class _EpochAdvance:
    """Epoch advance of a scheduler, as a host action of a trace."""

    def __init__(self, scheduler: LRScheduler, epoch: float | None = None) -> None:
        self._scheduler = scheduler
        self._epoch = epoch

    def __call__(self) -> None:
        self._scheduler._advance(self._epoch)

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
            found += getattr(each, "_schedulers", [])
        return found


def _are_rates(values: object) -> bool:
    return isinstance(values, list | tuple) and all(
        isinstance(each, Tensor) or (is_number(each) and each >= 0) for each in values
    )


def _has_functions(value: object) -> bool:
    each = value if isinstance(value, list) else [value]
    return any(map(callable, each))


def state_of_function(function: object) -> dict[str, Any] | None:
    """Return what a state has of a function: the attributes of a callable object."""
    if function is None or isinstance(function, FunctionType):
        return None
    return dict(getattr(function, "__dict__", {}))


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
