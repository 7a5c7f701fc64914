"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..base import trace_hooks
from ..base.errors import DomainError
from ..ops.elementwise.optimizer_step import sgd_step, weighted_sum
from ..sparse.places import keys_of
from ..sparse.rows import added_rows
from ..tensor.inplace import assign
from ..tensor.tensor import Tensor
from .foreach import assign_each
from .optimizer import Group, Optimizer, Params, Update
from .state_dict import StateSpec


class SGD(Optimizer):
    """Stochastic gradient descent with momentum.

    Parameters
    ----------
    params : iterable of Tensor, or of dict
        See `Optimizer`.
    lr : float, default 1e-3
        Learning rate.
    momentum : float, default 0
        Share of the earlier direction that is kept.
    dampening : float, default 0
        Share of the gradient that does not enter the direction.
    weight_decay : float, default 0
        Times the parameter, added to the gradient.
    nesterov : bool, default False
        Look ahead along the new direction; needs momentum and no dampening.
    maximize : bool, default False
        Whether to go up the gradient.
    foreach, differentiable, fused
        See `Adam`.

    Notes
    -----
    Source: Sutskever et al., "On the importance of initialization and momentum in deep
    learning", ICML 2013; the learning rate stands outside the momentum, as in PyTorch.

    Examples
    --------
    >>> x = fw.tensor([4.0], requires_grad=True)
    >>> optimizer = optim.SGD([x], lr=0.25)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.tolist()
    [2.0]
    """

    replayable = True
    switches = frozenset({"momentum"})
    remembered: ClassVar[StateSpec | None] = {"momentum_buffer": Tensor}

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError(
                f"SGD: nesterov with momentum {group['momentum']} and dampening"
                f" {group['dampening']}; it needs momentum above 0 and dampening 0"
            )

    def update_all(self, updates: Sequence[Update], group: Group) -> None:
        """Change parameters by their gradients."""
        decay = group["weight_decay"]
        if decay:
            updates = [(value, grad + value * decay) for value, grad in updates]
        if group["momentum"]:
            updates = self._directions(updates, group)
        lr = trace_hooks.changing(lambda: float(group["lr"]))
        assign_each(sgd_step, updates, (lr,))

    def update_sparse(self, updates: Sequence[Update], group: Group) -> None:
        """Change parameters by sparse gradients; momentum is sparse as well."""
        if group["weight_decay"]:
            raise DomainError(
                f"SGD: weight_decay is {group['weight_decay']} and a gradient sparse;"
                " it must be 0 then, as the decay is dense"
            )
        lr = trace_hooks.changing(lambda: float(group["lr"]))
        for parameter, gradient in updates:
            grad: Any = gradient
            if group["momentum"]:
                grad = self._sparse_direction(parameter, grad, group)
            rows = keys_of(grad.places, grad.sizes)
            assign(parameter, added_rows(parameter, grad, rows, -(grad.elements * lr)))

    def _sparse_direction(self, parameter: Tensor, grad: Any, group: Group) -> Any:
        """Return the momentum update of a parameter, and store its buffer."""
        trace_hooks.once("SGD has a sparse momentum, which grows")
        momentum = float(group["momentum"])
        state = self._state.get(parameter)
        if not state:
            buffer = grad.clone()
        else:
            buffer = state["momentum_buffer"] * momentum
            buffer = (buffer + grad * (1.0 - group["dampening"])).coalesce()
        self._state[parameter] = {"momentum_buffer": buffer}
        return grad + buffer * momentum if group["nesterov"] else buffer

    def _directions(self, updates: Sequence[Update], group: Group) -> Sequence[Update]:
        """Return the momentum updates, and store their buffers."""
        momentum = trace_hooks.changing(lambda: float(group["momentum"]))
        rows, buffers = [], []
        for parameter, grad in updates:
            state = self._state.get(parameter)
            if not state:
                trace_hooks.once("SGD remembers its first direction")
                state = self._state[parameter] = {"momentum_buffer": grad.clone()}
            else:
                rows.append((state["momentum_buffer"], grad))
            buffers.append(state["momentum_buffer"])
        assign_each(weighted_sum, rows, (momentum, 1.0 - group["dampening"]))
        along = [(value, buffer) for (value, _), buffer in zip(updates, buffers)]
        if not group["nesterov"]:
            return along
        return [
            (value, grad + buffer * momentum)
            for (value, grad), buffer in zip(updates, buffers)
        ]
