"""Optimizers that treat a parameter as a matrix: Adafactor, Muon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ..base import trace_hooks
from ..base.dtype import bfloat16
from ..nn.divided import refuse_divided
from ..ops import clamp_min, matmul
from ..ops.elementwise.optimizer_step import ema
from ..tensor.factories import zeros_like
from ..tensor.tensor import Tensor
from .counting import CountingOptimizer, Numbers, Row
from .foreach import assign_, assign_each
from .optimizer import Group, Optimizer, Params, Update
from .state_dict import AnyShape, StateSpec

FLOAT32_EPS = 2.0**-23


class Adafactor(CountingOptimizer):
    """Adam without a first moment, whose second is kept by rows and columns.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        See `Optimizer`.
    lr : float, default 1e-2
        Bound of the relative step size.
    beta2_decay : float, default -0.8
        Power of the step count by which the share of a new gradient falls.
    eps : (float or None, float), default (None, 1e-3)
        Least root of a second moment, float32's epsilon if None, and least scale of a
        parameter.
    d : float, default 1.0
        Bound of an update's root mean square.
    weight_decay : float, default 0
        Times the learning rate and the parameter, subtracted from the parameter.
    maximize : bool, default False
        Whether to go up the gradient.
    foreach
        See `Adam`.

    Notes
    -----
    Source: Shazeer and Stern, arXiv:1804.04235.
    """

    takes_complex = False
    factor_count = 3

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        refuse_divided("Adafactor", group["params"], "Adam")
        for eps in group["eps"]:
            super().check({**group, "eps": eps or 0.0})
        if not group["beta2_decay"] <= 0 or not group["d"] >= 1:
            raise ValueError(
                f"Adafactor: beta2_decay is {group['beta2_decay']} and d is"
                f" {group['d']}; they must be at most 0 and at least 1"
            )

    def state_spec(self, group: Group) -> dict[str, type]:
        """Return the state of a group's parameters, by name and type."""
        return {
            "step": int,
            "row_var": AnyShape,
            "col_var": AnyShape,
            "variance": AnyShape,
        }

    def initial_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """Return the state of a parameter before its first step."""
        trace_hooks.once("Adafactor makes room for its state")
        shape = tuple(parameter.shape)
        if len(shape) < 2:
            return {"step": 0, "variance": zeros_like(parameter)}
        return {
            "step": 0,
            "row_var": parameter.detach().new_zeros((*shape[:-1], 1)),
            "col_var": parameter.detach().new_zeros((*shape[:-2], 1, shape[-1])),
        }

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return the share of a new gradient, decay factor, and relative step size."""
        lr = float(group["lr"])
        share = step ** group["beta2_decay"]
        return share, 1.0 - lr * group["weight_decay"], min(lr, 1.0 / math.sqrt(step))

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        share, kept, size = numbers
        least, least_scale = group["eps"]
        least = FLOAT32_EPS if least is None else least
        for value, grad, state in rows:
            scale = clamp_min(value.square().mean().sqrt(), least_scale) * size
            variance = self._variance(grad, state, share, least)
            update = variance.clamp(min=least * least).rsqrt() * grad
            length = update.square().mean().sqrt()
            scale = scale / clamp_min(length / group["d"], 1.0)
            shrunk = value * kept if group["weight_decay"] else value
            assign_(value, shrunk - update * scale)

    @staticmethod
    def _variance(
        grad: Tensor, state: dict[str, Any], share: float, least: float
    ) -> Tensor:
        """Update the second moment, and return it for each element."""
        square = grad.square()
        if grad.ndim < 2:
            assign_each(ema, [(state["variance"], square)], (share,))
            moment: Tensor = state["variance"]
            return moment
        row, column = state["row_var"], state["col_var"]
        assign_each(ema, [(row, square.mean(-1, True))], (share,))
        assign_each(ema, [(column, square.mean(-2, True))], (share,))
        estimate: Tensor = row * column / row.mean(-2, True).clamp(min=least)
        return estimate


class Muon(Optimizer):
    """Momentum whose direction is made orthogonal, for matrices inside a network.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        Matrices alone; give biases and embeddings to another optimizer.
    lr : float, default 1e-3
        Learning rate.
    weight_decay : float, default 0.1
        Times the learning rate and the parameter, subtracted from the parameter.
    momentum : float, default 0.95
        Share of the earlier direction that is kept.
    nesterov : bool, default True
        Whether to look ahead along the new direction.
    ns_coefficients : (float, float, float)
        Of the quintic iteration.
    eps : float, default 1e-7
        Least norm of a direction.
    ns_steps : int, default 5
        Iterations, computed in bfloat16.
    adjust_lr_fn : str, optional
        "original" (or None), or "match_rms_adamw".

    Raises
    ------
    ValueError
        If a parameter is no matrix, or an option is out of range.

    Notes
    -----
    Source: Jordan et al., Muon: An Optimizer for Hidden Layers in Neural
    Networks, 2024.
    """

    takes_complex = False
    replayable = True
    remembered: ClassVar[StateSpec | None] = {"momentum_buffer": Tensor}

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        refuse_divided("Muon", group["params"], "Adam")
        super().check(group)
        for parameter in group["params"]:
            if parameter.ndim != 2:
                raise ValueError(
                    f"Muon: a parameter has shape {tuple(parameter.shape)}; it must be"
                    " a matrix"
                )
        if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise ValueError(
                f"Muon: adjust_lr_fn is {group['adjust_lr_fn']!r}; it must be"
                ' "original", "match_rms_adamw" or None'
            )

    def update_all(self, updates: Sequence[Update], group: Group) -> None:
        """Change parameters by their gradients."""
        momentum = group["momentum"]
        for parameter, grad in updates:
            state = self._state.get(parameter)
            if not state:
                trace_hooks.once("Muon makes room for its state")
                state = {"momentum_buffer": zeros_like(parameter)}
                self._state[parameter] = state
            buffer = state["momentum_buffer"]
            assign_each(ema, [(buffer, grad)], (1.0 - momentum,))
            along = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
            direction = _orthogonal(along, group).to(parameter.dtype)
            shape = parameter.shape

            def size(of: tuple[int, ...] = tuple(shape)) -> float:
                return float(group["lr"]) * _ratio(of, group["adjust_lr_fn"])

            kept = trace_hooks.changing(
                lambda: 1.0 - float(group["lr"]) * group["weight_decay"]
            )
            step = direction * trace_hooks.changing(size)
            assign_(parameter, parameter * kept - step)


def _ratio(shape: tuple[int, ...], rule: str | None) -> float:
    """Return the factor of the learning rate for a matrix."""
    rows, columns = shape
    if rule == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))


def _orthogonal(matrix: Tensor, group: Group) -> Tensor:
    """Return about the nearest orthogonal matrix, by Newton and Schulz's iteration."""
    a, b, c = group["ns_coefficients"]
    x = matrix.to(bfloat16)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.T
    norm = x.float().square().sum().sqrt().to(bfloat16)
    x = x / norm.clamp(min=group["eps"])
    for _ in range(group["ns_steps"]):
        # A product and what is added to it are rounded once, as by PyTorch's addmm.
        wide = x.float()
        gram = matmul(wide, wide.T).to(bfloat16).float()
        update = (gram * b + matmul(gram, gram) * c).to(bfloat16).float()
        x = (wide * a + matmul(update, wide)).to(bfloat16)
    return x.T if tall else x
