"""Sorted order, and sums of what an index brings together, in a fixed order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import DType, float32, float64, int32, int64, uint32, uint64
from ...base.errors import ShapeError
from ...base.shape import TensorSpec, ceil_div
from ...dispatch.primitive import primitive
from ...ir.kernel_call import Argument, Dispatch, Scratch, StridedSpec, linear_grid
from ..movement.slice import WORKGROUP

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

CHUNK = 16
SOFTWARE_CHUNK = 64
"""Entries that one invocation adds up before others go on with what it found."""

WAYS = 8
"""Sorted runs that become one at once, of up to `MANY` keys, whose kernels mostly wait:
for memory at each step of a search, and for one another. Of 8192 keys two took 12 us
each, and the gradient of an embedding with them 147 us, with five for two runs each 149
(NVIDIA H200, driver 580.159.04, 2026-11-22)."""

MANY = 1 << 16

REMAP_DIMS = 6
"""Dimensions that the shader `copy/remap` walks."""

SUMMED = (float32, float64, int32, int64, uint32, uint64)
"""What sums are taken in."""


def sum_dtype(dtype: DType) -> DType:
    """Return the dtype in which elements of `dtype` are added up; bools are counted."""
    wide = {"float": float32, "int": int32, "uint": uint32, "bool": uint32}
    return dtype if dtype in SUMMED else wide[dtype.kind]


@primitive(dtypes=(int32, uint32))
def _order(keys: Tensor) -> Tensor:
    """Return int32 places that sort one dimension of keys, taken as unsigned.

    Equal keys keep their order.
    """


@_order.spec
def _order_spec(keys: TensorSpec) -> TensorSpec:
    return TensorSpec(keys.shape, int32)


@_order.kernel
def _order_kernel(gpu: DeviceInfo, keys: StridedSpec) -> list[Dispatch]:
    count, run = keys.numel, WORKGROUP
    grid = linear_grid(count, WORKGROUP)
    areas = [Scratch(name, 8 * count) for name in ("pairs", "merged")]

    ways = WAYS if count <= MANY else 2

    def step(kernel: str, push: dict[str, Argument], last: bool) -> Dispatch:
        constants = {"LOCAL_X": WORKGROUP, "LAST": int(last)}
        if kernel == "sort/merge_keys":
            constants["WAYS"] = ways
        push = {**push, "places": "out", "count": count}
        return Dispatch(kernel, grid, push, constants)

    first: dict[str, Argument] = {"keys": "keys", "pairs": areas[0]}
    steps = [step("sort/rank_block_keys", first, run >= count)]
    while run < count:
        push: dict[str, Argument] = {"pairs": areas[0], "merged": areas[1], "run": run}
        run *= ways
        steps.append(step("sort/merge_keys", push, run >= count))
        areas.reverse()
    return steps


@_order.reference
def _order_reference(keys: np.ndarray) -> np.ndarray:
    return np.argsort(keys.astype(np.uint32), kind="stable")


def order_of(keys: Tensor) -> Tensor:
    """Return int32 places that sort keys of one dimension, taken as unsigned.

    Raises
    ------
    ShapeError
        If there are more than an int32 counts.
    """
    if keys.numel() >= 1 << 31:
        raise ShapeError(f"order: {keys.numel()} keys are more than an int32 counts")
    return _order(keys)


@primitive(dtypes={"rows": (int32,), "order": (int32,), "source": SUMMED})
def add_sorted(rows: Tensor, order: Tensor, source: Tensor, count: int) -> Tensor:
    """Return (outer, count, inner) with rows of `source` added up where they go.

    `rows` (entries) says where each of (outer, entries, inner) goes, or is below 0, and
    `order` sorts it, as unsigned numbers.
    """


@add_sorted.spec
def add_sorted_spec(
    rows: TensorSpec, order: TensorSpec, source: TensorSpec, count: int
) -> TensorSpec:
    outer, _, inner = source.shape
    return TensorSpec((outer, count, inner), source.dtype)


@add_sorted.kernel
def add_sorted_kernel(
    gpu: DeviceInfo,
    rows: StridedSpec,
    order: StridedSpec,
    source: StridedSpec,
    count: int,
) -> list[Dispatch]:
    outer, entries, inner = source.shape
    size = source.dtype.itemsize
    chunk = SOFTWARE_CHUNK if gpu.kind == "software" else CHUNK
    steps = [_zeros(outer * count * inner * size // 4)]
    if not source.numel:
        return steps
    read: dict[str, Argument] = {"source": "source", "rows": "rows", "order": "order"}
    while True:
        chunks = ceil_div(entries, chunk)
        # What passes carry on is told apart by its size, which falls.
        carry = Scratch("carry", 2 * chunks * outer * inner * size)
        carry_rows = Scratch("carry_rows", 2 * chunks * 4)
        push = read | {"out_": "out", "carry": carry, "carry_rows": carry_rows}
        push |= {"chunks": chunks, "entries": entries, "outer": outer, "inner": inner}
        push |= {"rows_out": count}
        constants = {"LOCAL_X": WORKGROUP, "CHUNK": chunk, "LAST": int(chunks == 1)}
        constants |= {"FIRST": int(len(steps) == 1)}
        grid = linear_grid(chunks * outer * inner, WORKGROUP)
        defines = {"T": source.dtype.glsl}
        steps.append(Dispatch("index/segment_sum", grid, push, constants, defines))
        if chunks == 1:
            return steps
        entries = 2 * chunks
        read = {"source": carry, "rows": carry_rows, "order": carry_rows}


def _zeros(words: int) -> Dispatch:
    """Return the dispatch that clears the result."""
    push: dict[str, Argument] = {"out_": "out", "words": "out", "count": words}
    grid = linear_grid(ceil_div(words, 4), WORKGROUP)
    return Dispatch("copy/fill_zero", grid, push, {"LOCAL_X": WORKGROUP})


@add_sorted.reference
def add_sorted_reference(
    rows: np.ndarray, order: np.ndarray, source: np.ndarray, count: int
) -> np.ndarray:
    kept = np.flatnonzero(rows >= 0)
    out = np.zeros((source.shape[0], count, source.shape[2]), source.dtype)
    for column, values in zip(out, source):
        np.add.at(column, rows[kept], values[kept])
    return out
