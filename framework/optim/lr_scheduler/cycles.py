"""Schedulers that move the rate along cosines and between bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from ..optimizer import Optimizer
from .scheduler import (
    LRScheduler,
    Rates,
    rates_of_groups,
    state_of_function,
)


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
            return self._rates_now()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # From the lowest rate, where the ratio has no value.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - low) * rise
                for base, rate in zip(self.base_lrs, self._rates_now())
            ]
        now = 1 + math.cos(math.pi * epoch / self.T_max)
        before = 1 + math.cos(math.pi * (epoch - 1) / self.T_max)
        return [low + (rate - low) * now / before for rate in self._rates_now()]

    def _get_closed_form_lr(self) -> Rates:
        """Return the rates of an epoch that the first ones lead to."""
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        low = self.eta_min
        return [low + (base - low) * share for base in self.base_lrs]


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
        self.T_i = T_0
        self.T_cur: float = last_epoch
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
        if epoch is not None and epoch < 0:
            raise ValueError(
                f"CosineAnnealingWarmRestarts.step: epoch is {epoch}; it must be at"
                " least 0"
            )
        self._take_step(epoch)

    def _advance(self, epoch: float | None = None) -> None:
        self._update_lr(epoch)

    def _update_lr(self, epoch: float | None = None) -> None:
        self.T_cur = self.T_cur + 1 if epoch is None else epoch
        if epoch is not None:
            self.T_i = self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult
        if epoch is None:
            super()._update_lr()
        else:
            super()._update_lr(math.floor(epoch))

    def get_lr(self) -> Rates:
        """Return the rates on the cosine of this epoch."""
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
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
        rates = rates_of_groups("CyclicLR", "base_lr", base_lr, optimizer)
        self.max_lrs = rates_of_groups("CyclicLR", "max_lr", max_lr, optimizer)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode, self.gamma = mode, gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            low = rates_of_groups("CyclicLR", "base_momentum", base_momentum, optimizer)
            high = rates_of_groups("CyclicLR", "max_momentum", max_momentum, optimizer)
            self.use_beta1 = _moves_beta1("CyclicLR", optimizer)
            self.base_momentums, self.max_momentums = low, high
            if last_epoch == -1:
                _note_momentums(optimizer, low, high)
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
        height *= self.scale_fn(
            cycle if self.scale_mode == "cycle" else self.last_epoch
        )
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums
            ):
                _set_momentum(group, high - (high - low) * height)
        return [
            low + (high - low) * height
            for low, high in zip(self.base_lrs, self.max_lrs)
        ]

    def scale_fn(self, x: float) -> float:
        """Return the height of a cycle or step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            factor: float = self.gamma**x
            return factor
        return 1.0 if self.mode == "triangular" else 1 / (2.0 ** (x - 1))

    def state_dict(self) -> dict[str, Any]:
        """Return everything but the optimizer; of `scale_fn`, its attributes."""
        function = state_of_function(self._scale_fn_custom)
        return super().state_dict() | {"_scale_fn_custom": function}

    def _take_state(self, state_dict: Mapping[str, Any]) -> None:
        own = self._scale_fn_custom
        super()._take_state({**state_dict, "_scale_fn_custom": own})
        if own is not None:
            vars(own).update(state_dict.get("_scale_fn_custom") or {})


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
        self._anneal_func_type = anneal_strategy
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
        phases.append((float(total_steps - 1), *last))
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases = [dict[str, Any](zip(names, each)) for each in phases]
        highest = rates_of_groups("OneCycleLR", "max_lr", max_lr, optimizer)
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, highest):
                group["lr"] = group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self.use_beta1 = _moves_beta1("OneCycleLR", optimizer)
            momentums = {"base_momentum": base_momentum, "max_momentum": max_momentum}
            low, high = (
                rates_of_groups("OneCycleLR", name, value, optimizer)
                for name, value in momentums.items()
            )
            if last_epoch == -1:
                _note_momentums(optimizer, low, high)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Return the rates of this step, and set the momentum."""
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"OneCycleLR.step: it is step {self.last_epoch}; the cycle has"
                f" {self.total_steps}"
            )
        start = 0.0
        phases = iter(self._schedule_phases)
        phase = next(phases)
        while self.last_epoch > phase["end_step"] < self.total_steps - 1:
            start, phase = phase["end_step"], next(phases)
        share = (self.last_epoch - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            ends = group[phase["start_lr"]], group[phase["end_lr"]]
            rates.append(self._between(*ends, share))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self._between(*ends, share))
        return rates

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


def _moves_beta1(where: str, optimizer: Optimizer) -> bool:
    """Return whether the momentum of an optimizer is the first of its betas."""
    group = optimizer.param_groups[0]
    if "momentum" not in group and "betas" not in group:
        raise ValueError(
            f"{where}: {type(optimizer).__name__} has neither momentum nor betas; pass"
            " cycle_momentum=False"
        )
    return "betas" in group


def _note_momentums(optimizer: Optimizer, low: Rates, high: Rates) -> None:
    """Begin with the highest momentum, and note the bounds in the groups."""
    for group, least, most in zip(optimizer.param_groups, low, high):
        _set_momentum(group, most)
        group["max_momentum"], group["base_momentum"] = most, least


def _set_momentum(group: dict[str, Any], momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum
