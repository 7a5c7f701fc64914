"""History: the numbers of each epoch of a training."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence


class History:
    """Numbers of each epoch by name, as `Trainer.fit` returns them.

    Names are ``loss``, the mean over the steps; ``lr``, the learning rate of the first
    group in the epoch's last step; and ``val_loss`` and ``val_`` with the name of each
    metric, if there is a loader for validation.

    Examples
    --------
    >>> history = optim.History()
    >>> history.append({"loss": 2.0})
    >>> history.append({"loss": 1.0})
    >>> history["loss"], len(history), history.last(), history.best("loss")
    ([2.0, 1.0], 2, {'loss': 1.0}, 1)
    """

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []

    def append(self, numbers: Mapping[str, float]) -> None:
        """Add the numbers of an epoch."""
        self.epochs.append(dict(numbers))

    def __len__(self) -> int:
        return len(self.epochs)

    def __getitem__(self, name: str) -> list[float]:
        """Return a number over the epochs that have it.

        Raises
        ------
        KeyError
            If none has.
        """
        found = [epoch[name] for epoch in self.epochs if name in epoch]
        if not found:
            raise KeyError(
                f"History: there is no {name!r}; there are {', '.join(self.names())}"
            )
        return found

    def names(self) -> list[str]:
        """Return the names in the order in which they came."""
        return list(dict.fromkeys(name for epoch in self.epochs for name in epoch))

    def last(self) -> dict[str, float]:
        """Return the numbers of the last epoch, {} before its end."""
        return dict(self.epochs[-1]) if self.epochs else {}

    def best(self, name: str, mode: str = "min") -> int:
        """Return the epoch, from 0, with the least number (or, of "max", the greatest).

        NaN is no better than any other.
        """
        sign = -1.0 if mode == "max" else 1.0
        keys = [math.inf if math.isnan(value) else sign * value for value in self[name]]
        return keys.index(min(keys))

    def plot(self, path: str | os.PathLike[str], steps: Sequence[float] = ()) -> None:
        """Draw the losses and each metric over the epochs into a picture.

        Parameters
        ----------
        path : str or path-like
            Its ending, such as ".png" or ".svg", chooses the format.
        steps : sequence of float
            Losses of all steps, which are drawn beside those of the epochs.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there is no epoch.
        """
        if not self.epochs:
            raise ValueError("History.plot: there is no epoch; train first")
        try:
            from matplotlib.figure import Figure
        except ImportError as error:
            raise ImportError(
                "History.plot: matplotlib not found; pip install 'vkbackend[examples]'"
            ) from error
        bases = list(dict.fromkeys(name.removeprefix("val_") for name in self.names()))
        figure = Figure(figsize=(4.5 * len(bases), 3.5), layout="constrained")
        panels = figure.subplots(1, len(bases), squeeze=False)[0]
        for base, axes in zip(bases, panels):
            if base == "loss" and steps:
                share = len(self.epochs) / len(steps)
                places = [share * (number + 1) for number in range(len(steps))]
                axes.plot(places, steps, alpha=0.4, linewidth=0.8, label="steps")
            for name, label in ((base, "training"), (f"val_{base}", "validation")):
                numbered = [
                    (number, epoch[name])
                    for number, epoch in enumerate(self.epochs, 1)
                    if name in epoch
                ]
                if numbered:
                    axes.plot(*zip(*numbered), marker="o", label=label)
            axes.set(xlabel="epoch", ylabel=base)
            axes.locator_params(axis="x", integer=True)
            axes.grid(alpha=0.3)
            axes.legend()
        figure.savefig(path, dpi=120)
