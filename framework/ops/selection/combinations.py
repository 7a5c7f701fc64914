"""Ways to choose elements of a vector."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import int32
from ...base.errors import ShapeError
from ...base.validation import as_int
from ...dispatch.replayable import replayable
from ..elementwise.binary import sub
from ..indexing.gather import take_rows
from ..movement.concat import stack
from ..shape_constant import shape_constant
from ..source import arange_like, fill_like
from ..view import flatten, reshape
from .sort import searchsorted

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

_MOST = (1 << 31) - 1
"""Ways that an int32 numbers, and what larger entries of tables are."""


@replayable
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return all ways to choose elements of a vector, in order, one a row.

    Parameters
    ----------
    input : Tensor, shape (n,)
    r : int, default 2
        How many are chosen.
    with_replacement : bool, default False
        Whether an element may be chosen several times.

    Returns
    -------
    Tensor, shape (ways, r)
        Of shape (0,) where `r` is 0.

    Raises
    ------
    ShapeError
        If `input` is not a vector, `r` is below 0, or there are more ways than an
        int32 counts.
    """
    r = as_int("combinations: r", r)
    if len(input.layout.shape) != 1 or r < 0:
        raise ShapeError(
            f"combinations: x is {input.layout.shape}, r {r}; x must have one"
            " dimension and r"
            " be at least 0"
        )
    if r == 0:
        return fill_like(input, (0,), 0, input.dtype)
    places = combination_places("combinations", input, r, with_replacement)
    rows = take_rows(reshape(input, (1, -1, 1)), flatten(stack(places, 1)))
    return reshape(rows, (-1, r)) if rows.numel() else reshape(rows, (0, r))


def combination_places(
    name: str, x: Tensor, r: int, with_replacement: bool = False
) -> list[Tensor]:
    """Return the places of all ways to choose `r` rows of `x`, in order.

    Parameters
    ----------
    name : str
        Of the call, for errors.
    x : Tensor
    r : int
        At least 1.
    with_replacement : bool, default False

    Returns
    -------
    list of Tensor, int32, shape (ways,)
        One for each that is chosen.

    Raises
    ------
    ShapeError
        If there are more ways than an int32 counts.

    Notes
    -----
    Ways are numbered from the last one. In the combinatorial number system such a
    number is a sum of binomial coefficients of c and how many are left to choose; c is
    the distance from the last place, found in a table. With replacement the k-th chosen
    is k places further, among r - 1 more. Source: Knuth, The Art of Computer
    Programming 4A, 7.2.1.3.
    """
    count = x.layout.shape[0]
    wide = count + r - 1 if with_replacement and count else count
    ways = math.comb(wide, r)
    if ways > _MOST:
        raise ShapeError(
            f"{name}: there are {ways} ways to choose {r} of {count}; at most {_MOST}"
            " are possible"
        )
    if not ways:
        return [fill_like(x, (0,), 0, int32)] * r
    number = arange_like(x, (ways,), ways - 1, -1, int32)
    places = []
    for step, left in enumerate(range(r, 0, -1)):
        distance = number
        if left > 1:
            table = _binomials(x, wide, left)
            found = searchsorted(table, number, right=True, out_int32=True)
            distance = sub(found, 1)
            number = sub(number, _looked_up(table, distance))
        places.append(sub(wide - 1 - step if with_replacement else wide - 1, distance))
    return places


def _binomials(x: Tensor, count: int, chosen: int) -> Tensor:
    """Return how many ways there are to choose of 0, 1, 2 to `count` - 1, bounded."""
    numbers = range(chosen + 1, count)
    ways = accumulate(numbers, lambda found, n: found * n // (n - chosen), initial=1)
    bounded = [*[0] * chosen, *(min(each, _MOST) for each in ways)]
    table = np.array(bounded[:count], np.int32)
    return shape_constant(x, table)


def _looked_up(table: Tensor, places: Tensor) -> Tensor:
    return flatten(take_rows(reshape(table, (1, -1, 1)), places))
