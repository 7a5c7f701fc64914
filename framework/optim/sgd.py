"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .. import tracing
from ..tensor import Tensor
from .optimizer import Group, Optimizer, become


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

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
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

    def update(self, parameter: Tensor, grad: Tensor, group: Group) -> None:
        """Change one parameter by its gradient."""
        if group["weight_decay"]:
            grad = grad + parameter * group["weight_decay"]
        if group["momentum"]:
            grad = self._direction(parameter, grad, group)
        lr = tracing.changing(lambda: group["lr"])
        become(parameter, parameter - grad * lr)

    def _direction(self, parameter: Tensor, grad: Tensor, group: Group) -> Tensor:
        """Return where momentum leads, and remember it."""
        momentum = group["momentum"]
        state = self._state.get(parameter)
        if state is None:
            tracing.once("SGD remembers its first direction")
            buffer = grad.clone()
            self._state[parameter] = {"momentum_buffer": buffer}
        else:
            buffer = state["momentum_buffer"]
            new = buffer * momentum + grad * (1.0 - group["dampening"])
            become(buffer, new)
            buffer = new
        return grad + buffer * momentum if group["nesterov"] else buffer
