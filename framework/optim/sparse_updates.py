"""Updates by sparse gradients, which few optimizers make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.errors import DomainError
from ..tensor.tensor import Tensor

Update = tuple[Tensor, Tensor]
"""A parameter and its gradient."""


class SparseUpdates:
    """Base of optimizers: what becomes of sparse gradients."""

    def without_sparse(
        self, updates: Sequence[Update], group: dict[str, Any]
    ) -> Sequence[Update]:
        """Make the updates by sparse gradients, and return the others."""
        sparse = [each for each in updates if each[1].is_wrapper]
        if not sparse:
            return updates
        self.update_sparse(sparse, group)
        return [each for each in updates if not each[1].is_wrapper]

    def update_sparse(self, updates: Sequence[Update], group: dict[str, Any]) -> None:
        """Change parameters of one group by sparse gradients, if it can.

        Raises
        ------
        DomainError
            If it cannot.
        """
        raise DomainError(
            f"{type(self).__name__}: a parameter of shape"
            f" {tuple(updates[0][0].shape)} has a sparse gradient; use SparseAdam, SGD"
            " or Adagrad for it"
        )
