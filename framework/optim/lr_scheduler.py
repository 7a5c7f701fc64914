"""Learning rate schedulers, with PyTorch's names, arguments and recursions.

Each computes a group's next rate from the one that it has, so schedulers may be chained
and rates changed between steps.
"""

# Longer than most: the rules of PyTorch's schedulers, each a few lines.

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from ..base import trace_hooks
from ..base.errors import StateError
from .optimizer import Optimizer
from .state_dict import is_number

Rates = list[float]
Rule = Callable[[int], float]
Mode = Literal["min", "max"]


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
        wrong = sorted(set(known) - set(vars(self)) - {"_step_count", "_last_lr"})
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

    def mark(self) -> tuple[int, Rates]:
        """Return the epoch and its learning rates."""
        return self._scheduler.last_epoch, self._scheduler.get_last_lr()

    def take_back(self, mark: tuple[int, Rates]) -> None:
        """Set the learning rates of an earlier epoch again."""
        self._scheduler.last_epoch, rates = mark
        self._scheduler._set(rates)


def _are_rates(values: object) -> bool:
    return isinstance(values, list | tuple) and all(
        is_number(each) and each >= 0 for each in values
    )


def _has_functions(value: object) -> bool:
    each = value if isinstance(value, list) else [value]
    return any(map(callable, each))


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


class MultiplicativeLR(LambdaLR):
    """Multiplies the learning rate by a function of the epoch; see `LambdaLR`."""

    def get_lr(self) -> Rates:
        """Return the rates times the functions' values, from the first epoch on."""
        if not self.last_epoch:
            return self.get_last_lr()
        return [
            rate * rule(self.last_epoch)
            for rate, rule in zip(self.get_last_lr(), self.lr_lambdas)
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
        factor: float = self.gamma ** self.milestones[self.last_epoch]
        return self._scaled(factor)


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
            return self.get_last_lr()
        step = self.end_factor - self.start_factor
        return self._scaled(
            1.0 + step / (whole * self.start_factor + (epoch - 1) * step)
        )


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
            return self.get_last_lr()
        left, before = 1.0 - epoch / whole, 1.0 - (epoch - 1) / whole
        return self._scaled((left / before) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """Lowers the learning rate along half a cosine.

    Parameters
    ----------
    optimizer : Optimizer
    T_max : int
        Epochs until the lowest rate; after it, the rate rises again as it fell.
    eta_min : float, default 0
        The lowest rate.
    last_epoch : int, default -1

    Notes
    -----
    Source: Loshchilov and Hutter, arXiv:1608.03983, without restarts.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803 - PyTorch's name
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Return the rates times the ratio of this epoch's cosine to the last one's."""
        epoch, low = self.last_epoch, self.eta_min
        if epoch == 0:
            return self.get_last_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # From the lowest rate, where the ratio has no value.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - low) * rise
                for base, rate in zip(self.base_lrs, self.get_last_lr())
            ]
        now = 1 + math.cos(math.pi * epoch / self.T_max)
        before = 1 + math.cos(math.pi * (epoch - 1) / self.T_max)
        return [low + (rate - low) * now / before for rate in self.get_last_lr()]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Lowers the learning rate along half a cosine, again and again.

    Parameters
    ----------
    optimizer : Optimizer
    T_0 : int
        Epochs until the first restart.
    T_mult : int, default 1
        Factor of the epochs from one restart to the next.
    eta_min : float, default 0
        The lowest rate.
    last_epoch : int, default -1

    Raises
    ------
    ValueError
        If `T_0` or `T_mult` is below 1.

    Notes
    -----
    Source: Loshchilov and Hutter, arXiv:1608.03983.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803 - PyTorch's name
        T_mult: int = 1,  # noqa: N803 - PyTorch's name
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 < 1 or T_mult < 1:
            raise ValueError(
                f"CosineAnnealingWarmRestarts: T_0 is {T_0}, T_mult {T_mult}; both must"
                " be at least 1"
            )
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def step(self, epoch: float | None = None) -> None:
        """Set the learning rates of the next epoch, or of the one given.

        Parameters
        ----------
        epoch : float or None
            May have a fraction: the part of the epoch that is done.

        Raises
        ------
        ValueError
            If it is below 0.
        """
        if epoch is None:
            super().step()
            return
        if epoch < 0:
            raise ValueError(
                f"CosineAnnealingWarmRestarts.step: epoch is {epoch}; it must be at"
                " least 0"
            )
        self.last_epoch = math.floor(epoch)
        self._set(self._rates(epoch))

    def get_lr(self) -> Rates:
        """Return the rates on the cosine of this epoch."""
        return self._rates(self.last_epoch)

    def _rates(self, epoch: float) -> Rates:
        length, done = float(self.T_0), float(epoch)
        while done >= length:
            done -= length
            length *= self.T_mult
        share = (1 + math.cos(math.pi * done / length)) / 2
        low = self.eta_min
        return [low + (base - low) * share for base in self.base_lrs]


class CyclicLR(LRScheduler):
    """Moves the learning rate, and the momentum against it, between two bounds.

    Parameters
    ----------
    optimizer : Optimizer
    base_lr, max_lr : float, or sequence of float
        Lower and upper bound; of each group.
    step_size_up : int, default 2000
        Steps of the rise.
    step_size_down : int or None
        Steps of the fall; None means the same.
    mode : {"triangular", "triangular2", "exp_range"}
        How the height of cycles changes: not, by half in each cycle, or by `gamma` to
        the number of steps.
    gamma : float, default 1
    scale_fn : callable or None
        Height by cycle or step, in place of `mode`.
    scale_mode : {"cycle", "iterations"}
        What `scale_fn` takes.
    cycle_momentum : bool, default True
        Move "momentum", or the first of "betas", too.
    base_momentum, max_momentum : float, or sequence of float
        Its bounds.
    last_epoch : int, default -1

    Raises
    ------
    ValueError
        If the mode is unknown, a sequence has not one entry for each group, or the
        optimizer has no momentum to move.

    Notes
    -----
    Source: Smith, arXiv:1506.01186.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: Literal["triangular", "triangular2", "exp_range"] = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: Literal["cycle", "iterations"] = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(
                f"CyclicLR: mode is {mode!r}; it must be triangular, triangular2 or"
                " exp_range"
            )
        rates = _of_groups("CyclicLR", "base_lr", base_lr, optimizer)
        self.max_lrs = _of_groups("CyclicLR", "max_lr", max_lr, optimizer)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma = mode, gamma
        self.scale_fn = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            low = _of_groups("CyclicLR", "base_momentum", base_momentum, optimizer)
            high = _of_groups("CyclicLR", "max_momentum", max_momentum, optimizer)
            self.base_momentums, self.max_momentums = low, high
            _check_momentum("CyclicLR", optimizer)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, rates):
                group["lr"] = rate
        super().__init__(optimizer, last_epoch)
        self.base_lrs = rates

    def get_lr(self) -> Rates:
        """Return the rates of this step, and set the momentum."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        up = x <= self.step_ratio
        height = x / self.step_ratio if up else (x - 1) / (self.step_ratio - 1)
        height *= self._scale(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums
            ):
                _set_momentum(group, high - (high - low) * height)
        return [
            low + (high - low) * height
            for low, high in zip(self.base_lrs, self.max_lrs)
        ]

    def _scale(self, at: float) -> float:
        if self.scale_fn is not None:
            return self.scale_fn(at)
        if self.mode == "exp_range":
            factor: float = self.gamma**at
            return factor
        return 1.0 if self.mode == "triangular" else 1 / (2.0 ** (at - 1))


class OneCycleLR(LRScheduler):
    """Raises the learning rate to its most and lowers it far below its first.

    Parameters
    ----------
    optimizer : Optimizer
    max_lr : float, or sequence of float
        The highest rate; of each group.
    total_steps : int or None
        Steps of the cycle; None takes `epochs` times `steps_per_epoch`.
    epochs, steps_per_epoch : int or None
    pct_start : float, default 0.3
        Share of the steps in which the rate rises.
    anneal_strategy : {"cos", "linear"}
    cycle_momentum : bool, default True
        Move "momentum", or the first of "betas", against the rate.
    base_momentum, max_momentum : float, or sequence of float
        Its bounds.
    div_factor : float, default 25
        The first rate is `max_lr` divided by it.
    final_div_factor : float, default 1e4
        The last rate is the first divided by it.
    three_phase : bool, default False
        Fall as fast as it rose, and then to the last rate.
    last_epoch : int, default -1

    Raises
    ------
    ValueError
        If the number of steps is missing, an option is out of range, or `step` is
        called more often than that.

    Notes
    -----
    Source: Smith and Topin, arXiv:1708.07120.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None and epochs is not None and steps_per_epoch is not None:
            total_steps = epochs * steps_per_epoch
        if total_steps is None or total_steps < 1:
            raise ValueError(
                f"OneCycleLR: total_steps is {total_steps}; give it, or epochs and"
                " steps_per_epoch, all at least 1"
            )
        if not 0 <= pct_start <= 1 or anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"OneCycleLR: pct_start is {pct_start}, anneal_strategy"
                f" {anneal_strategy!r}; they must be in [0, 1], and cos or linear"
            )
        self.total_steps = total_steps
        self.anneal_strategy = anneal_strategy
        rise = float(pct_start * total_steps) - 1
        phases = [(rise, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            fall = float(2 * pct_start * total_steps) - 2
            phases.append(
                (fall, "max_lr", "initial_lr", "base_momentum", "max_momentum")
            )
            last = ("initial_lr", "min_lr", "max_momentum", "max_momentum")
        else:
            last = ("max_lr", "min_lr", "base_momentum", "max_momentum")
        self.phases = [*phases, (float(total_steps - 1), *last)]
        highest = _of_groups("OneCycleLR", "max_lr", max_lr, optimizer)
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, highest):
                group["lr"] = group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            _check_momentum("OneCycleLR", optimizer)
            low = _of_groups("OneCycleLR", "base_momentum", base_momentum, optimizer)
            high = _of_groups("OneCycleLR", "max_momentum", max_momentum, optimizer)
            for group, least, most in zip(optimizer.param_groups, low, high):
                group["base_momentum"], group["max_momentum"] = least, most
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Return the rates of this step, and set the momentum."""
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"OneCycleLR.step: it is step {self.last_epoch}; the cycle has"
                f" {self.total_steps}"
            )
        start = 0.0
        phases = iter(self.phases)
        end, first, last, momentum, next_momentum = next(phases)
        while self.last_epoch > end and end < self.total_steps - 1:
            start = end
            end, first, last, momentum, next_momentum = next(phases)
        share = (self.last_epoch - start) / (end - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[first], group[last], share))
            if self.cycle_momentum:
                pair = group[momentum], group[next_momentum]
                _set_momentum(group, self._between(*pair, share))
        return rates

    def _between(self, start: float, end: float, share: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


class ReduceLROnPlateau(LRScheduler):
    """Lowers the learning rate when a metric has stopped improving.

    Parameters
    ----------
    optimizer : Optimizer
    mode : {"min", "max"}
        Whether less or more is better.
    factor : float, default 0.1
        Below 1: what the rate is multiplied by.
    patience : int, default 10
        Epochs without improvement that are allowed.
    threshold : float, default 1e-4
        Least change that counts.
    threshold_mode : {"rel", "abs"}
        Whether that is relative to the best value.
    cooldown : int, default 0
        Epochs after a change in which none are counted.
    min_lr : float, or sequence of float
        Lower bound; of each group.
    eps : float, default 1e-8
        Least change of the rate.

    Raises
    ------
    ValueError
        If an option is unknown or out of range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Mode = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(
                f"ReduceLROnPlateau: factor is {factor}; it must be below 1"
            )
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                f"ReduceLROnPlateau: mode is {mode!r}, threshold_mode"
                f" {threshold_mode!r}; they must be min or max, and rel or abs"
            )
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.eps = cooldown, eps
        self.min_lrs = _of_groups("ReduceLROnPlateau", "min_lr", min_lr, optimizer)
        self.cooldown_counter = self.num_bad_epochs = 0
        self.best = math.inf if mode == "min" else -math.inf
        super().__init__(optimizer)

    def get_lr(self) -> Rates:
        """Return the present rates."""
        return self.get_last_lr()

    def is_better(self, value: float, best: float) -> bool:
        """Return whether a value is an improvement on the best."""
        sign = -1 if self.mode == "min" else 1
        # Not as a difference: the first best value is infinite.
        if self.threshold_mode == "rel":
            bound = best * (1 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return value < bound if self.mode == "min" else value > bound

    def step(self, metrics: Any) -> None:  # type: ignore[override]  # PyTorch's
        """Count an epoch, and lower the rates if the metric no longer improves.

        Parameters
        ----------
        metrics : float or Tensor of one element
        """
        trace_hooks.refuse(
            "ReduceLROnPlateau.step: it reads a metric on the host, which a replay"
            " cannot do; call it outside of the function"
        )
        value = float(metrics)
        self.last_epoch += 1
        if self.is_better(value, self.best):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs):
                reduced = max(group["lr"] * self.factor, least)
                if group["lr"] - reduced > self.eps:
                    group["lr"] = reduced
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0


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


def _of_groups(
    where: str, name: str, value: float | Sequence[float], optimizer: Optimizer
) -> Rates:
    """Return an option of each group."""
    groups = len(optimizer.param_groups)
    found: list[Any] = [value] * groups
    if isinstance(value, list | tuple):
        found = list(value)
    if len(found) != groups:
        raise ValueError(
            f"{where}: {name} has {len(found)} numbers; there are {groups} groups"
        )
    return found


def _check_momentum(where: str, optimizer: Optimizer) -> None:
    group = optimizer.param_groups[0]
    if "momentum" not in group and "betas" not in group:
        raise ValueError(
            f"{where}: {type(optimizer).__name__} has neither momentum nor betas; pass"
            " cycle_momentum=False"
        )


def _set_momentum(group: dict[str, Any], momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


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
