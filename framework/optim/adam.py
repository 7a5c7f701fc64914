"""Adam, and its variant with decoupled weight decay."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from ..base import trace_hooks
from ..ops.elementwise.optimizer_step import (
    adam_step,
    adam_step_capturable,
    ema,
    weighted_sum_square,
)
from ..tensor.factories import zeros, zeros_like
from ..tensor.tensor import Tensor
from .foreach import assign_each
from .found_inf import SKIPPED
from .optimizer import DeferredStepCounter, Group, Optimizer, Update
from .state_dict import StateSpec

Numbers = tuple[Any, ...]
"""Decay factor, bias correction of the second moment, and step size.

The last two are on the device where skipped steps are counted there.
"""

Moving = tuple[Tensor, Tensor, Tensor]
"""A parameter and its moments."""

TINY = 1e-30
"""In place of a beta of 0, which has no logarithm; a float32 sees no difference."""


class Adam(Optimizer):
    """Gradient descent scaled by running moments of the gradient.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        See `Optimizer`.
    lr : float, default 1e-3
        Learning rate.
    betas : (float, float), default (0.9, 0.999)
        Share of the earlier first and second moment that is kept.
    eps : float, default 1e-8
        Added to the root of the second moment.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.

    Notes
    -----
    Source: Kingma and Ba, arXiv:1412.6980.
    """

    decoupled = False
    replayable = True
    remembered: ClassVar[StateSpec | None] = {
        "step": int,
        "exp_avg": Tensor,
        "exp_avg_sq": Tensor,
    }
    _new_skip_counter: Tensor | None = None

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        if not all(0.0 <= beta < 1.0 for beta in group["betas"]):
            raise ValueError(
                f"{type(self).__name__}: betas are {group['betas']};"
                " both must be at least 0 and below 1"
            )

    def update_all(self, updates: Sequence[Update], group: Group) -> None:
        """Change parameters by their gradients."""
        steps: dict[int, tuple[Numbers, list[tuple[Tensor, ...]]]] = {}
        for parameter, grad in updates:
            state = self._state.get(parameter)
            if state is None:
                state = self._state[parameter] = self._initial_state(parameter)
            if self.skip is not None and SKIPPED not in state:
                state[SKIPPED] = self._skip_counter()
            state["step"] += 1
            if group["weight_decay"] and not self.decoupled:
                grad = grad + parameter * group["weight_decay"]
            row = parameter, grad, state["exp_avg"], state["exp_avg_sq"]
            # Dynamic arguments may be equal now: identity distinguishes them.
            numbers = self._numbers(state, group)
            steps.setdefault(id(numbers), (numbers, []))[1].append(row)
        beta1, beta2 = group["betas"]
        for numbers, rows in steps.values():
            firsts = [(first, grad) for _, grad, first, _ in rows]
            assign_each(ema, firsts, (1.0 - beta1,))
            seconds = [(second, grad) for _, grad, _, second in rows]
            assign_each(weighted_sum_square, seconds, (beta2, 1.0 - beta2))
            values = [(value, first, second) for value, _, first, second in rows]
            _apply_moments(values, numbers, group["eps"])

    def _initial_state(self, parameter: Tensor) -> dict[str, Any]:
        trace_hooks.once(f"{self._name} makes room for its moments")
        return {
            "step": 0,
            "exp_avg": zeros_like(parameter),
            "exp_avg_sq": zeros_like(parameter),
        }

    def _skip_counter(self) -> Tensor:
        """Return the skip counter of parameters whose state this step initialises."""
        if self._new_skip_counter is None:
            assert self.skip is not None
            trace_hooks.once(f"{self._name} makes room to count what it skips")
            self._new_skip_counter = zeros((), device=self.skip.device)
        return self._new_skip_counter

    def _numbers(self, state: dict[str, Any], group: Group) -> Numbers:
        """Return `_factors` of a step, shared by all parameters with its step count."""
        skipped: Tensor | None = state.get(SKIPPED)
        key = id(group), state["step"], id(skipped)
        known = self._shared.get(key)
        if known is None:
            known = self._shared[key] = self._read(group, state["step"], skipped)
        step_counter, numbers = known
        if step_counter is not None:
            step_counter.members.append(state)
        return numbers

    def _read(
        self, group: Group, step: int, skipped: Tensor | None
    ) -> tuple[DeferredStepCounter | None, Numbers]:
        if skipped is None:
            return self._read_factors(Adam._factors, group, step)
        step_counter, (kept, count, lr) = self._read_factors(
            Adam._uncorrected, group, step
        )
        made = count - skipped
        # 1 - beta ** made, where made is known to the device alone.
        first, second = (
            -(made * math.log(max(beta, TINY))).expm1() for beta in group["betas"]
        )
        return step_counter, (kept, second.rsqrt(), lr / first)

    def _read_factors(
        self, factors: Callable[..., tuple[float, ...]], group: Group, step: int
    ) -> tuple[DeferredStepCounter | None, tuple[float, ...]]:
        trace = trace_hooks.listener()
        if trace is None:
            return None, factors(self, group, step)
        step_counter = self.new_step_counter(self._step_token)
        trace.called(step_counter)
        trace.each_time(step_counter)
        # The members count this step already, but not before the first has come.
        step_counter.members.append({"step": step})

        optimizer = weakref.ref(self)

        def factor(number: int) -> float:
            if not step_counter.factors:
                own = optimizer()
                assert own is not None
                step_counter.factors = factors(own, group, step_counter.step())
            return step_counter.factors[number]

        numbers = [trace_hooks.changing(partial(factor, k)) for k in range(3)]
        step_counter.members.clear()
        return step_counter, tuple(numbers)

    def _factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return decay factor, bias correction of the second moment, and step size."""
        kept, _, lr = self._uncorrected(group, step)
        beta1, beta2 = group["betas"]
        return kept, 1.0 / math.sqrt(1.0 - beta2**step), lr / (1.0 - beta1**step)

    def _uncorrected(self, group: Group, step: int) -> tuple[float, ...]:
        """Return decay factor, step count and learning rate."""
        lr = group["lr"]
        decay = lr * group["weight_decay"] if self.decoupled else 0.0
        return 1.0 - decay, float(step), lr

    def begin(self) -> None:
        """Prepare a step on the slow path."""
        # Factors that parameters share in this step.
        self._shared: dict[
            tuple[int, int, int], tuple[DeferredStepCounter | None, Numbers]
        ] = {}
        # Identity of the step: counters keep it, and must not keep themselves.
        self._step_token = object()
        self._new_skip_counter = None
        self.apply_deferred_steps(None)


def _apply_moments(values: Sequence[Moving], numbers: Numbers, eps: float) -> None:
    """Update parameters by their moments."""
    kept, root_scale, size = numbers
    if isinstance(root_scale, Tensor):
        rows = [(*each, root_scale, size) for each in values]
        assign_each(adam_step_capturable, rows, (kept, eps))
    else:
        assign_each(adam_step, values, (kept, root_scale, eps, size))


class AdamW(Adam):
    """Adam with weight decay beside the moments: it shrinks the parameter itself.

    Parameters
    ----------
    params, lr, betas, eps
        See `Adam`.
    weight_decay : float, default 1e-2
        Times the learning rate and the parameter, subtracted from the parameter.

    Notes
    -----
    Source: Loshchilov and Hutter, arXiv:1711.05101.
    """

    decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
