"""Parameters of which each rank of a group has a part."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .. import ops
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from ..communication.group import Group

_MARK = "_divided_among"


def mark_divided(parameter: Tensor, group: Group) -> None:
    """Say that each rank of a group has a part of a parameter."""
    if group.size > 1:
        setattr(parameter, _MARK, group)


def is_divided(parameter: Tensor) -> bool:
    """Return whether a parameter is a part."""
    return getattr(parameter, _MARK, None) is not None


def refuse_divided(where: str, parameters: Iterable[Tensor], instead: str) -> None:
    """Raise if parameters are parts, for what needs sums over all of their elements.

    Parameters
    ----------
    where : str
        What asks, for the message.
    parameters : iterable of Tensor
    instead : str
        What to use, for the message.

    Raises
    ------
    NotImplementedError
        If some are.
    """
    for each in parameters:
        if is_divided(each):
            raise NotImplementedError(
                f"{where}: a parameter of shape {tuple(each.shape)} is divided among"
                f" ranks, and the sums of each would be others; use {instead}"
            )


def group_of(where: str, parameters: Iterable[Tensor]) -> Group | None:
    """Return the group that parameters are divided among, if some are.

    Parameters
    ----------
    where : str
        What asks, for the message.
    parameters : iterable of Tensor

    Raises
    ------
    NotImplementedError
        If there are several groups.
    """
    found: Any = None
    for each in parameters:
        group = getattr(each, _MARK, None)
        if group is not None and found is not None and group is not found:
            raise NotImplementedError(
                f"{where}: some parameters are divided among ranks {found.ranks},"
                f" others among ranks {group.ranks}; they must have one group"
            )
        found = found if group is None else group
    known: Group | None = found
    return known


def norm_of_all(group: Group, whole: Tensor | None, part: Tensor, p: float) -> Tensor:
    """Return the norm of what all ranks have and of the parts of all ranks.

    Parameters
    ----------
    group : Group
        All ranks of it call this.
    whole : Tensor or None
        Norm of what is the same on all ranks, if there is any; a scalar.
    part : Tensor
        Norm of this rank's parts, all of which have gradients or none.
    p : float
        Order of the norms.

    Raises
    ------
    NotImplementedError
        If `p` is 0.
    """
    if math.isinf(p):
        most = group.all_max(part) if p > 0 else group.all_min(part)
        choose = ops.maximum if p > 0 else ops.minimum
        return most if whole is None else choose(whole, most)
    if p == 0:
        raise NotImplementedError(
            "clip_grad_norm_: norm_type is 0, which counts tensors, and some are"
            " divided among ranks; it must be another order"
        )
    total = group.all_sum(part**p)
    return (total if whole is None else whole**p + total) ** (1 / p)
