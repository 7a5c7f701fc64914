"""Rows reduced by index, in the order of entries, where there are many columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import as_dtype
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.column_reduce import column_reduce_dispatch
from .atomic_scatter import scatter_atomic_reference
from .row_index import INDEX, checked_rows, index_constants
from .segment_sum import GATHERED, sum_dtype

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(
    dtypes={"base": GATHERED, "index": INDEX, "source": GATHERED}, typed="source"
)
def column_reduce(
    base: Tensor,
    index: Tensor,
    source: Tensor,
    operation: str,
    include_self: bool,
    site: str,
) -> Tensor:
    """Return `base` with rows of `source` joined, by an operation or "mean" of floats.

    `base` is (outer, rows, inner), `source` (outer, entries, inner), and the index one
    for each row, (entries), or for each element of `source`. The 2-byte floats are
    rounded once. See `segment_sum.reduces_columns`.
    """


@column_reduce.spec
def column_reduce_spec(base: TensorSpec, **_: object) -> TensorSpec:
    return base


@column_reduce.kernel
def column_reduce_kernel(
    gpu: DeviceInfo,
    base: StridedSpec,
    index: StridedSpec,
    source: StridedSpec,
    operation: str,
    include_self: bool,
    site: str,
) -> Dispatch:
    given = source, base.shape[1], operation, "base", not include_self, site
    reading = index_constants(index, from_end=False)
    return column_reduce_dispatch(*given, reading, index.ndim == 3)


@column_reduce.reference
def column_reduce_reference(
    base: np.ndarray,
    index: np.ndarray,
    source: np.ndarray,
    operation: str,
    include_self: bool,
    site: str,
) -> np.ndarray:
    wide = sum_dtype(as_dtype(base.dtype)).numpy
    begun, given = (each.astype(wide, copy=False) for each in (base, source))
    rows = checked_rows(index, base.shape[1], site, False)
    joined = "sum" if operation == "mean" else operation
    rest = site, False
    out = scatter_atomic_reference(begun, rows, given, joined, include_self, *rest)
    if operation == "mean":
        ones, counts = np.ones_like(given), np.full_like(begun, int(include_self))
        counts = scatter_atomic_reference(counts, rows, ones, "sum", True, *rest)
        out = out / np.maximum(counts, 1)
    return out.astype(base.dtype)
