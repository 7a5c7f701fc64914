"""Adam of the rows that sparse gradients name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import ops
from ..base import trace_hooks
from ..base.errors import DomainError
from ..sparse.rows import added_rows, flat_rows, rows_of
from ..tensor.inplace import assign
from ..tensor.tensor import Tensor
from .adam import check_betas
from .counting import CountingOptimizer
from .optimizer import Group, Params, Update


class SparseAdam(CountingOptimizer):
    """Adam for sparse gradients: moments change in the rows that a gradient has.

    Parameters
    ----------
    params : iterable of Tensor, of dict, or of (str, Tensor)
        Dense; see `Optimizer`.
    lr : float, default 1e-3
        Learning rate.
    betas : (float, float), default (0.9, 0.999)
        Share of the earlier first and second moment that is kept.
    eps : float, default 1e-8
        Added to the root of the second moment.
    maximize : bool, default False
        Whether to go up the gradient.

    Raises
    ------
    ValueError
        If a parameter is sparse, or an option is out of range.

    Notes
    -----
    A step refuses dense gradients with `DomainError`. How many rows there are is not
    read, so nothing is waited for, and `fw.jit` replays a step.

    Examples
    --------
    >>> table = nn.Embedding(10, 3, sparse=True)
    >>> optimizer = optim.SparseAdam(table.parameters(), lr=0.1)
    >>> table(fw.tensor([1, 4])).sum().backward()
    >>> optimizer.step()
    """

    factor_count = 1
    read_anew = frozenset({"lr", "betas"})
    zeros = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)

    def check(self, group: Group) -> None:
        """Raise `ValueError` if an option of a group is out of range."""
        super().check(group)
        check_betas(self, group)
        for at, parameter in enumerate(group["params"]):
            if parameter.is_wrapper:
                raise ValueError(
                    f"SparseAdam: parameter {at} is {parameter.layout!r}; parameters"
                    " must be dense, their gradients sparse"
                )

    def factors(self, group: Group, step: int) -> tuple[float, ...]:
        """Return the step size, with both bias corrections."""
        beta1, beta2 = group["betas"]
        root = math.sqrt(1.0 - beta2**step)
        return (float(group["lr"]) * root / (1.0 - beta1**step),)

    def update_all(self, updates: Sequence[Update], group: Group) -> None:
        """Refuse dense gradients."""
        if updates:
            raise DomainError(
                "SparseAdam: a parameter of shape"
                f" {tuple(updates[0][0].shape)} has a dense gradient; use Adam for it"
            )

    def update_sparse(self, updates: Sequence[Update], group: Group) -> None:
        """Change parameters by sparse gradients."""
        rest1 = trace_hooks.changing(lambda: 1.0 - group["betas"][0])
        rest2 = trace_hooks.changing(lambda: 1.0 - group["betas"][1])
        for parameter, gradient in updates:
            (size,), state = self.count_step(parameter, group)
            grad: Any = gradient
            if not grad._nnz():
                continue
            rows, values, kept = rows_of(grad)
            moments = []
            for name, new, rest in (
                ("exp_avg", values, rest1),
                ("exp_avg_sq", values * values, rest2),
            ):
                old = ops.index_select(flat_rows(state[name], grad), 0, rows)
                change = ops.where(kept, (new - old) * rest, 0.0)
                assign(state[name], added_rows(state[name], grad, rows, change))
                moments.append(old + change)
            first, second = moments
            step = -(first / (ops.sqrt(second) + group["eps"]) * size)
            step = ops.where(kept, step, 0.0)
            assign(parameter, added_rows(parameter, grad, rows, step))
