"""Averaged SGD, and resilient propagation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base import trace_hooks
from ..ops import where
from ..tensor.factories import full_like, zeros_like
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from .counting import CountingOptimizer, Numbers, Row, with_decay
from .foreach import assign_
from .optimizer import Group, Params

MOST_RATES = 1024
"""Rates that `ASGD` keeps; the oldest is dropped first."""


class ASGD(CountingOptimizer):
    """Stochastic gradient descent that also averages the parameters.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        See `Optimizer`. The averages are `state[parameter]["ax"]`.
    lr : float, default 1e-2
        Learning rate.
    lambd : float, default 1e-4
        Decay of parameters and learning rate.
    alpha : float, default 0.75
        Power of the learning rate's decay.
    t0 : float, default 1e6
        Step at which averaging begins.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    maximize : bool, default False
        Whether to go up the gradient.
    foreach, differentiable, capturable
        See `Adam`.

    Notes
    -----
    The rate of a step is computed at the end of the last one: a scheduler's learning
    rate is that of the step after the next, as in PyTorch.

    Source: Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging,
    1992.
    """

    zeros = ("ax",)
    factor_count = 3

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        # By group and step: rates of the steps after those, as each step leaves them.
        self._rates: dict[tuple[int, int], float] = {}
        super().__init__(params, defaults)

    def state_spec(self, group: Group) -> dict[str, type]:
        """Return the state of a group's parameters, by name and type."""
        return {**super().state_spec(group), "eta": float, "mu": float}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load state and options; see `Optimizer.load_state_dict`."""
        super().load_state_dict(state_dict)
        rates = {}
        for at, group in enumerate(state_dict["param_groups"]):
            for number in group["params"]:
                entry = state_dict["state"].get(number, {})
                if "eta" in entry:
                    rates[at, int(entry["step"])] = float(entry["eta"])
        self._rates = rates

    def derived_state(self, state: Mapping[str, Any], group: Group) -> dict[str, Any]:
        """Return learning rate and share of the next step, which PyTorch keeps."""
        step = state["step"]
        eta = self._rates.get((self._number_of(group), step))
        mu = 1.0 / max(1.0, step - group["t0"])
        eta = self._rate_after(group, step) if eta is None else eta
        return {"eta": tensor(eta), "mu": tensor(mu)}

    def _number_of(self, group: Group) -> int:
        (found,) = [at for at, each in enumerate(self.param_groups) if each is group]
        return found

    def _rate_after(self, group: Group, step: int) -> float:
        """Return the rate of the step after one, by the learning rate of now."""
        lr = float(group["lr"])
        found: float = lr / (1.0 + group["lambd"] * lr * step) ** group["alpha"]
        return found

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return decay factor, learning rate, and share of a step in the average."""
        number, before = self._number_of(group), step - 1
        eta = self._rates.get((number, before)) if before else float(group["lr"])
        if eta is None:
            eta = self._rate_after(group, before)
        self._rates[number, step] = self._rate_after(group, step)
        # Parameters may have made fewer steps; as a rule the last two are asked for.
        while len(self._rates) > MOST_RATES:
            del self._rates[next(iter(self._rates))]
        mu = 1.0 / max(1.0, before - group["t0"])
        return 1.0 - group["lambd"] * eta, eta, mu

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        kept, eta, mu = numbers
        for value, grad, state in with_decay(rows, group["weight_decay"]):
            new = value * kept - grad * eta
            average = state["ax"]
            assign_(average, average + (new - average) * mu)
            assign_(value, new)


class Rprop(CountingOptimizer):
    """Resilient propagation: steps that depend on the signs of gradients alone.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        See `Optimizer`.
    lr : float, default 1e-2
        First step size.
    etas : (float, float), default (0.5, 1.2)
        Factors of a step size where the sign has changed, and where it has not.
    step_sizes : (float, float), default (1e-6, 50)
        Smallest and largest step size.
    maximize : bool, default False
        Whether to go up the gradient.
    capturable, foreach, differentiable
        See `Adam`.

    Notes
    -----
    Source: Riedmiller and Braun, A Direct Adaptive Method for Faster Backpropagation
    Learning, 1993.
    """

    zeros = ("prev", "step_size")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        low, high = group["etas"]
        if not 0.0 < low < 1.0 < high:
            raise ValueError(
                f"Rprop: etas are {group['etas']}; the first must be between 0 and 1,"
                " the second above 1"
            )

    def initial_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """Return the state of a parameter before its first step."""
        trace_hooks.once(f"{self._name} makes room for its state")
        sizes = full_like(parameter.detach(), float(group["lr"]))
        return {"step": 0, "prev": zeros_like(parameter), "step_size": sizes}

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return nothing that changes."""
        return (0.0,)

    def apply(self, rows: Sequence[Row], numbers: Numbers, group: Group) -> None:
        """Update parameters that have made as many steps."""
        (low, high), (least, most) = group["etas"], group["step_sizes"]
        for value, grad, state in rows:
            agreed = grad * state["prev"]
            factor = where(agreed > 0, high, where(agreed < 0, low, 1.0))
            size = (state["step_size"] * factor).clamp(least, most)
            kept = where(agreed < 0, 0.0, grad)
            assign_(value, value - kept.sign() * size)
            assign_(state["step_size"], size)
            # A copy: gradients are the caller's.
            assign_(state["prev"], kept)
