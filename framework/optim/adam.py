"""Adam, and its variant with decoupled weight decay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from ..base import trace_hooks
from ..ops import maximum
from ..ops.elementwise.optimizer_step import (
    adam_step,
    adam_step_capturable,
    ema,
    weighted_sum_square,
)
from ..tensor.factories import zeros
from ..tensor.tensor import Tensor
from .counting import CountingOptimizer, Numbers, Row, with_decay
from .foreach import assign_each
from .found_inf import SKIPPED
from .optimizer import Group, Params
from .step_counter import DeferredStepCounter

TINY = 1e-30
"""In place of a beta of 0, which has no logarithm; a float32 sees no difference."""


class Adam(CountingOptimizer):
    """Gradient descent scaled by running moments of the gradient.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        See `Optimizer`.
    lr : float, default 1e-3
        Learning rate.
    betas : (float, float), default (0.9, 0.999)
        Share of the earlier first and second moment that is kept.
    eps : float, default 1e-8
        Added to the root of the second moment.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    amsgrad : bool, default False
        Whether the largest second moment so far takes the place of the second moment.
    maximize : bool, default False
        Whether to go up the gradient.
    decoupled_weight_decay : bool, default False
        Whether to decay as `AdamW`.
    foreach, capturable, differentiable, fused
        PyTorch's; without effect, as parameters share kernels and steps are replayed
        whatever they are. `differentiable` must be False.

    Notes
    -----
    Source: Kingma and Ba, arXiv:1412.6980; Reddi et al., arXiv:1904.09237.
    """

    counts_skips = True
    factor_count = 3
    read_anew = frozenset({"lr", "betas"})
    _new_skip_counter: Tensor | None = None

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        check_betas(self, group)

    def zeros_of(self, group: Group) -> Sequence[str]:
        """Return the names of state tensors that begin as zeros."""
        moments = ["exp_avg", "exp_avg_sq"]
        return [*moments, "max_exp_avg_sq"] if group["amsgrad"] else moments

    def note_skips(self, state: dict[str, Any]) -> None:
        """Prepare a parameter's state for a step that may be skipped."""
        if self.skip is not None and SKIPPED not in state:
            state[SKIPPED] = self._skip_counter()

    def numbers_key(self, state: dict[str, Any]) -> object:
        """Return what beside the step count tells the numbers of parameters apart."""
        return id(state.get(SKIPPED))

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        if not group["decoupled_weight_decay"]:
            rows = with_decay(rows, group["weight_decay"])
        update_moments(rows, group)
        second = "exp_avg_sq"
        if group["amsgrad"]:
            second = "max_exp_avg_sq"
            largest = [(state[second], state["exp_avg_sq"]) for _, _, state in rows]
            assign_each(maximum, largest, ())
        values = [(value, state["exp_avg"], state[second]) for value, _, state in rows]
        _apply_moments(values, numbers, group["eps"])

    def _skip_counter(self) -> Tensor:
        """Return the skip counter of parameters whose state this step initialises."""
        if self._new_skip_counter is None:
            assert self.skip is not None
            trace_hooks.once(f"{self._name} makes room to count what it skips")
            self._new_skip_counter = zeros((), device=self.skip.device)
        return self._new_skip_counter

    def read(
        self, group: Group, state: dict[str, Any]
    ) -> tuple[DeferredStepCounter | None, Numbers]:
        """Return the numbers of a step, with the counter of a trace."""
        skipped: Tensor | None = state.get(SKIPPED)
        if skipped is None:
            return super().read(group, state)
        step_counter, (kept, count, lr) = self.read_factors(
            self.uncorrected, group, state["step"], 3
        )
        made = count - skipped
        # 1 - beta ** made, where made is known to the device alone.
        first, second = (
            -(made * trace_hooks.changing(partial(_log_beta, group, k))).expm1()
            for k in range(2)
        )
        return step_counter, (kept, second.rsqrt(), lr / first)

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return decay factor, bias correction of the second moment, and step size."""
        kept, _, lr = self.uncorrected(group, step)
        beta1, beta2 = group["betas"]
        return kept, 1.0 / math.sqrt(1.0 - beta2**step), lr / (1.0 - beta1**step)

    def uncorrected(self, group: Group, step: int) -> tuple[float, ...]:
        """Return decay factor, step count and learning rate."""
        lr = float(group["lr"])
        decoupled = group["decoupled_weight_decay"]
        decay = lr * group["weight_decay"] if decoupled else 0.0
        return 1.0 - decay, float(step), lr

    def begin(self) -> None:
        """Prepare a step on the slow path."""
        self._new_skip_counter = None
        super().begin()


def update_moments(rows: Sequence[Row], group: Group) -> None:
    """Update the running first and second moment of gradients."""
    rest1 = trace_hooks.changing(lambda: 1.0 - group["betas"][0])
    beta2 = trace_hooks.changing(lambda: group["betas"][1])
    rest2 = trace_hooks.changing(lambda: 1.0 - group["betas"][1])
    firsts = [(state["exp_avg"], grad) for _, grad, state in rows]
    assign_each(ema, firsts, (rest1,))
    seconds = [(state["exp_avg_sq"], grad) for _, grad, state in rows]
    assign_each(weighted_sum_square, seconds, (beta2, rest2))


def _log_beta(group: Group, number: int) -> float:
    return math.log(max(group["betas"][number], TINY))


def check_betas(optimizer: object, group: Group) -> None:
    """Raise `ValueError` if a share of a moment is out of range."""
    if len({isinstance(beta, Tensor) for beta in group["betas"]}) > 1:
        raise ValueError(
            f"{type(optimizer).__name__}: betas are {group['betas']}; both must be"
            " numbers, or both tensors"
        )
    if not all(0.0 <= beta < 1.0 for beta in group["betas"]):
        raise ValueError(
            f"{type(optimizer).__name__}: betas are {group['betas']};"
            " both must be at least 0 and below 1"
        )


def _apply_moments(
    values: Sequence[tuple[Tensor, Tensor, Tensor]], numbers: Numbers, eps: float
) -> None:
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
    params, lr, betas, eps, amsgrad
        See `Adam`.
    weight_decay : float, default 1e-2
        Times the learning rate and the parameter, subtracted from the parameter.
    maximize, foreach, capturable, differentiable, fused
        See `Adam`.

    Notes
    -----
    Source: Loshchilov and Hutter, arXiv:1711.05101.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
