"""Different elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dtype import bool_, int32
from .binary import sub
from .compare import ne
from .creation import fill_like
from .join import cat
from .masking import true_places
from .movement import flatten, reshape
from .region import narrow
from .scan import cumsum
from .scatter import index_copy, index_select
from .sort import sort

if TYPE_CHECKING:
    from ..tensor import Tensor


def unique(
    x: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Tensor | tuple[Tensor, ...]:
    """Return the different elements in order; every NaN is different.

    Parameters
    ----------
    x : Tensor
    sorted : bool, default True
        Taken as PyTorch has it; the result is always in order.
    return_inverse : bool, default False
        Also return where each element of `x` is in the result, as int32.
    return_counts : bool, default False
        Also return how often each element of the result occurs, as int32.

    Returns
    -------
    Tensor, or tuple of Tensor
        The elements, then what else was asked for.

    Notes
    -----
    Of all elements: PyTorch's `dim=`, which compares slices, is not there.
    How many there are decides the shape, so it is read by the host, which waits for it.
    """
    values, order = sort(flatten(x.detach()))
    size = values.numel()
    if size == 0:
        starts = fill_like(values, (0,), True, bool_)
    else:
        changes = ne(narrow(values, 0, 1, size - 1), narrow(values, 0, 0, size - 1))
        starts = cat([fill_like(values, (1,), True, bool_), changes])
    places = true_places(starts)
    found = [index_select(values, 0, places)]
    if return_inverse:
        numbers = sub(cumsum(starts, 0, dtype=int32), 1)
        inverse = index_copy(fill_like(order, (size,), 0, int32), 0, order, numbers)
        found.append(reshape(inverse, x.shape))
    if return_counts:
        ends = cat([places, fill_like(places, (1,), size, int32)])
        found.append(sub(narrow(ends, 0, 1, places.numel()), places))
    return tuple(found) if len(found) > 1 else found[0]
