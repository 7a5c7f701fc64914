"""Constants that follow from shapes and numbers: small tables of the host's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import trace_hooks
from ..base.dtype import DType

if TYPE_CHECKING:
    from ..tensor.tensor import Tensor

MOST_BYTES = 1 << 16
"""Size of a constant that recorded calls keep alive."""


def shape_constant(
    like: Tensor, table: np.ndarray, dtype: DType | None = None
) -> Tensor:
    """Return a table that follows from shapes and numbers, on a tensor's device.

    Calls that are recorded read it again, if it is small: it must not be changed.
    """
    kind: Any = like.results
    return reported(kind.from_host(table, like.device, dtype))


def reported(constant: Tensor) -> Tensor:
    """Return a constant, reported to what records the call, if it is small."""
    value = constant.array.value
    if value.node is None and value.numel * value.dtype.itemsize <= MOST_BYTES:
        trace_hooks.constant(constant.array)
    return constant
