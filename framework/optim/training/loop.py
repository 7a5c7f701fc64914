"""Training loop: epochs of steps, with evaluation, early stop and checkpoints."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...base.errors import StateError
from ...data.collate import map_arrays
from ...nn.fsdp.wrapper import state_kind
from ...nn.module import Module
from ...tensor.inplace import transaction
from ...tensor.tensor import Tensor
from ..divided_state import bare
from ..lr_scheduler import ReduceLROnPlateau
from .callback import as_callbacks, stateful
from .evaluate import (
    Metric,
    means_of,
    members_of,
    named_metrics,
    placed,
    totals_over,
)
from .history import History
from .random_state import generators_of, random_state, samplers_of, set_random_state

if TYPE_CHECKING:
    from ..trainer import Trainer


@dataclass
class FitOptions:
    """Options of `Trainer.fit`, which documents them."""

    epochs: int
    val: Iterable[Any] | None
    loss: Callable[..., Tensor] | None
    closure: Callable[..., Tensor] | None
    metrics: Any
    accumulate: int
    scheduler: Any
    scheduler_step: str
    monitor: str | None
    mode: str
    patience: int | None
    min_delta: float
    callbacks: Iterable[Any]
    checkpoint: str | os.PathLike[str] | None
    resume: str | os.PathLike[str] | bool | None
    progress: bool
    checkpoint_every: int | None = None

    def check(self) -> None:
        """Raise ValueError or TypeError if options are out of range."""
        for name, least in (
            ("epochs", 0),
            ("accumulate", 1),
            ("patience", 1),
            ("checkpoint_every", 1),
        ):
            value = getattr(self, name)
            if name in ("patience", "checkpoint_every") and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ValueError(
                    f"fit: {name} is {value!r}; it must be an int of at least {least}"
                )
        if (self.loss is None) == (self.closure is None):
            raise TypeError(
                "fit: exactly one of loss, of (outputs, targets), and closure, of a"
                " batch, must be given"
            )
        for name, choices in (
            ("scheduler_step", ("epoch", "step")),
            ("mode", ("min", "max")),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"fit: {name} is {getattr(self, name)!r}; it must be one of"
                    f" {', '.join(choices)}"
                )
        if self.resume is True and self.checkpoint is None:
            raise ValueError(
                "fit: resume is True, but checkpoint is not given; name the file"
            )
        if self.checkpoint_every is not None and self.checkpoint is None:
            raise ValueError(
                f"fit: checkpoint_every is {self.checkpoint_every}, but checkpoint is"
                " not given; name the file"
            )
        if self.metrics and self.val is None:
            raise ValueError("fit: metrics are of val, which is not given; give both")
        if self.scheduler_step == "step" and isinstance(
            self.scheduler, ReduceLROnPlateau
        ):
            raise ValueError(
                "fit: ReduceLROnPlateau needs the number of an epoch; step it with"
                " scheduler_step='epoch'"
            )


class TrainingLoop:
    """One training by `Trainer.fit`, as callbacks see it.

    Attributes
    ----------
    trainer : Trainer
    model : Module
    epoch : int
        Finished epochs.
    history : History
        Of the finished epochs.
    loss : Tensor or None
        Of the last step; the device may not have it yet.
    options : FitOptions
    """

    def __init__(
        self,
        trainer: Trainer,
        model: Module,
        loader: Iterable[Any],
        options: FitOptions,
    ) -> None:
        options.check()
        self.ranks = trainer.ranks
        self.trainer, self.model = trainer, model
        self.loader = self.ranks.training_loader(loader)
        options.val = self.ranks.validation_loader(options.val)
        self.options = options
        self.epoch = 0
        self.history = History()
        self.loss: Tensor | None = None
        self._callbacks = as_callbacks(options.callbacks)
        self._stateful = stateful(self._callbacks)
        self._generators = generators_of([self.loader, options.val])
        self._metrics = named_metrics(options.metrics)
        self._monitor = options.monitor or (
            "loss" if options.val is None else "val_loss"
        )
        known = ["loss", "lr"]
        if options.val is not None:
            known += [f"val_{name}" for name in ("loss", *self._metrics)]
        if self._monitor not in known:
            raise ValueError(
                f"fit: monitor is {self._monitor!r}; it must be one of"
                f" {', '.join(known)}"
            )
        # Early stop: the best number so far, and the epochs since.
        self._best = math.inf
        self._stale = 0
        self._stopped = False
        # Of an epoch: the random state it began with, and what a checkpoint within it
        # goes on from.
        self._began: dict[str, Any] = {}
        self._within: dict[str, Any] | None = None

    def stop(self) -> None:
        """End the training after this epoch."""
        self._stopped = True

    def run(self) -> History:
        """Train to the last epoch, and return its numbers."""
        self._resume()
        modes = [(module, module.training) for module in self.model.modules()]
        with self._bar() as bar:
            self._call("on_fit_begin")
            try:
                while self.epoch < self.options.epochs and not self._is_over():
                    self._run_epoch(bar)
                self._call("on_fit_end")
            finally:
                for module, mode in modes:
                    module.training = mode
        return self.history

    def _is_over(self) -> bool:
        patience = self.options.patience
        self._stopped = self.ranks.any(self._stopped)
        return self._stopped or (patience is not None and self._stale >= patience)

    def _call(self, moment: str) -> None:
        for callback in self._callbacks:
            getattr(callback, moment)(self)

    def _bar(self) -> Any:
        from tqdm import tqdm

        steps: int | None
        try:
            steps = len(self.loader)  # type: ignore[arg-type]  # some have no length
        except TypeError:
            steps = None
        total = None if steps is None else steps * self.options.epochs
        return tqdm(
            total=total,
            initial=(steps or 0) * self.epoch + self._done(),
            unit="batch",
            mininterval=0.5,
            disable=not self.options.progress or self.ranks.rank > 0,
        )

    # An epoch

    def _run_epoch(self, bar: Any) -> None:
        trainer, options = self.trainer, self.options
        self.model.train()
        trainer.reset_epoch()
        done = self._done()
        if self._within is None:
            self._call("on_epoch_begin")
            self._began = random_state(self._generators)
        else:
            trainer.load_epoch_state(self._within["losses"])
            self._began = self._within["began"]
        self._set_epoch()
        step = trainer.fit_step(self.model, options)
        rate = float(trainer.optimizer.param_groups[0]["lr"])
        for group in self._groups(done):
            self.loss = step(group)
            rate = float(trainer.optimizer.param_groups[0]["lr"])
            if options.scheduler is not None and options.scheduler_step == "step":
                options.scheduler.step()
            done += len(group)
            bar.update(len(group))
            self._call("on_step_end")
            self._save_within(done)
        self._within = None
        if not trainer.steps:
            raise ValueError("fit: the loader has no batch; there must be at least one")
        loss = self.ranks.mean(trainer.epoch_avg_loss())
        numbers = {"loss": loss, "lr": rate}
        if options.val is not None:
            numbers |= self._validated()
        self._end_epoch(numbers)
        bar.set_postfix(
            {name: f"{value:.4g}" for name, value in numbers.items()}, refresh=False
        )

    def _end_epoch(self, numbers: dict[str, float]) -> None:
        options = self.options
        self.epoch += 1
        self.history.append(numbers)
        self._note(numbers[self._monitor])
        if options.scheduler is not None and options.scheduler_step == "epoch":
            plateau = isinstance(options.scheduler, ReduceLROnPlateau)
            options.scheduler.step(*[numbers[self._monitor]] * plateau)
        self._call("on_epoch_end")
        if options.checkpoint is not None:
            self._save(options.checkpoint)

    def _note(self, value: float) -> None:
        """Count epochs without improvement; NaN is none."""
        value = -value if self.options.mode == "max" else value
        if value < self._best - self.options.min_delta:
            self._best, self._stale = value, 0
        else:
            self._stale += 1

    def _set_epoch(self) -> None:
        """Tell a sampler that orders by the number of the epoch."""
        for sampler in samplers_of(self.loader):
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(self.epoch)

    def _done(self) -> int:
        """Return the batches of the epoch that a checkpoint within it has behind it."""
        return 0 if self._within is None else int(self._within["batches"])

    def _save_within(self, done: int) -> None:
        """Write the checkpoint of a step, if it has one."""
        every, path = self.options.checkpoint_every, self.options.checkpoint
        if every is None or path is None or self.trainer.steps % every:
            return
        self._within = {
            "batches": done,
            "samples": self.ranks.samples(done, self.loader),
            "losses": self.trainer.epoch_state(),
            "began": self._began,
        }
        self._save(path)
        self._within = None

    def _loaded(self, done: int) -> Iterator[Any]:
        """Return an iterator over the batches after the first ones.

        Their order is drawn as it was when the epoch began.
        """
        if not done:
            return iter(self.loader)
        now = random_state(self._generators)
        set_random_state(self._began, self._generators)
        batches = iter(self.loader)
        skipped = sum(1 for _ in islice(batches, done))
        if skipped < done:
            raise StateError(
                f"fit: the checkpoint is of {done} batches of an epoch, the loader has"
                f" {skipped}; give the loader as it was"
            )
        set_random_state(now, self._generators)
        return batches

    def _groups(self, done: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the batches of each step, on the device of the parameters."""
        device = self.trainer.device
        batches = (members_of(placed(batch, device)) for batch in self._loaded(done))
        while group := list(islice(batches, self.options.accumulate)):
            yield group

    def _validated(self) -> dict[str, float]:
        options = self.options
        metrics: dict[str, Metric] = dict(self._metrics)
        if options.loss is not None:
            metrics = {"loss": options.loss, **metrics}
        measure = self.trainer.measure(self.model, metrics, options.closure)
        names = [f"val_{name}" for name in ("loss", *self._metrics)]
        assert options.val is not None
        most = self.ranks.most_batches(options.val)
        device = self.trainer.device
        found = totals_over(self.model, options.val, measure, device, most)
        return means_of(*self.ranks.totals(*found), names)

    # Its state

    def _save(self, path: str | os.PathLike[str]) -> None:
        self.ranks.save(self._state(), self.model, self.trainer.optimizer, path)

    def _state(self) -> dict[str, Any]:
        scheduler = self.options.scheduler
        return {
            "epoch": self.epoch,
            "scaler": self.trainer.scaler.state_dict(),
            "scheduler": None if scheduler is None else scheduler.state_dict(),
            "callbacks": {
                name: each.state_dict() for name, each in self._stateful.items()
            },
            "random": random_state(self._generators),
            "history": self.history.epochs,
            "best": self._best,
            "stale": self._stale,
            "within": self._within,
        }

    def _resume(self) -> None:
        """Load the checkpoint to go on from; on an error all is as it was."""
        path = self.options.resume
        if path is True:
            assert self.options.checkpoint is not None
            path = self.options.checkpoint
            if not self.ranks.exists(path):
                return
        if path is None or path is False:
            return
        state, reader = self.ranks.read(path, frozenset(self._state()))
        if self.ranks.group is not None:
            state["within"] = self.ranks.at_batch(state["within"], self.loader)
        if (state["scheduler"] is None) != (self.options.scheduler is None):
            raise StateError(
                f"fit: the checkpoint {path!s} and this training do not both have a"
                " scheduler; resume as it was trained"
            )
        count = len(state["random"]["generators"])
        if count != len(self._generators):
            raise StateError(
                f"fit: the checkpoint {path!s} is of {count} generators, this training"
                f" has {len(self._generators)}; give the loaders as they were"
            )
        if list(state["callbacks"]) != list(self._stateful):
            raise StateError(
                f"fit: the checkpoint {path!s} is of the callbacks"
                f" {list(state['callbacks'])}, this training has"
                f" {list(self._stateful)}; give those that it was trained with"
            )
        model, optimizer = self.model, self.trainer.optimizer
        # Of this rank, so that going back needs no other one.
        own = bare(model)
        with state_kind(own, "sharded"):
            now = dict(own.state_dict()), optimizer.state_dict(), self._state()
        before = map_arrays(
            lambda each: each.detach().clone() if isinstance(each, Tensor) else each,
            now,
        )

        def load() -> None:
            self.ranks.load(reader, model, optimizer)
            self._load(state)

        def undo() -> None:
            own.load_state_dict(before[0])
            optimizer.load_state_dict(before[1])
            self._load(before[2])

        transaction(load, undo)

    def _load(self, state: dict[str, Any]) -> None:
        if self.trainer.scaler.is_enabled():
            self.trainer.scaler.load_state_dict(state["scaler"])
        if self.options.scheduler is not None:
            self.options.scheduler.load_state_dict(state["scheduler"])
        for name, callback in self._stateful.items():
            callback.load_state_dict(state["callbacks"][name])
        set_random_state(state["random"], self._generators)
        self.epoch = state["epoch"]
        self.history.epochs = list(state["history"])
        self._best, self._stale = state["best"], state["stale"]
        self._within = state["within"]
