"""Relatives of Adam: Adamax, NAdam, RAdam, LAMB, Lion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..base import trace_hooks
from ..nn.divided import refuse_divided
from ..ops import maximum, where
from ..ops.elementwise.optimizer_step import (
    adam_step,
    ema,
    sgd_step,
)
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from .adam import TINY, check_betas, update_moments
from .counting import CountingOptimizer, Numbers, Row, with_decay
from .foreach import assign_, assign_each
from .optimizer import Group, Params

MOST_PRODUCTS = 1000
"""Products of momentums that NAdam keeps of a group; others it computes anew."""


class _Moments(CountingOptimizer):
    """Optimizer with a first and a second moment, as Adam's."""

    zeros = ("exp_avg", "exp_avg_sq")
    read_anew = frozenset({"lr", "betas"})

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        check_betas(self, group)


def _shrunk(rows: Sequence[Row], kept: float | Tensor) -> None:
    """Multiply parameters by what decoupled weight decay leaves of them."""
    for value, _, _ in rows:
        assign_(value, value * kept)


class Adamax(CountingOptimizer):
    """Adam with the largest gradient in place of the second moment.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        See `Optimizer`.
    lr : float, default 2e-3
        Learning rate.
    betas : (float, float), default (0.9, 0.999)
        Share of the earlier moment and of the earlier largest gradient that is kept.
    eps : float, default 1e-8
        Added to the size of each gradient.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    maximize : bool, default False
        Whether to go up the gradient.
    foreach, differentiable, capturable
        See `Adam`.

    Notes
    -----
    Source: Kingma and Ba, arXiv:1412.6980, section 7.1.
    """

    zeros = ("exp_avg", "exp_inf")

    read_anew = frozenset({"lr", "betas"})

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        check_betas(self, group)

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return the step size."""
        return (float(group["lr"]) / (1.0 - group["betas"][0] ** step),)

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        rows = with_decay(rows, group["weight_decay"])
        rest1 = trace_hooks.changing(lambda: 1.0 - group["betas"][0])
        beta2 = trace_hooks.changing(lambda: group["betas"][1])
        firsts = [(state["exp_avg"], grad) for _, grad, state in rows]
        assign_each(ema, firsts, (rest1,))
        along = []
        for value, grad, state in rows:
            largest = state["exp_inf"]
            assign_(largest, maximum(largest * beta2, grad.abs() + group["eps"]))
            along.append((value, state["exp_avg"] / largest))
        assign_each(sgd_step, along, numbers)


class NAdam(_Moments):
    """Adam with Nesterov's momentum.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        See `Optimizer`.
    lr : float, default 2e-3
        Learning rate.
    betas : (float, float), default (0.9, 0.999)
        Share of the earlier first and second moment that is kept.
    eps : float, default 1e-8
        Added to the root of the second moment.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    momentum_decay : float, default 4e-3
        How fast momentum rises to its full value.
    decoupled_weight_decay : bool, default False
        Whether to decay as `AdamW`.
    maximize : bool, default False
        Whether to go up the gradient.
    foreach, capturable, differentiable
        See `Adam`.

    Notes
    -----
    Source: Dozat, Incorporating Nesterov Momentum into Adam, 2016.
    """

    factor_count = 4

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        # Products of all momentums so far, by group and step.
        self._products: dict[int, dict[int, float]] = {}
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        if not group["momentum_decay"] >= 0:
            raise ValueError(
                f"NAdam: momentum_decay is {group['momentum_decay']}; it must be at"
                " least 0"
            )

    def state_spec(self, group: Group) -> dict[str, type]:
        """Return the state of a group's parameters, by name and type."""
        return {**super().state_spec(group), "mu_product": float}

    def derived_state(self, state: Mapping[str, Any], group: Group) -> dict[str, Any]:
        """Return the product of all momentums, which PyTorch keeps."""
        return {"mu_product": tensor(self._product(group, state["step"]))}

    def _momentum(self, group: Group, step: int) -> float:
        shrunk: float = 0.5 * 0.96 ** (step * group["momentum_decay"])
        return float(group["betas"][0]) * (1.0 - shrunk)

    def _product(self, group: Group, step: int) -> float:
        """Return the product of the momentums up to a step."""
        number = next(k for k, each in enumerate(self.param_groups) if each is group)
        known = self._products.setdefault(number, {0: 1.0})
        if step not in known:
            at = step - 1 if step - 1 in known else 0
            product = known.get(at, 1.0)
            while at < step:
                at += 1
                product *= self._momentum(group, at)
            known[step] = product
            if len(known) > MOST_PRODUCTS:
                del known[next(iter(known))]
        return known[step]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load state and options, and the products of momentums; see `Optimizer`."""
        super().load_state_dict(state_dict)
        self._products = {
            number: {
                int(entry["step"]): float(entry["mu_product"])
                for entry in map(state_dict["state"].get, group["params"])
                if entry and "mu_product" in entry
            }
            for number, group in enumerate(state_dict["param_groups"])
        }

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return decay, and shares of gradient and moment; root of a correction."""
        lr, beta2 = float(group["lr"]), group["betas"][1]
        now, following = self._momentum(group, step), self._momentum(group, step + 1)
        product = self._product(group, step)
        decoupled = group["decoupled_weight_decay"]
        decay = lr * group["weight_decay"] if decoupled else 0.0
        return (
            1.0 - decay,
            lr * (1.0 - now) / (1.0 - product),
            lr * following / (1.0 - product * following),
            1.0 / math.sqrt(1.0 - beta2**step),
        )

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        kept, of_grad, of_moment, root_scale = numbers
        if not group["decoupled_weight_decay"]:
            rows = with_decay(rows, group["weight_decay"])
        update_moments(rows, group)
        steps = [
            (value, grad * of_grad + state["exp_avg"] * of_moment, state["exp_avg_sq"])
            for value, grad, state in rows
        ]
        assign_each(adam_step, steps, (kept, root_scale, group["eps"], 1.0))


class RAdam(_Moments):
    """Adam whose adaptive step begins once the second moment can be trusted.

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
    decoupled_weight_decay : bool, default False
        Whether to decay as `AdamW`.
    maximize : bool, default False
        Whether to go up the gradient.
    foreach, capturable, differentiable
        See `Adam`.

    Notes
    -----
    Source: Liu et al., arXiv:1908.03265.
    """

    factor_count = 3

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return decay factor, and step sizes with and without the second moment.

        One of the two sizes is 0.
        """
        lr, (beta1, beta2) = float(group["lr"]), group["betas"]
        decoupled = group["decoupled_weight_decay"]
        decay = lr * group["weight_decay"] if decoupled else 0.0
        size, rest = lr / (1.0 - beta1**step), 1.0 - beta2**step
        most = 2.0 / (1.0 - beta2) - 1.0
        length = most - 2.0 * step * beta2**step / rest
        if length <= 5.0:
            return 1.0 - decay, 0.0, size
        rectified = math.sqrt(
            (length - 4.0)
            * (length - 2.0)
            * most
            / ((most - 4.0) * (most - 2.0) * length)
        )
        return 1.0 - decay, size * rectified * math.sqrt(rest), 0.0

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        kept, adaptive, plain = numbers
        if not group["decoupled_weight_decay"]:
            rows = with_decay(rows, group["weight_decay"])
        update_moments(rows, group)
        steps = [
            (value, state["exp_avg"], state["exp_avg_sq"]) for value, _, state in rows
        ]
        # Without the second moment there may be none: 0 / 0 would be no 0.
        eps = max(group["eps"], TINY)
        assign_each(adam_step, steps, (kept, 1.0, eps, adaptive))
        assign_each(sgd_step, [each[:2] for each in steps], (plain,))


class LAMB(_Moments):
    """Adam with steps in proportion to the norm of each parameter.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        See `Optimizer`; PyTorch does not have this one.
    lr : float, default 1e-3
        Learning rate.
    betas : (float, float), default (0.9, 0.999)
        Share of the earlier first and second moment that is kept.
    eps : float, default 1e-6
        Added to the root of the second moment.
    weight_decay : float, default 0
        Times the parameter, added to the direction.
    maximize : bool, default False
        Whether to go up the gradient.

    Notes
    -----
    Where a norm is 0 the step is not scaled. Source: You et al., arXiv:1904.00962.
    """

    factor_count = 3

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise also if a parameter is divided among ranks: its norm is that of all."""
        refuse_divided("LAMB", group["params"], "Adam")
        super().check(group)

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return the corrections of both moments, and the learning rate."""
        beta1, beta2 = group["betas"]
        first = 1.0 / (1.0 - beta1**step)
        return first, 1.0 / math.sqrt(1.0 - beta2**step), float(group["lr"])

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        first, root_scale, lr = numbers
        update_moments(rows, group)
        along = []
        for value, _, state in rows:
            scale = state["exp_avg_sq"].sqrt() * root_scale + group["eps"]
            direction = state["exp_avg"] * first / scale
            if group["weight_decay"]:
                direction = direction + value * group["weight_decay"]
            own, length = value.square().sum().sqrt(), direction.square().sum().sqrt()
            known = (own > 0) & (length > 0)
            ratio = where(known, own / where(known, length, 1.0), 1.0)
            along.append((value, direction * ratio))
        assign_each(sgd_step, along, (lr,))


class Lion(CountingOptimizer):
    """Descent along the sign of a moment.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        See `Optimizer`; PyTorch does not have this one.
    lr : float, default 1e-4
        Learning rate.
    betas : (float, float), default (0.9, 0.99)
        Shares of the earlier moment, in the direction and in the moment.
    weight_decay : float, default 0
        Times the learning rate and the parameter, subtracted from the parameter.
    maximize : bool, default False
        Whether to go up the gradient.

    Notes
    -----
    Source: Chen et al., arXiv:2302.06675.
    """

    zeros = ("exp_avg",)
    factor_count = 2

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        check_betas(self, group)

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return decay factor and learning rate."""
        lr = float(group["lr"])
        return 1.0 - lr * group["weight_decay"], lr

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        kept, lr = numbers
        beta1, beta2 = group["betas"]
        along = [
            (value, (state["exp_avg"] * beta1 + grad * (1.0 - beta1)).sign())
            for value, grad, state in rows
        ]
        if group["weight_decay"]:
            _shrunk(rows, kept)
        assign_each(sgd_step, along, (lr,))
        firsts = [(state["exp_avg"], grad) for _, grad, state in rows]
        assign_each(ema, firsts, (1.0 - beta2,))
