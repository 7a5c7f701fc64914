"""Optimizers that divide by the root of summed squares: RMSprop, Adagrad, Adadelta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..base import trace_hooks
from ..base.errors import DomainError
from ..ops.elementwise.optimizer_step import (
    ema,
    root_scaled_step,
    root_scaled_sum,
    sgd_step,
    weighted_sum_square,
)
from ..sparse.rows import added_rows, flat_rows, rows_of
from ..tensor.factories import full_like
from ..tensor.inplace import assign
from ..tensor.tensor import Tensor
from .counting import CountingOptimizer, Numbers, Row, with_decay
from .foreach import assign_each
from .optimizer import Group, Params, Update


class RMSprop(CountingOptimizer):
    """Gradient descent scaled by a running mean of squared gradients.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        See `Optimizer`.
    lr : float, default 1e-2
        Learning rate.
    alpha : float, default 0.99
        Share of the earlier mean that is kept.
    eps : float, default 1e-8
        Added to the root.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    momentum : float, default 0
        Share of the earlier direction that is kept.
    centered : bool, default False
        Whether the squared mean of the gradients is subtracted.
    maximize : bool, default False
        Whether to go up the gradient.
    capturable, foreach, differentiable
        See `Adam`.

    Notes
    -----
    Source: Tieleman and Hinton, Lecture 6.5 of Neural Networks for Machine Learning,
    2012; centered: Graves, arXiv:1308.0850.
    """

    switches = frozenset({"momentum"})

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        if not group["alpha"] >= 0:
            raise ValueError(
                f"RMSprop: alpha is {group['alpha']}; it must be at least 0"
            )

    def zeros_of(self, group: Group) -> Sequence[str]:
        """Return the names of state tensors that begin as zeros."""
        names = ["square_avg"]
        names += ["momentum_buffer"] if group["momentum"] else []
        return names + (["grad_avg"] if group["centered"] else [])

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return the learning rate."""
        return (float(group["lr"]),)

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        rows = with_decay(rows, group["weight_decay"])
        alpha, eps = group["alpha"], group["eps"]
        squares = [(state["square_avg"], grad) for _, grad, state in rows]
        assign_each(weighted_sum_square, squares, (alpha, 1.0 - alpha))
        scales = [state["square_avg"] for _, _, state in rows]
        if group["centered"]:
            means = [(state["grad_avg"], grad) for _, grad, state in rows]
            assign_each(ema, means, (1.0 - alpha,))
            scales = [scale - mean * mean for scale, (mean, _) in zip(scales, means)]
        (lr,) = numbers
        if not group["momentum"]:
            steps = [(*row[:2], scale) for row, scale in zip(rows, scales)]
            assign_each(root_scaled_step, steps, (eps, lr))
            return
        buffers = [
            (state["momentum_buffer"], grad, scale)
            for (_, grad, state), scale in zip(rows, scales)
        ]
        momentum = trace_hooks.changing(lambda: float(group["momentum"]))
        assign_each(root_scaled_sum, buffers, (momentum, eps))
        along = [(value, state["momentum_buffer"]) for value, _, state in rows]
        assign_each(sgd_step, along, (lr,))


class Adagrad(CountingOptimizer):
    """Gradient descent scaled by the sum of all squared gradients.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        See `Optimizer`.
    lr : float, default 1e-2
        Learning rate.
    lr_decay : float, default 0
        The learning rate is divided by 1 plus this times the steps before.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    initial_accumulator_value : float, default 0
        What sums begin with.
    eps : float, default 1e-10
        Added to the root.
    maximize : bool, default False
        Whether to go up the gradient.
    foreach, differentiable, fused
        See `Adam`.

    Notes
    -----
    Source: Duchi, Hazan and Singer, Adaptive Subgradient Methods for Online Learning
    and Stochastic Optimization, 2011.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        # As in PyTorch, sums are there before the first step.
        for group in self.param_groups:
            for parameter in group["params"]:
                self._state[parameter] = self.initial_state(parameter, group)

    zeros = ("sum",)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        for name in ("lr_decay", "initial_accumulator_value"):
            if not group[name] >= 0:
                raise ValueError(
                    f"Adagrad: {name} is {group[name]}; it must be at least 0"
                )

    def initial_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """Return the state of a parameter before its first step."""
        trace_hooks.once(f"{self._name} makes room for its state")
        start = group["initial_accumulator_value"]
        return {"step": 0, "sum": full_like(parameter.detach(), start)}

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return the learning rate of a step."""
        return (float(group["lr"]) / (1.0 + (step - 1) * group["lr_decay"]),)

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        rows = with_decay(rows, group["weight_decay"])
        squares = [(state["sum"], grad) for _, grad, state in rows]
        assign_each(weighted_sum_square, squares, (1.0, 1.0))
        steps = [(value, grad, state["sum"]) for value, grad, state in rows]
        assign_each(root_scaled_step, steps, (group["eps"], *numbers))

    def update_sparse(self, updates: Sequence[Update], group: Group) -> None:
        """Change the rows of parameters that sparse gradients name."""
        if group["weight_decay"]:
            raise DomainError(
                f"Adagrad: weight_decay is {group['weight_decay']} and a gradient"
                " sparse; it must be 0 then"
            )
        for parameter, gradient in updates:
            grad: Any = gradient
            (size,), state = self.count_step(parameter, group)
            if not grad._nnz():
                continue
            rows, values, kept = rows_of(grad)
            squares = ops.where(kept, values * values, 0.0)
            assign(state["sum"], added_rows(state["sum"], grad, rows, squares))
            total = ops.index_select(flat_rows(state["sum"], grad), 0, rows)
            step = -(values / (ops.sqrt(total) + group["eps"]) * size)
            step = ops.where(kept, step, 0.0)
            assign(parameter, added_rows(parameter, grad, rows, step))


class Adadelta(CountingOptimizer):
    """Gradient descent whose steps have the size of the steps before.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        See `Optimizer`.
    lr : float, default 1.0
        Learning rate.
    rho : float, default 0.9
        Share of the earlier means that is kept.
    eps : float, default 1e-6
        Added to the means under their roots.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    maximize : bool, default False
        Whether to go up the gradient.
    foreach, capturable, differentiable
        See `Adam`.

    Notes
    -----
    Source: Zeiler, arXiv:1212.5701.
    """

    zeros = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        if not 0 <= group["rho"] <= 1:
            raise ValueError(f"Adadelta: rho is {group['rho']}; it must be from 0 to 1")

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return the learning rate."""
        return (float(group["lr"]),)

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        rows = with_decay(rows, group["weight_decay"])
        rho, eps = group["rho"], group["eps"]
        squares = [(state["square_avg"], grad) for _, grad, state in rows]
        assign_each(weighted_sum_square, squares, (rho, 1.0 - rho))
        deltas = [
            (state["acc_delta"] + eps).sqrt()
            / (state["square_avg"] + eps).sqrt()
            * grad
            for _, grad, state in rows
        ]
        sums = [(state["acc_delta"], each) for (_, _, state), each in zip(rows, deltas)]
        assign_each(weighted_sum_square, sums, (rho, 1.0 - rho))
        along = [(value, each) for (value, _, _), each in zip(rows, deltas)]
        assign_each(sgd_step, along, numbers)
