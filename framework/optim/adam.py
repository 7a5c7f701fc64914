"""Adam, and its variant with decoupled weight decay."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ..creation import zeros_like
from ..tensor import Tensor
from .optimizer import Group, Optimizer


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
        lr, decay = group["lr"], group["weight_decay"]
        value: Tensor = parameter
        if decay and self.decoupled:
            value = value * (1.0 - lr * decay)
        elif decay:
            grad = grad + value * decay
        state = self._moments(parameter, grad, group["betas"])
        correction1, correction2 = (
            1.0 - beta ** state["step"] for beta in group["betas"]
        )
        root = state["exp_avg_sq"].sqrt() * (1.0 / math.sqrt(correction2))
        change = state["exp_avg"] / (root + group["eps"])
        parameter.copy_(value - change * (lr / correction1))

    def _moments(
        self, parameter: Tensor, grad: Tensor, betas: tuple[float, float]
    ) -> dict[str, Any]:
        """Return the step's number and the moments of the gradient, and keep them."""
        state = self.state.get(parameter)
        if state is None:
            zeros = zeros_like(parameter)
            state = {"step": 0, "exp_avg": zeros, "exp_avg_sq": zeros}
        first, second = state["exp_avg"], state["exp_avg_sq"]
        state = {
            "step": state["step"] + 1,
            "exp_avg": first + (grad - first) * (1.0 - betas[0]),
            "exp_avg_sq": second * betas[1] + grad * grad * (1.0 - betas[1]),
        }
        self.state[parameter] = state
        return state


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
