"""Training steps in one call, replayed by default."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..autograd.engine import no_grad
from ..base import trace_hooks
from ..base.device import CPU, Device
from ..jit import jit
from ..nn.module import Module
from ..tensor.factories import zeros
from ..tensor.tensor import Tensor
from .clip_grad import clip_grad_norm_
from .grad_scaler import GradScaler
from .optimizer import Optimizer
from .training.evaluate import Measure, Metric
from .training.history import History
from .training.loop import FitOptions, TrainingLoop
from .training.loss import AccumulatedLoss, BatchLoss
from .training.ranks import Ranks

if TYPE_CHECKING:
    from ..communication.group import Group

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
    group : Group, optional
        Ranks that train together by `fit`, all of which call it: each has its part of
        the batches; gradients are means over the ranks (`nn.DataParallel`), unless the
        model is an `nn.FSDP` or divided by `nn.tensor_parallel`.

    Attributes
    ----------
    optimizer : Optimizer
    scaler : GradScaler
        One that is not enabled if none was given.
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
        group: Group | None = None,
    ) -> None:
        if max_norm is not None and not max_norm > 0:
            raise ValueError(f"Trainer: max_norm is {max_norm}; it must be above 0")
        self.optimizer = optimizer
        self.ranks = Ranks(group)
        self._step_counter = _StepCounter()
        self._max_norm = max_norm
        self.scaler = scaler or GradScaler(enabled=False)
        self._use_jit = use_jit
        self._replayed: dict[Closure, Callable[..., Tensor]] = {}
        self._fresh: dict[object, int] = {}
        # What `fit` replays, by the identities of what it is made of, which it keeps.
        self._fitted: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self._total = zeros((), device=self.device)

    @property
    def steps(self) -> int:
        """Steps since the epoch began."""
        return self._step_counter.count

    @steps.setter
    def steps(self, count: int) -> None:
        self._step_counter.count = count

    @property
    def device(self) -> Device:
        """Device of the parameters."""
        device: Device = self.optimizer.param_groups[0]["params"][0].device
        return device

    @property
    def _replays(self) -> bool:
        """Whether steps are replayed; not those that communicate on the host."""
        return self._use_jit and (self.ranks.size == 1 or self.device is not CPU)

    def train_step(self, closure: Closure, *inputs: Any) -> Tensor:
        """Take one step and return its loss, off the tape; nothing is read back.

        Parameters
        ----------
        closure : callable
            Returns the loss of `inputs`, a tensor of one element.
        *inputs : Tensor, numpy.ndarray or object
            Tensors and arrays are moved to the device of the parameters.
        """
        device = self.device
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
        if not self._replays or (code is not None and seen >= FRESH_CLOSURES):
            return plain
        self._fresh[code] = seen + 1
        self._replayed[closure] = jit(plain)
        return self._replayed[closure]

    def _step(self, closure: Closure, *inputs: Any) -> Tensor:
        optimizer, scaler = self.optimizer, self.scaler
        # State of a step that an error or an interrupt ended.
        scaler.forget(optimizer)
        optimizer.zero_grad()
        loss = self._backward(closure, inputs)
        if self._max_norm is not None:
            scaler.unscale_(optimizer)
            groups = optimizer.param_groups
            parameters = [each for group in groups for each in group["params"]]
            clip_grad_norm_(parameters, self._max_norm)
        scaler.step(optimizer)
        scaler.update()
        with no_grad():
            self._total.add_(loss)
        trace_hooks.each_time(self._step_counter)
        return loss

    def _backward(self, closure: Closure, inputs: Sequence[Any]) -> Tensor:
        """Accumulate the gradients of a loss and return it, off the tape."""
        if not isinstance(closure, AccumulatedLoss):
            loss = closure(*inputs)
            self.scaler.scale(loss).backward()
            return loss.detach()
        total: Tensor | None = None
        for part in closure.losses(*inputs):
            self.scaler.scale(part).backward()
            part = part.detach()
            total = part if total is None else total + part
        assert total is not None
        return total

    def epoch_avg_loss(self) -> float:
        """Return the mean loss of the epoch so far, 0 before its first step; waits."""
        return float(self._total) / self.steps if self.steps else 0.0

    def reset_epoch(self) -> None:
        """Begin a new epoch: forget the losses."""
        self.steps = 0
        self._total.zero_()

    def epoch_state(self) -> dict[str, Any]:
        """Return the losses of the epoch so far, for a checkpoint."""
        return {"steps": self.steps, "total": self._total.clone()}

    def load_epoch_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `epoch_state` returned."""
        with no_grad():
            self._total.copy_(state["total"])
        self.steps = state["steps"]

    def fit(
        self,
        model: Module,
        loader: Iterable[Any],
        epochs: int,
        val: Iterable[Any] | None = None,
        *,
        loss: Callable[..., Tensor] | None = None,
        closure: Closure | None = None,
        metrics: Mapping[str, Metric] | Sequence[Metric] | None = None,
        accumulate: int = 1,
        scheduler: Any = None,
        scheduler_step: str = "epoch",
        monitor: str | None = None,
        mode: str = "min",
        patience: int | None = None,
        min_delta: float = 0.0,
        callbacks: Iterable[Any] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | bool | None = None,
        progress: bool = True,
        checkpoint_every: int | None = None,
    ) -> History:
        """Train a model for some epochs and return the numbers of each.

        Within an epoch nothing is read from the device; at its end the mean loss is,
        and what `val` gives.

        Parameters
        ----------
        model : Module
            In training mode while it is trained, afterwards as it was.
        loader : iterable
            Of batches, as a `DataLoader` is; they are moved to the parameters' device.
        epochs : int
            Passes over the loader, those before a checkpoint included.
        val : iterable, optional
            Batches to evaluate after each epoch (see `evaluate`).
        loss : callable, optional
            Of (outputs, targets): the model is called with the members of a batch but
            the last, which is the target.
        closure : callable, optional
            Instead of `loss`: the loss of a batch, given as arguments if it is a list
            or tuple.
        metrics : mapping of str to callable, or sequence of functions, optional
            Evaluated on `val` beside the loss, as `evaluate` does.
        accumulate : int, default 1
            Batches of one step. Its loss is the mean over the samples of all, so a
            loss that is a mean gives the step of one large batch.
        scheduler : LRScheduler, optional
        scheduler_step : {"epoch", "step"}
            When the scheduler is stepped; `ReduceLROnPlateau` gets what is monitored.
        monitor : str, optional
            Name in the history; "val_loss", or "loss" without `val`, if not given.
        mode : {"min", "max"}
            Whether less or more of it is better.
        patience : int, optional
            Stops after so many epochs in a row without an improvement.
        min_delta : float, default 0
            An improvement is more than that.
        callbacks : iterable of Callback or callable
            See `Callback`; a function is called with the loop after each epoch.
        checkpoint : str or path-like, optional
            File that is written after each epoch; of several ranks a folder, to which
            each writes its part.
        resume : str, path-like or True, optional
            Checkpoint to go on from, to the same bits as without the break: model,
            optimizer, scheduler, scaler, callbacks, random numbers and history are
            loaded from it. True means `checkpoint`, if there is such a file. Another
            number of ranks goes on from it, too, within bounds.
        progress : bool, default True
            Whether a progress bar is shown.
        checkpoint_every : int, optional
            Steps of an epoch after which the checkpoint is written, too. Who resumes
            from it goes on within the epoch: the loader is asked for the batches that
            are behind it again, and `on_epoch_begin` is not called again.

        Raises
        ------
        TypeError
            If not exactly one of `loss` and `closure` is given.
        ValueError
            If another argument is out of range, or the loader has no batch.
        StateError
            If the checkpoint is of another training; nothing has been loaded then.

        Notes
        -----
        Checkpoints hold the state of the default generator, of those of the loaders,
        their samplers and datasets (the attribute `generator`), of Python's `random`
        and of `numpy.random`; and that of callbacks that have one. A stop by a callback
        is no part: who resumes goes on.

        Of several ranks each takes its part of a `DataLoader` (`DistributedSampler`);
        another iterable is this rank's own. Numbers are means over all ranks, and the
        progress bar is rank 0's. Callbacks are called on all ranks; of their states
        that of rank 0 is kept. A rank that ends lets the others raise
        `DistributedError`; the checkpoint is the last that all have written.

        Examples
        --------
        >>> model = nn.Linear(2, 1)
        >>> dataset = data.TensorDataset(fw.ones(8, 2), fw.ones(8, 1))
        >>> trainer = optim.Trainer(optim.SGD(model.parameters(), lr=0.1))
        >>> history = trainer.fit(model, data.DataLoader(dataset, 4), 3,
        ...                       loss=nn.functional.mse_loss, progress=False)
        >>> len(history["loss"])
        3
        """
        options = FitOptions(
            epochs,
            val,
            loss,
            closure,
            metrics,
            accumulate,
            scheduler,
            scheduler_step,
            monitor,
            mode,
            patience,
            min_delta,
            callbacks,
            checkpoint,
            resume,
            progress,
            checkpoint_every,
        )
        return TrainingLoop(self, model, loader, options).run()

    def fit_step(
        self, model: Module, options: FitOptions
    ) -> Callable[[list[tuple[Any, ...]]], Tensor]:
        """Return what takes a step of `fit` for a list of batches."""
        closure, function, accumulate = (
            options.closure,
            options.loss,
            options.accumulate,
        )

        def make() -> Closure:
            if function is not None:
                found: Closure = BatchLoss(self.ranks.wrapped(model), function)
            else:
                assert closure is not None
                # Gradients are exchanged as parameters get them.
                self.ranks.wrapped(model)
                found = closure
            return AccumulatedLoss(found) if accumulate > 1 else found

        loss = self._kept((model, function, closure, accumulate > 1), make)
        if accumulate > 1:
            return lambda group: self.train_step(loss, *group)
        return lambda group: self.train_step(loss, *group[0])

    def measure(
        self, model: Module, metrics: Mapping[str, Metric], closure: Closure | None
    ) -> Callable[..., Tensor]:
        """Return what evaluates a batch, replayed if steps are."""

        def make() -> Callable[..., Tensor]:
            measure = Measure(model, metrics, closure)
            return jit(measure) if self._replays else measure

        parts = (model, closure, *metrics, *metrics.values())
        kept: Callable[..., Tensor] = self._kept(parts, make)
        return kept

    def _kept(self, parts: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return what was made of the same parts before, or make it."""
        key = tuple(
            each if isinstance(each, str | bool) else id(each) for each in parts
        )
        if key not in self._fitted:
            self._fitted[key] = parts, make()
        return self._fitted[key][1]


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
