"""Parameters of which each rank of a group has a part."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import ops
from ..tensor.tensor import Tensor

if TYPE_CHECKING:
    from ..communication.group import Group

_marks: dict[int, tuple[weakref.ref[Tensor], Group, TensorShard]] = {}
"""Group and part of each parameter that is a part, by its `id`.

No attributes of the parameters, which guards of traces would look at.
"""


_staged: weakref.WeakValueDictionary[int, Tensor] = weakref.WeakValueDictionary()
"""Parameters of one stage of a pipeline alone, by their `id`."""


@dataclass(frozen=True)
class TensorShard:
    """Which elements of a whole tensor a rank has.

    Parameters
    ----------
    shape : tuple of int
        Of the whole.
    dim : int or None
        Dimension that is divided; None where the whole is taken as one of one
        dimension, in row-major order.
    ranges : tuple of (int, int)
        The first place in that dimension, and the end, of each piece of the part: one
        piece, or of projections side by side one of each.
    """

    shape: tuple[int, ...]
    dim: int | None
    ranges: tuple[tuple[int, int], ...]

    def of(self, whole: Any) -> Any:
        """Return the part of a whole tensor or array; a view if it is one piece."""
        found = self._pieces(whole)
        if len(found) == 1:
            return found[0]
        if isinstance(whole, np.ndarray):
            return np.concatenate(found, self.dim or 0)
        return ops.cat(found, self.dim or 0)

    def put(self, whole: np.ndarray, part: np.ndarray) -> None:
        """Write the part to a whole array, of contiguous memory."""
        values, at = part.reshape(self.own_shape), 0
        lead = (slice(None),) * (self.dim or 0)
        for piece, (low, high) in zip(self._pieces(whole), self.ranges):
            piece[...] = values[(*lead, slice(at, at + high - low))]
            at += high - low

    def _pieces(self, whole: Any) -> list[Any]:
        flat = whole.reshape(-1) if self.dim is None else whole
        lead = (slice(None),) * (self.dim or 0)
        return [flat[(*lead, slice(low, high))] for low, high in self.ranges]

    @property
    def sizes(self) -> list[int]:
        """How long the pieces are."""
        return [high - low for low, high in self.ranges]

    @property
    def own_shape(self) -> tuple[int, ...]:
        """Shape of the part."""
        count = sum(self.sizes)
        if self.dim is None:
            return (count,)
        return (*self.shape[: self.dim], count, *self.shape[self.dim + 1 :])


def mark_divided(parameter: Tensor, group: Group, part: TensorShard) -> None:
    """Say that each rank of a group has a part of a parameter, and which this one."""
    key = id(parameter)
    known = _marks.get(key)
    if known is None or known[0]() is not parameter:
        reference = weakref.ref(parameter, lambda _: _marks.pop(key, None))
        _marks[key] = reference, group, part
    elif known[1] is not group or known[2] != part:
        _marks[key] = known[0], group, part


def _mark_of(parameter: Tensor) -> tuple[Group, TensorShard] | None:
    known = _marks.get(id(parameter))
    return None if known is None or known[0]() is not parameter else known[1:]


def part_of(parameter: Tensor) -> TensorShard | None:
    """Return which part of a whole a parameter is, None if it is whole."""
    known = _mark_of(parameter)
    return None if known is None else known[1]


def copy_mark(source: Tensor, target: Tensor) -> None:
    """Say that a tensor is the part of a whole that another one is, if it is one."""
    known = _mark_of(source)
    if known is not None:
        mark_divided(target, *known)


def owner_of(tensors: Iterable[Tensor]) -> Group | None:
    """Return the group that has the whole of the first tensor that is a part."""
    marks = (_mark_of(each) for each in tensors)
    return next((mark[0] for mark in marks if mark is not None), None)


def is_divided(parameter: Tensor) -> bool:
    """Return whether a parameter is a part, and other ranks have the rest."""
    known = _mark_of(parameter)
    return known is not None and known[0].size > 1


def mark_staged(parameters: Iterable[Tensor]) -> None:
    """Say that other ranks have other parameters in the place of these."""
    _staged.update({id(each): each for each in parameters})


def is_staged(parameter: Tensor) -> bool:
    """Return whether other ranks have other parameters in the place of one."""
    return _staged.get(id(parameter)) is parameter


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
        known_mark = _mark_of(each)
        several = known_mark is not None and known_mark[0].size > 1
        group = known_mark[0] if known_mark is not None and several else None
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
