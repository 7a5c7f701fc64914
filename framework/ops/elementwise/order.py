"""Order of work: a value that is not used before another one has been computed.

A plan runs what it can as early as it can. Where many pieces of work are independent,
and each takes much memory for a while, that would be the memory of all at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.dtype import FLOAT
from ...dispatch.declare import elementwise
from ..movement.slice import narrow
from ..view import flatten, reshape
from .cast import cast

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


def _first(x: Any, y: Any) -> Any:
    return np.broadcast_arrays(x, y)[0]


@elementwise(glsl="x", reference=_first, dtypes=FLOAT)
def _ordered(x: Tensor, y: Tensor) -> Tensor:
    """Return `x`; the kernel waits for the scalar `y`."""


def after(x: Tensor, other: Tensor) -> Tensor:
    """Return a copy of `x` that a plan makes when `other` has been computed.

    Parameters
    ----------
    x : Tensor, float
    other : Tensor, float
        With at least one element. On the host nothing is to be ordered.

    Returns
    -------
    Tensor, of the shape and dtype of `x`
        Without a gradient.
    """
    if not x.is_gpu:
        return x
    return _ordered(x, cast(reshape(narrow(flatten(other), 0, 0, 1), ()), x.dtype))
