"""Indices of rows: their dtypes, how shaders read them, checks, and flat offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import INTEGER, int32, int64, uint32, uint64
from ...base.errors import IndexDTypeError, ShapeError
from ...base.index_checks import out_of_range
from ...base.shape import Shape, TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import (
    Argument,
    Dispatch,
    IndexSlot,
    StridedSpec,
    entry_divisors,
)
from ...kernels.linear import linear_dispatch
from ..elementwise.cast import cast
from ..view import flatten, reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

NO_ROW = -(1 << 31)
"""Sentinel of an index out of range."""

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


def _around(shape: Shape) -> Shape:
    """Return (outer, entries, inner) of indices."""
    return shape if len(shape) == 3 else (1, *shape, 1)


@primitive(dtypes=INDEX)
def _flat_offsets(index: Tensor, rows: int, site: str, from_end: bool) -> Tensor:
    """Return int32 flat offsets into (outer, rows, inner) of each index.

    `index` is (outer, entries, inner) or (entries). `NO_ROW` stands for an index out of
    range, as is a negative one unless it counts `from_end`.
    """


@_flat_offsets.spec
def _flat_offsets_spec(index: TensorSpec, rows: int, **_: object) -> TensorSpec:
    outer, _entries, inner = _around(index.shape)
    if outer * rows * inner > 1 << 31:
        raise ShapeError(
            f"index: {outer * rows * inner} elements are more than an int32 counts"
        )
    return TensorSpec(index.shape, int32)


@_flat_offsets.kernel
def _flat_offsets_kernel(
    gpu: DeviceInfo, index: StridedSpec, rows: int, site: str, from_end: bool
) -> Dispatch:
    _, entries, inner = _around(index.shape)
    push: dict[str, Argument] = {"indices": "index", "out_": "out"}
    push |= {"count": index.numel, "rows": rows, "entries": entries, "inner": inner}
    push |= entry_divisors(entries, inner)
    push["error"] = IndexSlot(site, rows)
    constants = index_constants(index, from_end)
    return linear_dispatch("index/flat_offset", index.numel, push, constants)


@_flat_offsets.reference
def _flat_offsets_reference(
    index: np.ndarray, rows: int, site: str, from_end: bool
) -> np.ndarray:
    sizes = _around(index.shape)
    outer, _, inner = np.indices(sizes)
    found = checked_rows(index, rows, site, from_end).reshape(sizes)
    return (outer * rows + found) * sizes[2] + inner


def flat_offsets(index: Tensor, rows: int, site: str, from_end: bool = False) -> Tensor:
    """Return flat offsets of indices of any integer dtype."""
    return _flat_offsets(readable_index("index", index), rows, site, from_end)


def row_numbers(index: Tensor, rows: int, site: str) -> Tensor:
    """Return int32 row numbers of indices."""
    numbers = flat_offsets(flatten(index), rows, site)
    return (
        numbers
        if len(index.layout.shape) == 1
        else reshape(numbers, index.layout.shape)
    )
