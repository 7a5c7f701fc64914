"""Optimizers whose updates depend on the number of steps, as by bias corrections."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..base import trace_hooks
from ..tensor.factories import zeros_like
from ..tensor.tensor import Tensor
from .optimizer import Group, Optimizer, Update
from .step_counter import DeferredStepCounter

Numbers = tuple[Any, ...]
"""Numbers of a step: dynamic arguments in a trace."""

Row = tuple[Tensor, Tensor, dict[str, Any]]
"""A parameter, its gradient, and its state."""


class CountingOptimizer(Optimizer):
    """Optimizer that counts the steps of each parameter as "step" of its state.

    Subclasses define `zeros`, `factors` and `apply`.
    """

    replayable = True

    zeros: tuple[str, ...] = ()
    """State tensors that begin as zeros."""

    factor_count = 1
    """How many numbers `factors` returns."""

    def state_spec(self, group: Group) -> dict[str, type]:
        """Return the state of a group's parameters, by name and type."""
        return {"step": int, **dict.fromkeys(self.zeros_of(group), Tensor)}

    def zeros_of(self, group: Group) -> Sequence[str]:
        """Return the names of state tensors that begin as zeros."""
        return self.zeros

    def initial_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """Return the state of a parameter before its first step."""
        trace_hooks.once(f"{self._name} makes room for its state")
        tensors = {name: zeros_like(parameter) for name in self.zeros_of(group)}
        return {"step": 0, **tensors}

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return the numbers of a step, which are its dynamic arguments."""
        raise NotImplementedError(f"{self._name}.factors: it is not defined")

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        raise NotImplementedError(f"{self._name}.apply: it is not defined")

    def update_all(self, updates: Sequence[Update], group: Group) -> None:
        """Change parameters by their gradients."""
        steps: dict[int, tuple[Numbers, list[Row]]] = {}
        for parameter, grad in updates:
            # Dynamic arguments may be equal now: identity distinguishes them.
            numbers, state = self.count_step(parameter, group)
            row = parameter, grad, state
            steps.setdefault(id(numbers), (numbers, []))[1].append(row)
        for numbers, rows in steps.values():
            self.apply(rows, numbers, group)

    def count_step(
        self, parameter: Tensor, group: Group
    ) -> tuple[Numbers, dict[str, Any]]:
        """Count a step of a parameter; return its numbers, and the state."""
        state = self._state.get(parameter)
        if not state:
            state = self._state[parameter] = self.initial_state(parameter, group)
        self.note_skips(state)
        state["step"] += 1
        return self._numbers(state, group), state

    def note_skips(self, state: dict[str, Any]) -> None:
        """Prepare a parameter's state for a step that may be skipped."""

    def numbers_key(self, state: dict[str, Any]) -> object:
        """Return what beside the step count tells the numbers of parameters apart."""
        return None

    def read(
        self, group: Group, state: dict[str, Any]
    ) -> tuple[DeferredStepCounter | None, Numbers]:
        """Return the numbers of a step, with the counter of a trace."""
        return self.read_factors(self.factors, group, state["step"], self.factor_count)

    def _numbers(self, state: dict[str, Any], group: Group) -> Numbers:
        """Return the numbers of a step, shared by all parameters with its count."""
        key = id(group), state["step"], self.numbers_key(state)
        known = self._shared.get(key)
        if known is None:
            known = self._shared[key] = self.read(group, state)
        step_counter, numbers = known
        if step_counter is not None:
            step_counter.members.append(state)
        return numbers

    def read_factors(
        self,
        factors: Callable[[Group, int], tuple[float, ...]],
        group: Group,
        step: int,
        count: int,
    ) -> tuple[DeferredStepCounter | None, Numbers]:
        """Return the `count` numbers of a rule; dynamic arguments in a trace."""
        trace = trace_hooks.listener()
        if trace is None:
            return None, factors(group, step)
        step_counter = self.new_step_counter(self._step_token)
        trace.called(step_counter)
        trace.each_time(step_counter)
        # The members count this step already, but not before the first has come.
        step_counter.members.append({"step": step})

        # Counters outlive a step: they must not keep the optimizer.
        rule = weakref.WeakMethod(factors)

        def factor(number: int) -> float:
            if not step_counter.factors:
                own = rule()
                assert own is not None
                step_counter.factors = own(group, step_counter.step())
            return step_counter.factors[number]

        numbers = [trace_hooks.changing(partial(factor, k)) for k in range(count)]
        step_counter.members.clear()
        return step_counter, tuple(numbers)

    def begin(self) -> None:
        """Prepare a step on the slow path."""
        # Numbers that parameters share in this step.
        self._shared: dict[
            tuple[int, int, object], tuple[DeferredStepCounter | None, Numbers]
        ] = {}
        # Identity of the step: counters keep it, and must not keep themselves.
        self._step_token = object()
        self.apply_deferred_steps(None)


def with_decay(rows: Sequence[Row], decay: float) -> Sequence[Row]:
    """Return rows whose gradients include that of half the squared norm."""
    if not decay:
        return rows
    return [(value, grad + value * decay, state) for value, grad, state in rows]
