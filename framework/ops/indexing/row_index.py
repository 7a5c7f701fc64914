"""Indices of rows: their dtypes, how shaders read them, and checks on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import INTEGER, int32, int64, uint32, uint64
from ...base.errors import IndexDTypeError
from ...base.index_checks import out_of_range
from ...base.shape import TensorSpec
from ..elementwise.cast import cast

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

INDEX = (int32, uint32, int64, uint64)
"""Dtypes of indices that the shaders read, as words."""


def index_constants(index: TensorSpec, from_end: bool) -> dict[str, int]:
    """Return the specialization constants for reading indices."""
    return {
        "INDEX_WORDS": index.dtype.itemsize // 4,
        "INDEX_SIGNED": int(index.dtype.kind == "int"),
        "FROM_END": int(from_end),
    }


def readable_index(name: str, index: Tensor) -> Tensor:
    """Return indices in a dtype that the shaders read.

    Raises
    ------
    IndexDTypeError
        If they are no integers.
    """
    if index.dtype not in INTEGER:
        raise IndexDTypeError(
            f"{name}: the indices are {index.dtype.name}; they must be integers"
        )
    return cast(index, int32) if index.dtype.itemsize < 4 else index


def checked_rows(index: np.ndarray, rows: int, site: str, from_end: bool) -> np.ndarray:
    """Return indices as int64, counted from the front.

    Raises
    ------
    IndexRangeError
        If one names no row; a negative one does unless it counts `from_end`.
    """
    wide = index.astype(np.int64, copy=False)
    # Without a sign, what counts from the end is beyond all rows.
    if not wide.size or np.maximum.reduce(wide.view(np.uint64), None) < rows:
        return wide
    bad = (wide < (-rows if from_end else 0)) | (wide >= rows)
    if index.dtype == np.uint64:
        bad |= index >= rows
    if bad.any():
        raise out_of_range(site, int(index[bad].flat[0]), rows)
    return np.where(wide < 0, wide + rows, wide)
