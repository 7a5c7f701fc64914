"""Training steps in one call, replayed by default."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.engine import no_grad
from ..base import trace_hooks
from ..base.device import Device
from ..jit import jit
from ..tensor.factories import zeros
from ..tensor.tensor import Tensor
from .clip_grad import clip_grad_norm_
from .grad_scaler import GradScaler
from .optimizer import Optimizer

Closure = Callable[..., Tensor]

FRESH_CLOSURES = 2
"""Closures of one code object, each called once, after which they are not traced."""


class Trainer:
    """Takes training steps and keeps the mean loss, without waiting for the device.

    A step drops the gradients, calls a closure for the loss, goes backward, clips if it
    is told to, and lets the optimizer step. Steps are replayed (see `jit`), as long as
    the same closure is called again: pass what differs from step to step as arguments.

    Parameters
    ----------
    optimizer : Optimizer
        Of the parameters that the closure uses.
    max_norm : float or None
        Bound of the gradients' common norm; None does not clip.
    use_jit : bool, default True
        Whether steps are replayed.
    scaler : GradScaler or None
        Scales losses, and skips steps whose gradients overflowed; for closures that
        compute in float16 (see `autocast`).

    Attributes
    ----------
    optimizer : Optimizer
    steps : int
        Steps since the epoch began.

    Examples
    --------
    >>> model = nn.Linear(2, 1)
    >>> trainer = optim.Trainer(optim.SGD(model.parameters(), lr=0.1))
    >>> def loss(x, y):
    ...     return nn.functional.mse_loss(model(x), y)
    >>> for _ in range(3):
    ...     _ = trainer.train_step(loss, fw.ones((4, 2)), fw.ones((4, 1)))
    >>> trainer.steps, trainer.epoch_avg_loss() > 0
    (3, True)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        max_norm: float | None = None,
        use_jit: bool = True,
        scaler: GradScaler | None = None,
    ) -> None:
        if max_norm is not None and not max_norm > 0:
            raise ValueError(f"Trainer: max_norm is {max_norm}; it must be above 0")
        self.optimizer = optimizer
        self._step_counter = _StepCounter()
        self._max_norm = max_norm
        self._scaler = scaler or GradScaler(enabled=False)
        self._use_jit = use_jit
        self._replayed: dict[Closure, Callable[..., Tensor]] = {}
        self._fresh: dict[object, int] = {}
        self._total = zeros((), device=self._device)

    @property
    def steps(self) -> int:
        """Steps since the epoch began."""
        return self._step_counter.count

    @steps.setter
    def steps(self, count: int) -> None:
        self._step_counter.count = count

    @property
    def _device(self) -> Device:
        device: Device = self.optimizer.param_groups[0]["params"][0].device
        return device

    def train_step(self, closure: Closure, *inputs: Any) -> Tensor:
        """Take one step and return its loss, off the tape; nothing is read back.

        Parameters
        ----------
        closure : callable
            Returns the loss of `inputs`, a tensor of one element.
        *inputs : Tensor, numpy.ndarray or object
            Tensors and arrays are moved to the device of the parameters.
        """
        device = self._device
        if self._total.device is not device:
            self._total = self._total.to(device)
        made = self.steps
        try:
            return self._step_of(closure)(
                *[_to_device(each, device) for each in inputs]
            )
        except Exception:
            # The step has been counted where it failed after its trace.
            self.steps = made
            raise

    def _step_of(self, closure: Closure) -> Callable[..., Tensor]:
        step = self._replayed.get(closure)
        if step is not None:
            return step
        plain = functools.partial(self._step, closure)
        code = getattr(closure, "__code__", None)
        seen = self._fresh.get(code, 0)
        if not self._use_jit or (code is not None and seen >= FRESH_CLOSURES):
            return plain
        self._fresh[code] = seen + 1
        self._replayed[closure] = jit(plain)
        return self._replayed[closure]

    def _step(self, closure: Closure, *inputs: Any) -> Tensor:
        optimizer, scaler = self.optimizer, self._scaler
        # State of a step that an error or an interrupt ended.
        scaler.forget(optimizer)
        optimizer.zero_grad()
        loss = closure(*inputs)
        scaler.scale(loss).backward()
        if self._max_norm is not None:
            scaler.unscale_(optimizer)
            groups = optimizer.param_groups
            parameters = [each for group in groups for each in group["params"]]
            clip_grad_norm_(parameters, self._max_norm)
        scaler.step(optimizer)
        scaler.update()
        with no_grad():
            self._total.add_(loss.detach())
        trace_hooks.each_time(self._step_counter)
        return loss.detach()

    def epoch_avg_loss(self) -> float:
        """Return the mean loss of the epoch so far, 0 before its first step; waits."""
        return float(self._total) / self.steps if self.steps else 0.0

    def reset_epoch(self) -> None:
        """Begin a new epoch: forget the losses."""
        self.steps = 0
        self._total.zero_()


class _StepCounter:
    """Step counter, as a host action of a trace."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1

    def mark(self) -> int:
        """Return the count so far."""
        return self.count

    def take_back(self, mark: int) -> None:
        """Restore an earlier count."""
        self.count = mark


def _to_device(value: Any, device: Device) -> Any:
    """Return a tensor or array on a device, anything else as it is."""
    if isinstance(value, np.ndarray):
        return Tensor.from_data(value, device=device)
    return value.to(device=device) if isinstance(value, Tensor) else value
