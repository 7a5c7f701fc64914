"""Adam, and its variant with decoupled weight decay."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from .. import tracing
from ..creation import zeros_like
from ..tensor import Tensor
from .optimizer import Cohort, Group, Optimizer, become


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

    def update(self, parameter: Tensor, grad: Tensor, group: Group) -> None:
        """Change one parameter by its gradient."""
        state = self._state.get(parameter)
        if state is None:
            tracing.once(f"{self._name} makes room for its moments")
            state = {
                "step": 0,
                "exp_avg": zeros_like(parameter),
                "exp_avg_sq": zeros_like(parameter),
            }
            self._state[parameter] = state
        state["step"] += 1
        kept, root_scale, size = self._numbers(state, group)
        value: Tensor = parameter
        if group["weight_decay"] and self.decoupled:
            value = value * kept
        elif group["weight_decay"]:
            grad = grad + value * group["weight_decay"]
        first, second = self._moments(state, grad, group["betas"])
        change = first / (second.sqrt() * root_scale + group["eps"])
        become(parameter, value - change * size)

    def _moments(
        self, state: dict[str, Any], grad: Tensor, betas: tuple[float, float]
    ) -> tuple[Tensor, Tensor]:
        """Return the moments of the gradient, and keep them."""
        first, second = state["exp_avg"], state["exp_avg_sq"]
        new_first = first + (grad - first) * (1.0 - betas[0])
        new_second = second * betas[1] + grad * grad * (1.0 - betas[1])
        become(first, new_first)
        become(second, new_second)
        return new_first, new_second

    def _numbers(self, state: dict[str, Any], group: Group) -> tuple[float, ...]:
        """Return `_factors` of a step, shared by all parameters that make it."""
        key = id(group), state["step"]
        known = self._shared.get(key)
        if known is None:
            known = self._shared[key] = self._read(group, state["step"])
        cohort, numbers = known
        if cohort is not None:
            cohort.members.append(state)
        return numbers

    def _read(self, group: Group, step: int) -> tuple[Cohort | None, tuple[float, ...]]:
        trace = tracing.listener()
        if trace is None:
            return None, self._factors(group, step)
        cohort = Cohort(self, self._shared)
        self._cohorts.append(cohort)
        trace.each_time(cohort.tick)
        # The members count this step already, but not before the first has come.
        cohort.members.append({"step": step})

        def factor(number: int) -> float:
            return self._factors(group, cohort.step())[number]

        numbers = [tracing.changing(partial(factor, k)) for k in range(3)]
        cohort.members.clear()
        return cohort, tuple(numbers)

    def _factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return what decay leaves, the root's factor and the step's size."""
        lr = group["lr"]
        correction1, correction2 = (1.0 - beta**step for beta in group["betas"])
        return (
            1.0 - lr * group["weight_decay"],
            1.0 / math.sqrt(correction2),
            lr / correction1,
        )

    def step(self) -> None:
        """Change every parameter that has a gradient, and submit what is pending."""
        # What parameters share in this step; what they remember counts every replay.
        self._shared: dict[
            tuple[int, int], tuple[Cohort | None, tuple[float, ...]]
        ] = {}
        self.settle(None)
        super().step()


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
