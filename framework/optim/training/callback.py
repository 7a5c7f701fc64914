"""Callbacks: what a training loop calls at its moments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loop import TrainingLoop


class Callback:
    """Base of callbacks: a method for each moment of `Trainer.fit`, which do nothing.

    Each gets the loop: `loop.epoch` counts finished epochs, `loop.history` has the
    numbers of each, `loop.model` and `loop.trainer` are what is trained, `loop.loss` is
    the last step's, and `loop.stop()` ends the training after the epoch.

    One that keeps a state of its own defines `state_dict` and `load_state_dict`: the
    state is then part of checkpoints.

    Examples
    --------
    >>> class Average(optim.Callback):
    ...     def __init__(self, model):
    ...         average = optim.swa_utils.get_ema_multi_avg_fn(0.99)
    ...         self.model = optim.swa_utils.AveragedModel(model, multi_avg_fn=average)
    ...     def on_step_end(self, loop):
    ...         self.model.update_parameters(loop.model)
    ...     def state_dict(self):
    ...         return self.model.state_dict()
    ...     def load_state_dict(self, state):
    ...         self.model.load_state_dict(state)
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

    def state_dict(self) -> Any:
        """Return what `fw.save` can write: all that a resumed training needs."""
        return {}

    def load_state_dict(self, state: Any) -> None:
        """Restore what `state_dict` returned; run before `on_fit_begin`."""


class EpochFunction(Callback):
    """A function that is called at the end of each epoch."""

    def __init__(self, function: Callable[[TrainingLoop], object]) -> None:
        self.function = function

    def on_epoch_end(self, loop: TrainingLoop) -> None:
        """Call the function."""
        self.function(loop)


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


def stateful(callbacks: Iterable[Callback]) -> dict[str, Any]:
    """Return what has a state to save, by the names of the classes.

    Those are the callbacks that define `state_dict`, and objects that are called as
    functions and have both methods. Of several of a class each has a number.
    """
    found: dict[str, Any] = {}
    for callback in callbacks:
        owner: Any = callback
        if isinstance(callback, EpochFunction):
            owner = callback.function
            has_state = hasattr(owner, "state_dict") and hasattr(
                owner, "load_state_dict"
            )
        else:
            has_state = type(callback).state_dict is not Callback.state_dict
        if has_state:
            kind = type(owner).__name__
            count = sum(name.partition("#")[0] == kind for name in found)
            found[f"{kind}#{count}" if count else kind] = owner
    return found
