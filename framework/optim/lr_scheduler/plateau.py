"""The scheduler that follows a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from ...base import trace_hooks
from ..optimizer import Optimizer
from .scheduler import LRScheduler, Rates, rates_of_groups

Mode = Literal["min", "max"]


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
        if not isinstance(optimizer, Optimizer):
            raise TypeError(
                f"ReduceLROnPlateau: a {type(optimizer).__name__} was given; it must be"
                " an Optimizer"
            )
        self.factor = factor
        self.optimizer = optimizer
        single = not isinstance(min_lr, list | tuple)
        self.default_min_lr: Any = min_lr if single else None
        self.min_lrs = rates_of_groups("ReduceLROnPlateau", "min_lr", min_lr, optimizer)
        self.patience, self.cooldown, self.eps = patience, cooldown, eps
        self.last_epoch = 0
        self._last_lr = self._rates_now()
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._reset()

    def _reset(self) -> None:
        """Forget the metrics so far."""
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted, as the rate was lowered lately."""
        return self.cooldown_counter > 0

    def get_lr(self) -> Rates:
        """Return the present rates."""
        return self._rates_now()

    def is_better(self, value: float, best: float) -> bool:
        """Return whether a value is an improvement on the best."""
        sign = -1 if self.mode == "min" else 1
        # Not as a difference: the first best value is infinite.
        if self.threshold_mode == "rel":
            bound = best * (1 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return value < bound if self.mode == "min" else value > bound

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]  # PyTorch's
        """Count an epoch, and lower the rates if the metric no longer improves.

        Parameters
        ----------
        metrics : float or Tensor of one element
        epoch : int or None
            The epoch that it is; deprecated, as in PyTorch.
        """
        trace_hooks.refuse(
            "ReduceLROnPlateau.step: it reads a metric on the host, which a replay"
            " cannot do; call it outside of the function"
        )
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(value, self.best):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self._least()):
                reduced = max(group["lr"] * self.factor, least)
                if group["lr"] - reduced > self.eps:
                    group["lr"] = reduced
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates_now()

    def _least(self) -> Rates:
        """Return the lower bounds, of groups added since too."""
        missing = len(self.optimizer.param_groups) - len(self.min_lrs)
        if missing and self.default_min_lr is None:
            raise RuntimeError(
                f"ReduceLROnPlateau.step: min_lrs are {self.min_lrs}, and there are"
                f" {len(self.optimizer.param_groups)} groups; set one for each"
            )
        if missing:
            self.min_lrs = [self.default_min_lr] * len(self.optimizer.param_groups)
        return self.min_lrs
