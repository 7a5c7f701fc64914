"""Callbacks: what a training loop calls at its moments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loop import TrainingLoop


class Callback:
    """Base of callbacks: a method for each moment of `Trainer.fit`, which do nothing.

    Each gets the loop: `loop.epoch` counts finished epochs, `loop.history` has the
    numbers of each, `loop.model` and `loop.trainer` are what is trained, and
    `loop.stop()` ends the training after the epoch.

    Examples
    --------
    >>> class Report(optim.Callback):
    ...     def on_epoch_end(self, loop):
    ...         print(loop.epoch, sorted(loop.history.last()))
    >>> model = nn.Linear(2, 1)
    >>> batches = [(fw.ones(4, 2), fw.ones(4, 1))]
    >>> trainer = optim.Trainer(optim.SGD(model.parameters(), lr=0.1))
    >>> _ = trainer.fit(model, batches, 1, loss=nn.functional.mse_loss,
    ...                 callbacks=[Report()], progress=False)
    1 ['loss', 'lr']
    """

    def on_fit_begin(self, loop: TrainingLoop) -> None:
        """Run before the first epoch, after a checkpoint was loaded."""

    def on_epoch_begin(self, loop: TrainingLoop) -> None:
        """Run before each epoch, when the model is in training mode."""

    def on_step_end(self, loop: TrainingLoop) -> None:
        """Run after each step of the optimizer, which the device may not have done."""

    def on_epoch_end(self, loop: TrainingLoop) -> None:
        """Run after each epoch and its evaluation; before its checkpoint."""

    def on_fit_end(self, loop: TrainingLoop) -> None:
        """Run after the last epoch."""


class EpochFunction(Callback):
    """A function that is called at the end of each epoch."""

    def __init__(self, function: Callable[[TrainingLoop], object]) -> None:
        self._function = function

    def on_epoch_end(self, loop: TrainingLoop) -> None:
        """Call the function."""
        self._function(loop)


def as_callbacks(given: Iterable[Any]) -> list[Callback]:
    """Return callbacks, with functions as what runs at the end of an epoch.

    Raises
    ------
    TypeError
        If one is neither.
    """
    found = []
    for each in given:
        if isinstance(each, Callback):
            found.append(each)
        elif callable(each) and not isinstance(each, type):
            found.append(EpochFunction(each))
        else:
            raise TypeError(
                f"fit: a callback is {each!r}; it must be a Callback, or a function"
                " of the loop"
            )
    return found
