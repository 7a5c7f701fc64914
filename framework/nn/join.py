"""Blocks within which ranks may have different numbers of batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .data_parallel import DataParallel


class Joining:
    """A block of `DataParallel.join`.

    Before each step all ranks tell whether they have another batch. Those that have
    none take part in the exchanges of the others, with gradients of 0.

    Parameters
    ----------
    model : DataParallel
    divide_by_all : bool
        Whether gradients are divided by the number of all ranks, rather than of those
        that have a batch.
    throw : bool
        Whether to raise where a rank has no further batch.
    """

    def __init__(self, model: DataParallel, divide_by_all: bool, throw: bool) -> None:
        self._model, self._throw = model, throw
        self._divide_by_all = divide_by_all
        self._last: Sequence[bool] = [True] * model.group.size

    def step(self, active: bool) -> bool:
        """Tell whether this rank has a batch; return whether one has."""
        model = self._model
        every = model.group.gather_objects(active)
        if self._throw and not all(every):
            raise RuntimeError(
                f"DataParallel.join: rank {every.index(False)} has no further batch;"
                " give all ranks as many, or let throw_on_early_termination be False"
            )
        if any(every):
            self._last = every
            share = 1.0 if self._divide_by_all else len(every) / sum(every)
            model.reducer.scale = share
        return any(every)

    def finish(self) -> None:
        """Follow the steps of the other ranks, and take the last one's parameters."""
        model = self._model
        while self.step(False):
            model.follow_step()
        model.reducer.scale = 1.0
        source = max(rank for rank, active in enumerate(self._last) if active)
        model.take_all(source)


@contextmanager
def joined(model: DataParallel, divide_by_all: bool, throw: bool) -> Iterator[None]:
    """Return a block of a model; see `DataParallel.join`."""
    model.joining = joining = Joining(model, divide_by_all, throw)
    try:
        yield
        joining.finish()
    finally:
        model.joining = None
        model.reducer.scale = 1.0
