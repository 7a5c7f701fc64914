"""Step counters of traces: replayed steps that parameters' states do not count yet."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .stateful import StatefulOptimizer


class DeferredStepCounter:
    """Deferred step counter of a trace's parameters with equal step counts.

    Attributes
    ----------
    members : list of dict
        State of each parameter.
    deferred : int
        Replayed steps that `members` do not count yet.
    factors : tuple of float
        Dynamic arguments of this step, once they have been read.
    replayed_steps : int
        Steps that replays have made.
    """

    def __init__(self, optimizer: StatefulOptimizer, trace: object) -> None:
        self.members: list[dict[str, Any]] = []
        self.deferred = self.replayed_steps = 0
        self.factors: tuple[float, ...] = ()
        # An optimizer's cached step keeps its counters.
        self._optimizer = weakref.ref(optimizer)
        self._trace = trace

    def __call__(self) -> None:
        """Count a step, in the same time for any number of parameters."""
        optimizer = self._optimizer()
        if optimizer is not None:
            optimizer.apply_deferred_steps(self._trace)
        # Together, or an interrupt between would leave one without the other.
        self.deferred, self.replayed_steps = self.deferred + 1, self.replayed_steps + 1
        self.factors = ()

    def mark(self) -> int:
        """Return how many steps replays have made."""
        return self.replayed_steps

    def take_back(self, mark: int) -> None:
        """Roll back a step whose kernels have not run."""
        if self.replayed_steps != mark:
            self.deferred, self.replayed_steps = self.deferred - 1, mark
        self.factors = ()

    def step(self) -> int:
        """Return the number of steps."""
        steps: int = self.members[0]["step"]
        return steps + self.deferred

    def apply_deferred(self) -> None:
        """Add the deferred steps to each member."""
        if self.deferred:
            for member in self.members:
                member["step"] += self.deferred
            self.deferred = 0

    def __del__(self) -> None:
        self.apply_deferred()

    def _fingerprint(self) -> list[object]:
        """Return each member's step count relative to the first: all 0 in a trace."""
        first = self.members[0]["step"]
        return [member["step"] - first for member in self.members]
