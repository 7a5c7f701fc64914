"""Reduction of losses, with PyTorch's older flags for it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ... import ops
from ...base.errors import ShapeError
from ...ops.loss.elementwise import check_reduction, reduced

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def chosen_reduction(
    size_average: bool | None, reduce: bool | None, reduction: str
) -> str:
    """Return the reduction that the older flags mean, if one of them is given.

    Parameters
    ----------
    size_average : bool or None
        Whether losses are averaged and not summed; deprecated.
    reduce : bool or None
        Whether they are reduced at all; deprecated.
    reduction : str
        What holds if both are None.
    """
    if size_average is None and reduce is None:
        return reduction
    average = True if size_average is None else size_average
    chosen = ("mean" if average else "sum") if reduce is None or reduce else "none"
    warnings.warn(
        "size_average and reduce are deprecated; please use"
        f" reduction={chosen!r} instead",
        stacklevel=3,
    )
    return chosen


def reduced_loss(name: str, losses: Tensor, reduction: str) -> Tensor:
    """Return losses reduced.

    Raises
    ------
    ShapeError
        If there is no such reduction.
    """
    check_reduction(name, reduction)
    return reduced(losses, reduction)


def weighted_loss(
    name: str, losses: Tensor, weight: Tensor, reduction: str, *, by_weight: bool
) -> Tensor:
    """Return losses times weights of their shape, reduced.

    Parameters
    ----------
    name : str
        The loss, for messages.
    losses, weight : Tensor
        Of the same shape.
    reduction : str
    by_weight : bool
        Whether the mean is by the sum of the weights, not by their number.

    Raises
    ------
    ShapeError
        If the shapes differ, or there is no such reduction.
    """
    if weight.layout.shape != losses.layout.shape:
        raise ShapeError(
            f"{name}: weight is {tuple(weight.shape)}; it must be"
            f" {tuple(losses.shape)}, as x is"
        )
    weighted = losses * weight
    if by_weight and reduction == "mean":
        return ops.sum(weighted) / ops.sum(weight)
    return reduced_loss(name, weighted, reduction)
