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
from .foreach import assign_foreach
from .found_inf import SKIPPED
from .optimizer import Cohort, Group, Optimizer, Update
from .state_dict import Remembered

Numbers = tuple[Any, ...]
"""What decay leaves of a parameter, the root's factor and the step's size.

The last two are on the device where it alone knows how many steps were made.
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
    remembered: ClassVar[Remembered | None] = {
        "step": int,
        "exp_avg": Tensor,
        "exp_avg_sq": Tensor,
    }
    _joining: Tensor | None = None

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
                state = self._state[parameter] = self._fresh(parameter)
            if self.skip is not None and SKIPPED not in state:
                state[SKIPPED] = self._none_skipped()
            state["step"] += 1
            if group["weight_decay"] and not self.decoupled:
                grad = grad + parameter * group["weight_decay"]
            row = parameter, grad, state["exp_avg"], state["exp_avg_sq"]
            # Numbers that change in replays may be equal now: identity tells them.
            numbers = self._numbers(state, group)
            steps.setdefault(id(numbers), (numbers, []))[1].append(row)
        beta1, beta2 = group["betas"]
        for numbers, rows in steps.values():
            firsts = [(first, grad) for _, grad, first, _ in rows]
            assign_foreach(ema, firsts, (1.0 - beta1,))
            seconds = [(second, grad) for _, grad, _, second in rows]
            assign_foreach(weighted_sum_square, seconds, (beta2, 1.0 - beta2))
            values = [(value, first, second) for value, _, first, second in rows]
            _descend(values, numbers, group["eps"])

    def _fresh(self, parameter: Tensor) -> dict[str, Any]:
        trace_hooks.once(f"{self._name} makes room for its moments")
        return {
            "step": 0,
            "exp_avg": zeros_like(parameter),
            "exp_avg_sq": zeros_like(parameter),
        }

    def _none_skipped(self) -> Tensor:
        """Return where parameters that join in this step count skipped ones."""
        if self._joining is None:
            assert self.skip is not None
            trace_hooks.once(f"{self._name} makes room to count what it skips")
            self._joining = zeros((), device=self.skip.device)
        return self._joining

    def _numbers(self, state: dict[str, Any], group: Group) -> Numbers:
        """Return `_factors` of a step, shared by all parameters that make it."""
        skipped: Tensor | None = state.get(SKIPPED)
        key = id(group), state["step"], id(skipped)
        known = self._shared.get(key)
        if known is None:
            known = self._shared[key] = self._read(group, state["step"], skipped)
        cohort, numbers = known
        if cohort is not None:
            cohort.members.append(state)
        return numbers

    def _read(
        self, group: Group, step: int, skipped: Tensor | None
    ) -> tuple[Cohort | None, Numbers]:
        if skipped is None:
            return self._read_factors(Adam._factors, group, step)
        cohort, (kept, count, lr) = self._read_factors(Adam._uncorrected, group, step)
        made = count - skipped
        # 1 - beta ** made, where made is known to the device alone.
        first, second = (
            -(made * math.log(max(beta, TINY))).expm1() for beta in group["betas"]
        )
        return cohort, (kept, second.rsqrt(), lr / first)

    def _read_factors(
        self, factors: Callable[..., tuple[float, ...]], group: Group, step: int
    ) -> tuple[Cohort | None, tuple[float, ...]]:
        trace = trace_hooks.listener()
        if trace is None:
            return None, factors(self, group, step)
        cohort = self.new_cohort(self._turn)
        trace.called(cohort)
        trace.each_time(cohort)
        # The members count this step already, but not before the first has come.
        cohort.members.append({"step": step})

        optimizer = weakref.ref(self)

        def factor(number: int) -> float:
            if not cohort.factors:
                own = optimizer()
                assert own is not None
                cohort.factors = factors(own, group, cohort.step())
            return cohort.factors[number]

        numbers = [trace_hooks.changing(partial(factor, k)) for k in range(3)]
        cohort.members.clear()
        return cohort, tuple(numbers)

    def _factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return what decay leaves, the root's factor and the step's size."""
        kept, _, lr = self._uncorrected(group, step)
        beta1, beta2 = group["betas"]
        return kept, 1.0 / math.sqrt(1.0 - beta2**step), lr / (1.0 - beta1**step)

    def _uncorrected(self, group: Group, step: int) -> tuple[float, ...]:
        """Return what decay leaves, the step's number and the learning rate."""
        lr = group["lr"]
        decay = lr * group["weight_decay"] if self.decoupled else 0.0
        return 1.0 - decay, float(step), lr

    def begin(self) -> None:
        """Get ready for a step that is done at length."""
        # What parameters share in this step; what they remember counts every replay.
        self._shared: dict[tuple[int, int, int], tuple[Cohort | None, Numbers]] = {}
        # Names the step: cohorts keep it, and must not keep themselves.
        self._turn = object()
        self._joining = None
        self.settle(None)


def _descend(values: Sequence[Moving], numbers: Numbers, eps: float) -> None:
    """Move parameters along their moments."""
    kept, root_scale, size = numbers
    if isinstance(root_scale, Tensor):
        rows = [(*each, root_scale, size) for each in values]
        assign_foreach(adam_step_capturable, rows, (kept, eps))
    else:
        assign_foreach(adam_step, values, (kept, root_scale, eps, size))


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
