"""What an optimizer remembers of each parameter, and the steps it has yet to count."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from ..ir.lazy_graph import Failed
from ..tensor.tensor import Tensor
from .found_inf import SKIPPED
from .step_counter import DeferredStepCounter


def has_failed(remembered: object) -> bool:
    """Return whether a value is a tensor whose computation has failed."""
    if not isinstance(remembered, Tensor):
        return False
    return type(remembered.array.value.buffer) is Failed


class StatefulOptimizer:
    """Base of optimizers: the state of their parameters.

    Without `__init__`, which a wrapper of another optimizer may not call, it has no
    state until it is given one.
    """

    _state: dict[Any, Any]
    # Traces keep them: without a trace there are no steps to count.
    _step_counters: Sequence[weakref.ref[DeferredStepCounter]] = ()
    _replaying: object = None
    _state_exposed = False

    @property
    def step_counters(self) -> int:
        """Internal: number of deferred step counters, at most."""
        return len(self._step_counters)

    @property
    def state_exposed(self) -> bool:
        """Internal: whether the state has been handed out."""
        return self._state_exposed

    @property
    def state(self) -> dict[Tensor, dict[str, Any]]:
        """State of each parameter; a mapping that is assigned takes its place."""
        if "_state" not in vars(self):
            raise AttributeError(
                f"{type(self).__name__}: there is no state yet; call"
                " super().__init__(params, defaults), or assign one"
            )
        self.apply_deferred_steps(None)
        self._drop_failed()
        self._state_exposed = True
        return self._state

    @state.setter
    def state(self, state: dict[Tensor, dict[str, Any]]) -> None:
        self.apply_deferred_steps(None)
        self._state_exposed = True
        self._state, self._step_counters = state, ()
        self._invalidate()

    def _invalidate(self) -> None:
        """Drop what was made for the groups and the state of before."""
        raise NotImplementedError

    def apply_deferred_steps(self, trace: object) -> None:
        """Apply the deferred steps of every trace but this one."""
        if self._replaying is not trace:
            for reference in self._step_counters:
                step_counter = reference()
                if step_counter is not None:
                    step_counter.apply_deferred()
            self._replaying = trace

    def new_step_counter(self, trace: object) -> DeferredStepCounter:
        """Return a deferred step counter for one trace."""
        step_counter = DeferredStepCounter(self, trace)
        alive = [each for each in self._step_counters if each() is not None]
        self._step_counters = [*alive, weakref.ref(step_counter)]
        return step_counter

    def _parameter_states(self) -> list[tuple[Tensor, dict[str, Any]]]:
        """Return parameters and their states, without what else a subclass keeps."""
        return [
            (key, state)
            for key, state in self._state.items()
            if isinstance(key, Tensor) and isinstance(state, dict)
        ]

    def _drop_failed(self) -> None:
        """Drop state whose initialisation failed."""
        for parameter, state in self._parameter_states():
            lost = [name for name, each in state.items() if has_failed(each)]
            if lost == [SKIPPED]:
                del state[SKIPPED]
            elif lost:
                del self._state[parameter]
