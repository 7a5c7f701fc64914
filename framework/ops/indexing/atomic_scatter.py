"""Rows combined with those that they name, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import DType, as_dtype, float32
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.scatter import atomic_reduce_dispatches, identity_of
from ..reduce.common import as_dtype_of, in_storage
from .row_index import INDEX, checked_rows, index_constants
from .segment_sum import GATHERED, SUM_DTYPES

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes={"base": SUM_DTYPES, "index": INDEX, "source": GATHERED})
def scatter_atomic(
    base: Tensor,
    index: Tensor,
    source: Tensor,
    operation: str,
    include_self: bool,
    site: str,
    from_end: bool,
) -> Tensor:
    """Return `base` with rows of `source` combined, by one of `scatter.OPERATIONS`.

    `base` is (outer, rows, inner), `source` (outer, entries, inner), and the index one
    for each row, (entries), or for each element of `source`, which may have 2-byte
    floats where `base` has float32.
    """


@scatter_atomic.spec
def scatter_atomic_spec(base: TensorSpec, **_: object) -> TensorSpec:
    return base


@scatter_atomic.kernel
def scatter_atomic_kernel(
    gpu: DeviceInfo,
    base: StridedSpec,
    index: StridedSpec,
    source: StridedSpec,
    operation: str,
    include_self: bool,
    site: str,
    from_end: bool,
) -> list[Dispatch]:
    constants = index_constants(index, from_end)
    return atomic_reduce_dispatches(
        gpu, base, index, source, operation, include_self, site, constants
    )


@scatter_atomic.reference
def scatter_atomic_reference(
    base: np.ndarray,
    index: np.ndarray,
    source: np.ndarray,
    operation: str,
    include_self: bool,
    site: str,
    from_end: bool,
) -> np.ndarray:
    rows = checked_rows(index, base.shape[1], site, from_end)
    outer, _, inner = np.ogrid[tuple(map(slice, source.shape))]
    places = outer, rows[None, :, None] if rows.ndim == 1 else rows, inner
    out = base.copy()
    if not include_self:
        out[places] = identity_of(operation, as_dtype(base.dtype))
    combine = {
        "max": np.maximum,
        "min": np.minimum,
        "prod": np.multiply,
        "sum": np.add,
    }[operation]
    with np.errstate(all="ignore"):
        combine.at(out, places, source)
    return out


def atomic_source(source: Tensor, dtype: DType) -> Tensor:
    """Return elements as `scatter_atomic` combines them in `dtype`: cast, or as is."""
    narrow = dtype is float32 and source.dtype in GATHERED
    if source.is_gpu and narrow and in_storage(source) is source:
        return source
    return as_dtype_of(source, dtype)
