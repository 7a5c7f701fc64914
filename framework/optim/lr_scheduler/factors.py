"""Schedulers that multiply the rate by a factor of the epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...base.docstring import shares_parameters
from ..optimizer import Optimizer
from .scheduler import LRScheduler, Rates, state_of_function

Rule = Callable[[int], float]
"""Factor of an epoch."""


class LambdaLR(LRScheduler):
    """Multiplies the first learning rate by a function of the epoch.

    Parameters
    ----------
    optimizer : Optimizer
    lr_lambda : callable, or sequence of callable
        Factor of an epoch; of each group.
    last_epoch : int, default -1

    Raises
    ------
    ValueError
        If there are not as many functions as groups.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Rule | Sequence[Rule],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        several = isinstance(lr_lambda, list | tuple)
        self.lr_lambdas: list[Any] = (
            list(lr_lambda) if several else [lr_lambda] * groups  # type: ignore[arg-type]  # a sequence then
        )
        if len(self.lr_lambdas) != groups:
            raise ValueError(
                f"{type(self).__name__}: {len(self.lr_lambdas)} functions for {groups}"
                " groups; give one for each"
            )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Return the first rates times the functions' values."""
        return [
            base * rule(self.last_epoch)
            for base, rule in zip(self.base_lrs, self.lr_lambdas)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer and functions.

        Of functions that are objects it has the attributes, of others None.
        """
        rules = [state_of_function(each) for each in self.lr_lambdas]
        return super().state_dict() | {"lr_lambdas": rules}

    def _take_state(self, state_dict: Mapping[str, Any]) -> None:
        rules = state_dict.get("lr_lambdas", [])
        super()._take_state({**state_dict, "lr_lambdas": self.lr_lambdas})
        for own, attributes in zip(self.lr_lambdas, rules):
            vars(own).update(attributes or {})


@shares_parameters(LambdaLR)
class MultiplicativeLR(LambdaLR):
    """Multiplies the learning rate by a function of the epoch; see `LambdaLR`."""

    def get_lr(self) -> Rates:
        """Return the rates times the functions' values, from the first epoch on."""
        if not self.last_epoch:
            return self._rates_now()
        return [
            rate * rule(self.last_epoch)
            for rate, rule in zip(self._rates_now(), self.lr_lambdas)
        ]


class StepLR(LRScheduler):
    """Multiplies the learning rate by a factor every few epochs.

    Parameters
    ----------
    optimizer : Optimizer
    step_size : int
        Epochs between changes.
    gamma : float, default 0.1
        The factor.
    last_epoch : int, default -1
    """

    def __init__(
        self,
        optimizer: Optimizer,
        step_size: int,
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Return the rates times `gamma` in each `step_size`-th epoch."""
        changes = self.last_epoch and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma if changes else 1.0)

    def _get_closed_form_lr(self) -> Rates:
        """Return the rates of an epoch that the first ones lead to."""
        factor: float = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies the learning rate by a factor at given epochs.

    Parameters
    ----------
    optimizer : Optimizer
    milestones : iterable of int
        The epochs; one given twice counts twice.
    gamma : float, default 0.1
        The factor.
    last_epoch : int, default -1
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Return the rates times `gamma` for each such milestone."""
        factor: float = self.gamma ** self.milestones.get(self.last_epoch, 0)
        return self._scaled(factor)

    def _get_closed_form_lr(self) -> Rates:
        """Return the rates of an epoch that the first ones lead to."""
        past = [count for at, count in self.milestones.items() if at <= self.last_epoch]
        factor: float = self.gamma ** sum(past)
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies the learning rate by a factor in each epoch.

    Parameters
    ----------
    optimizer : Optimizer
    gamma : float
        The factor.
    last_epoch : int, default -1
    """

    def __init__(
        self, optimizer: Optimizer, gamma: float, last_epoch: int = -1
    ) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Return the rates times `gamma`, from the first epoch on."""
        return self._scaled(self.gamma if self.last_epoch else 1.0)

    def _get_closed_form_lr(self) -> Rates:
        """Return the rates of an epoch that the first ones lead to."""
        factor: float = self.gamma**self.last_epoch
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Changes the factor of the learning rate linearly, over some epochs.

    Parameters
    ----------
    optimizer : Optimizer
    start_factor : float, default 1/3
        Above 0, at most 1.
    end_factor : float, default 1
        From 0 to 1.
    total_iters : int, default 5
        Epochs until the last factor.
    last_epoch : int, default -1

    Raises
    ------
    ValueError
        If a factor is out of range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError(
                f"LinearLR: start_factor is {start_factor}, end_factor {end_factor};"
                " the first must be in (0, 1], the second in [0, 1]"
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Return the rates times the ratio of this epoch's factor to the last one's."""
        epoch, whole = self.last_epoch, self.total_iters
        if epoch == 0:
            return self._scaled(self.start_factor)
        if epoch > whole:
            return self._rates_now()
        step = self.end_factor - self.start_factor
        return self._scaled(
            1.0 + step / (whole * self.start_factor + (epoch - 1) * step)
        )

    def _get_closed_form_lr(self) -> Rates:
        """Return the rates of an epoch that the first ones lead to."""
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * share
        return [base * factor for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiplies the learning rate by a factor until an epoch.

    Parameters
    ----------
    optimizer : Optimizer
    factor : float, default 1/3
        From 0 to 1.
    total_iters : int, default 5
        Epochs until the first rate is in force again.
    last_epoch : int, default -1

    Raises
    ------
    ValueError
        If the factor is out of range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: factor is {factor}; it must be in [0, 1]")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Return the rates, changed in the first epoch and the last."""
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        return self._scaled(
            1.0 / self.factor if self.last_epoch == self.total_iters else 1.0
        )

    def _get_closed_form_lr(self) -> Rates:
        """Return the rates of an epoch that the first ones lead to."""
        factor = 1.0 if self.last_epoch >= self.total_iters else self.factor
        return [base * factor for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Lowers the learning rate to 0 along a power of the epochs left.

    Parameters
    ----------
    optimizer : Optimizer
    total_iters : int, default 5
        Epochs until 0.
    power : float, default 1
    last_epoch : int, default -1
    """

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Return the rates times the ratio of this epoch's power to the last one's."""
        epoch, whole = self.last_epoch, self.total_iters
        if epoch == 0 or epoch > whole:
            return self._rates_now()
        left, before = 1.0 - epoch / whole, 1.0 - (epoch - 1) / whole
        return self._scaled((left / before) ** self.power)

    def _get_closed_form_lr(self) -> Rates:
        """Return the rates of an epoch that the first ones lead to."""
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left**self.power for base in self.base_lrs]
