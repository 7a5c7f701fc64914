"""Argsort of index keys, and sorted segment sums in a fixed order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.determinism import is_deterministic
from ...base.device import Device, GpuDevice
from ...base.dtype import (
    DType,
    as_dtype,
    bfloat16,
    float16,
    float32,
    float64,
    int32,
    int64,
    uint32,
    uint64,
)
from ...base.errors import ShapeError
from ...base.shape import Shape, TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Argument, Dispatch, IndexSlot, StridedSpec
from ...kernels import column_reduce
from ...kernels.linear import linear_dispatch
from ...kernels.reduce import MOST_ELEMENTS
from ...kernels.scan import segment_gather_dispatches, segment_sum_dispatches
from ...kernels.shader_types import storage_defines
from ...kernels.shared_sum import DTYPES as SHARED_DTYPES
from ...kernels.shared_sum import region_of, shared_sum_dispatch
from ...kernels.sort import sort_dispatches
from ..reduce.common import in_storage
from .row_index import INDEX, checked_rows, index_constants

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

ATOMIC_KEYS = 1 << 16
"""Keys from which gradients by index in float32 are left to atomics. What is added by
index itself is at any number: 32768 keys took 58 us sorted, 65536 by atomics 10 (NVIDIA
H200, driver 580.159.04, 2026-12-01), and PyTorch has no order there either."""

ATOMIC_COLUMNS = 32
"""Columns of each key up to which they are: sums of wide rows hide the sort. 500,000
keys of 64 columns took 349 us sorted, with PyTorch's atomics 259 (NVIDIA H200)."""

GATHERED_COLUMNS = 1024
"""Columns from which each result adds up its own segment: so many invocations a row."""

GATHERED_ENTRIES = 1 << 14
GATHERED_EACH = 16
"""Most entries, and most of them for each row, where that is done: what it takes if
all entries are of one row is bounded by them."""

COALESCED_COLUMNS = 32
"""Neighbouring columns from which loads of them by a subgroup are one transaction."""

SUM_DTYPES = (float32, float64, int32, int64, uint32, uint64)
"""Accumulation dtypes."""

GATHERED = (float16, bfloat16, *SUM_DTYPES)
"""Dtypes of what each result adds up for itself."""


def sum_dtype(dtype: DType) -> DType:
    """Return the dtype in which elements of `dtype` are added up; bools are counted."""
    wide = {"float": float32, "int": int32, "uint": uint32, "bool": uint32}
    return wide.get(dtype.kind, dtype) if dtype not in SUM_DTYPES else dtype


@primitive(dtypes=(int32, uint32))
def _argsort_keys(keys: Tensor) -> Tensor:
    """Return the int32 argsort of a vector of keys, taken as unsigned.

    The sort is stable.
    """


@_argsort_keys.spec
def _argsort_keys_spec(keys: TensorSpec) -> TensorSpec:
    return TensorSpec(keys.shape, int32)


@_argsort_keys.kernel
def _argsort_keys_kernel(gpu: DeviceInfo, keys: StridedSpec) -> list[Dispatch]:
    rows = TensorSpec((1, keys.numel, 1), uint32)
    return sort_dispatches(gpu, rows, keys.numel, False, "keys", {"order": "out"})


@_argsort_keys.reference
def _argsort_keys_reference(keys: np.ndarray) -> np.ndarray:
    return np.argsort(keys.astype(np.uint32), kind="stable")


def argsort_keys(keys: Tensor) -> Tensor:
    """Return the int32 stable argsort of a vector of keys, taken as unsigned.

    Raises
    ------
    ShapeError
        If there are more than an int32 counts.
    """
    if keys.numel() >= 1 << 31:
        raise ShapeError(f"argsort: {keys.numel()} keys are more than an int32 counts")
    return _argsort_keys(keys)


@primitive(
    dtypes={"rows": (int32,), "order": (int32,), "source": GATHERED}, typed="source"
)
def sorted_segment_sum(
    rows: Tensor, order: Tensor, source: Tensor, count: int
) -> Tensor:
    """Return the segment sums (outer, count, inner) of rows of `source`.

    `rows` (entries) holds the segment of each of (outer, entries, inner), below 0 for
    none, and `order` its argsort, as unsigned numbers. The 2-byte floats are added up
    in float32.
    """


@sorted_segment_sum.spec
def sorted_segment_sum_spec(source: TensorSpec, count: int, **_: object) -> TensorSpec:
    outer, _entries, inner = source.shape
    return TensorSpec((outer, count, inner), source.dtype)


@sorted_segment_sum.kernel
def sorted_segment_sum_kernel(
    gpu: DeviceInfo, source: StridedSpec, count: int, **_: object
) -> list[Dispatch]:
    return segment_sum_dispatches(gpu, source, count)


@sorted_segment_sum.reference
def sorted_segment_sum_reference(
    rows: np.ndarray, order: np.ndarray, source: np.ndarray, count: int
) -> np.ndarray:
    valid = np.flatnonzero(rows >= 0)
    wide = sum_dtype(as_dtype(source.dtype)).numpy
    out = np.zeros((source.shape[0], count, source.shape[2]), wide)
    for column, values in zip(out, source.astype(wide, copy=False)):
        np.add.at(column, rows[valid], values[valid])
    return out.astype(source.dtype, copy=False)


@primitive(
    dtypes={
        "places": (int32,),
        "order": (int32,),
        "source": GATHERED,
        "base": GATHERED,
    },
    typed="source",
)
def gathered_segment_sum(
    places: Tensor, order: Tensor, source: Tensor, base: Tensor | None, count: int
) -> Tensor:
    """Return the segment sums (outer, count, inner) of rows of `source`, and `base`.

    As `sorted_segment_sum`, but each element of the result adds up its own segment, in
    the order of entries, and the 2-byte floats are read and written as they are.
    """  # fmt: skip


@gathered_segment_sum.spec
def gathered_segment_sum_spec(
    source: TensorSpec, count: int, **_: object
) -> TensorSpec:
    outer, _entries, inner = source.shape
    return TensorSpec((outer, count, inner), source.dtype)


@gathered_segment_sum.kernel
def gathered_segment_sum_kernel(
    gpu: DeviceInfo,
    source: StridedSpec,
    base: StridedSpec | None,
    count: int,
    **_: object,
) -> list[Dispatch]:
    return segment_gather_dispatches(gpu, source, count, base is not None)


@gathered_segment_sum.reference
def gathered_segment_sum_reference(
    places: np.ndarray,
    order: np.ndarray,
    source: np.ndarray,
    base: np.ndarray | None,
    count: int,
) -> np.ndarray:
    wide = source.astype(sum_dtype(as_dtype(source.dtype)).numpy, copy=False)
    sums = sorted_segment_sum_reference(places, order, wide, count)
    return (sums if base is None else sums + base).astype(source.dtype)


@primitive(
    dtypes={"index": INDEX, "source": GATHERED, "base": GATHERED}, typed="source"
)
def matched_sum(
    index: Tensor,
    source: Tensor,
    base: Tensor | None,
    rows: int,
    site: str,
    from_end: bool,
) -> Tensor:
    """Return sums (outer, rows, inner) of `source` by index, and `base`, in one kernel.

    Invocations add up a column each, or each result looks at all entries, where they
    are few, or workgroups add up in shared memory. The index is one for each, that is
    (entries), or for each element of `source`.
    """


@matched_sum.spec
def matched_sum_spec(source: TensorSpec, rows: int, **_: object) -> TensorSpec:
    outer, _entries, inner = source.shape
    return TensorSpec((outer, rows, inner), source.dtype)


@matched_sum.kernel
def matched_sum_kernel(
    gpu: DeviceInfo,
    index: StridedSpec,
    source: StridedSpec,
    base: StridedSpec | None,
    rows: int,
    site: str,
    from_end: bool,
) -> Dispatch:
    outer, entries, inner = source.shape
    each, reading = index.ndim == 3, index_constants(index, from_end)
    begun = None if base is None else "base"
    if column_reduce.reduces_columns(gpu, source.shape, rows, source.dtype):
        given = source, rows, "sum", begun, False, site, reading, each
        return column_reduce.column_reduce_dispatch(*given)
    if each and not _looks_at_all(gpu, source.shape, rows, each):
        region = region_of(gpu, source.shape, rows, index.dtype.itemsize)
        if region is not None and source.dtype in SHARED_DTYPES:
            return shared_sum_dispatch(gpu, source, rows, region, begun, site, reading)
    push: dict[str, Argument] = {"source": "source", "indices": "index", "out_": "out"}
    push |= {"base": begun or "source"}
    push |= {"error": IndexSlot(site, rows), "count": outer * rows * inner}
    push |= {"rows": rows, "entries": entries, "inner": inner}
    constants = {"EACH": int(each), "HAS_BASE": int(base is not None), **reading}
    defines = dict(storage_defines(source.dtype))
    if gpu.target.hides_latency:
        defines["ITEMS"] = str(MATCHED_AT_ONCE)
    return linear_dispatch(
        "index/match_sum", outer * rows * inner, push, constants, defines
    )


@matched_sum.reference
def matched_sum_reference(
    index: np.ndarray,
    source: np.ndarray,
    base: np.ndarray | None,
    rows: int,
    site: str,
    from_end: bool,
) -> np.ndarray:
    found = checked_rows(index, rows, site, from_end)
    wide = source.astype(sum_dtype(as_dtype(source.dtype)).numpy, copy=False)
    outer, _, inner = np.ogrid[tuple(map(slice, source.shape))]
    places = outer, found[None, :, None] if found.ndim == 1 else found, inner
    sums = np.zeros((source.shape[0], rows, source.shape[2]), wide.dtype)
    np.add.at(sums, places, wide)
    return (sums if base is None else sums + base).astype(source.dtype)


MATCHED_ENTRIES = 64
MATCHED_PAIRS = 1 << 20
"""Most entries that each result looks at, and most that all do: what a GPU takes a few
microseconds for, as long as a launch."""

SHARED_ENTRIES = 512
SHARED_PAIRS = 1 << 25
"""The same on GPUs where a row has one index, so that neighbours look at the same one:
about ten instructions a pair and no other load, less than the launches of a sort."""

MATCHED_AT_ONCE = 8
"""Indices that an invocation of a GPU loads at once."""


def reduces_columns(source: Tensor, rows: int, counts: bool = False) -> bool:
    """Return whether invocations reduce (outer, entries, inner) by columns.

    `counts` is whether they count entries, too.
    """
    device, dtype = source.device, source.dtype
    if not isinstance(device, GpuDevice) or dtype not in GATHERED:
        return False
    if in_storage(source) is not source:
        return False
    shape = source.layout.shape
    return column_reduce.reduces_columns(device.gpu.info, shape, rows, dtype, counts)


def matches_entries(index: Tensor, source: Tensor, rows: int) -> bool:
    """Return whether each result looks at all entries of (outer, entries, inner)."""
    if not source.is_gpu or source.dtype not in GATHERED or not source.numel():
        return False
    device, each = source.device, len(index.layout.shape) == 3
    assert isinstance(device, GpuDevice)
    few = _looks_at_all(device.gpu.info, source.layout.shape, rows, each)
    return few and in_storage(source) is source


def _looks_at_all(gpu: DeviceInfo, source: Shape, rows: int, each: bool) -> bool:
    """Return whether entries are as few as that; `each` element may have its index."""
    outer, entries, inner = source
    pairs = outer * rows * inner * entries
    most = MATCHED_ENTRIES, MATCHED_PAIRS
    if not each and gpu.target.hides_latency:
        most = SHARED_ENTRIES, SHARED_PAIRS
    return entries <= most[0] and 0 < pairs <= most[1]


def sums_at_once(index: Tensor, source: Tensor, rows: int) -> bool:
    """Return whether `matched_sum` adds up (outer, entries, inner).

    What workgroups add up in shared memory has no order, so that floats are added up
    otherwise where `use_deterministic_algorithms` wants one.
    """
    if reduces_columns(source, rows) or matches_entries(index, source, rows):
        return True
    device, dtype = source.device, source.dtype
    if not isinstance(device, GpuDevice) or len(index.layout.shape) != 3:
        return False
    if dtype not in SHARED_DTYPES or in_storage(source) is not source:
        return False
    if dtype.is_float and is_deterministic():
        return False
    shape, size = source.layout.shape, index.dtype.itemsize
    return region_of(device.gpu.info, shape, rows, size) is not None


def gathers_segments(x: Tensor, index: Tensor, rows: int) -> bool:
    """Return whether each result adds up its own segment of (outer, entries, inner).

    On GPUs where entries are few and there are many columns, so that a long segment,
    which one invocation of each column adds up, is no tail: columns apart are read
    across memory otherwise, 2-byte floats through copies in float32, and elements of 8
    bytes are most of the time, which are read and written once here.
    """
    device = x.device
    if not isinstance(device, GpuDevice) or len(index.layout.shape) != 1:
        return False
    if not device.gpu.info.target.hides_latency or in_storage(x) is not x:
        return False
    outer, entries, inner = x.layout.shape
    apart = inner < COALESCED_COLUMNS
    most = GATHERED_ENTRIES if apart else GATHERED_ENTRIES // 4
    few = entries <= min(most, GATHERED_EACH * rows)
    few = few and outer * rows * inner <= MOST_ELEMENTS
    pays = apart or x.dtype.itemsize != 4
    return few and outer * inner >= GATHERED_COLUMNS and pays


def sums_by_atomics(
    device: Device, dtype: DType, keys: int, columns: int, gradient: bool = True
) -> bool:
    """Return whether segments of `keys` rows of `columns` are added up by atomics.

    Integers are, wherever a device can, as their order does not matter; float32 numbers
    on GPUs where that is much quicker and `use_deterministic_algorithms` allows it. Few
    keys are sorted where they are of a `gradient`, so that trainings repeat.
    """
    if not isinstance(device, GpuDevice):
        return False
    info = device.gpu.info
    if dtype.kind in ("int", "uint"):
        return dtype.itemsize == 4 or "buffer_int64_atomics" in info.supported
    if dtype is not float32 or not info.target.hides_latency or is_deterministic():
        return False
    few = keys < ATOMIC_KEYS and (gradient or not info.float32_atomic_add)
    return not few and columns <= ATOMIC_COLUMNS
