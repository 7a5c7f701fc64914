"""Gather and scatter of rows by index along one dimension.

Tensors are seen as (outer, rows, inner), the rows being what is indexed. Indices are
one per row, or one per element. An index that names no row is an error: on the host at
once; a device reports it to the next call that waits for a result, see
`base.index_checks`. There the index reads NaN (0 if the dtype has none), and writes
nothing; no other memory is touched.

A `site` names the call and what it indexes; it is `UNCHECKED` where indices are known
to be in range. Negative indices count `from_end` where PyTorch's call lets them: where
a tensor is indexed, in `take`, `put` and `index_fill`. Elsewhere they name no row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from ...base.determinism import is_deterministic
from ...base.device import GpuDevice
from ...base.dtype import (
    COMPLEX,
    FLOAT,
    NUMERIC,
    STORED,
    DType,
    int32,
)
from ...base.errors import DTypeError
from ...base.index_checks import UNCHECKED
from ...base.shape import Layout, Shape, TensorSpec
from ...dispatch.declare import composite, primitive
from ...dispatch.op import contiguous_copy
from ...ir.kernel_call import (
    Argument,
    Dispatch,
    IndexSlot,
    Scratch,
    StridedSpec,
    entry_divisors,
)
from ...kernels.gather import gather_dispatch, gathers_in_place, row_gather_dispatch
from ...kernels.linear import linear_dispatch, words_of
from ...kernels.row_copy import (
    VECTOR,
    WORD,
    first_copy,
)
from ...kernels.scatter import Range, place_ranges
from ..elementwise.binary import add
from ..elementwise.cast import cast
from ..elementwise.complex_numbers import by_parts
from ..elementwise.unary import lazy_copy
from ..reduce.common import as_dtype_of, at_places, in_storage
from ..source import fill_like
from ..view import expand, flatten, reshape
from .atomic_scatter import atomic_source, scatter_atomic
from .row_index import (
    INDEX,
    checked_rows,
    flat_offsets,
    index_constants,
    readable_index,
)
from .segment_sum import (
    COALESCED_COLUMNS,
    GATHERED,
    SUM_DTYPES,
    argsort_keys,
    gathered_segment_sum,
    gathers_segments,
    matched_sum,
    sorted_segment_sum,
    sum_dtype,
    sums_at_once,
    sums_by_atomics,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


def rows_of(x: Tensor, dim: int) -> Tensor:
    """Return the tensor as (outer, rows, inner) around a dimension."""
    shape = x.layout.shape
    outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    return reshape(x, (outer, shape[dim], inner))


@primitive(dtypes={"x": STORED, "index": INDEX})
def _take(x: Tensor, index: Tensor, site: str, from_end: bool) -> Tensor:
    """Return rows of (outer, rows, inner) by index: (entries) or one per element."""


@_take.spec
def _take_spec(x: TensorSpec, index: TensorSpec, **_: object) -> TensorSpec:
    outer, _rows, inner = x.shape
    shape = (outer, *index.shape, inner) if index.ndim == 1 else index.shape
    return TensorSpec(shape, x.dtype)


@_take.kernel
def _take_kernel(
    gpu: DeviceInfo, x: StridedSpec, index: StridedSpec, site: str, from_end: bool
) -> Dispatch:
    out, reading = _take_spec(x, index), index_constants(index, from_end)
    taken = row_gather_dispatch(gpu, x, index, out, site, reading)
    if taken is not None:
        return taken
    return gather_dispatch(gpu, x, index, out, {}, site, reading)


@_take.vjp
def _take_vjp(
    grad: Tensor, index: Tensor, x_spec: TensorSpec, from_end: bool
) -> Tensor:
    return _gradient_of_taken(grad, index, x_spec.shape, from_end)


def _gradient_of_taken(
    grad: Tensor, index: Tensor, shape: Shape, from_end: bool
) -> Tensor:
    """Return the gradient, (outer, rows, inner), of what elements or rows are taken."""
    single = len(index.layout.shape) == 3 and index.layout.shape[1] == 1
    if single and grad.is_gpu and grad.dtype in FLOAT:
        return _placed(grad, index, shape, from_end)
    return segment_sum(index, grad, shape[1], UNCHECKED, from_end)


def _placed(grad: Tensor, index: Tensor, shape: Shape, from_end: bool) -> Tensor:
    """Return one element of each line where its index is, and zeros elsewhere."""
    rows = flat_offsets(flatten(index), shape[1], UNCHECKED, from_end)
    return at_places(grad, reshape(rows, grad.layout.shape), shape, 1)


@_take.reference
def _take_reference(
    x: np.ndarray, index: np.ndarray, site: str, from_end: bool
) -> np.ndarray:
    if index.ndim == 1 and index.dtype != np.uint64:
        few = index.size < _MANY and _rises(index)
        if from_end or few or site == UNCHECKED:
            # NumPy looks at each index that it reads, and lets it count from the end.
            try:
                return x.take(index, 1)
            except IndexError:
                checked_rows(index, x.shape[1], site, from_end)
                raise
    rows = checked_rows(index, x.shape[1], site, from_end)
    if index.ndim == 1:
        return x.take(rows, 1, mode=_IN_RANGE)
    if not x.flags.c_contiguous:
        return np.take_along_axis(x, rows, 1)  # the rest of `x` would be copied
    return x.reshape(-1).take(_element_numbers(rows, x.shape), mode=_IN_RANGE)


_MANY = 1024
"""Indices from which it pays to check them apart from NumPy's reading."""

_IN_RANGE: Final = "wrap"
"""NumPy's mode that looks at indices the least; these are in range already.

With "raise", 100,000 single elements take 44 us, with this 37, and the check 6.
"""


def _rises(index: np.ndarray) -> bool:
    """Return whether no index is negative."""
    least = np.minimum.reduce(index, None, initial=0)
    return bool(least >= 0)


def _element_numbers(rows: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return which elements of (outer, rows, inner) the rows of each element are."""
    outer, count, inner = shape
    numbers = rows * inner if inner > 1 else rows
    if outer > 1:
        numbers = numbers + np.arange(0, outer * count, count)[:, None, None] * inner
    return numbers + np.arange(inner) if inner > 1 else numbers


Dims = tuple[int, int]
"""Range of the dimensions that are indexed."""


def _parts(shape: Shape, dims: Dims) -> Shape:
    """Return (outer, rows, inner) around a range of dimensions."""
    first, last = dims
    sizes = shape[:first], shape[first:last], shape[last:]
    return tuple(map(math.prod, sizes))


@primitive(dtypes={"x": STORED, "index": INDEX}, strided=True)
def _take_strided(
    x: Tensor, index: Tensor, dims: Dims, site: str, from_end: bool
) -> Tensor:
    """Return what `_take` does, of `x` in any layout, whose rows `dims` are.

    `index` is contiguous.
    """


@_take_strided.spec
def _take_strided_spec(
    x: TensorSpec, index: TensorSpec, dims: Dims, **_: object
) -> TensorSpec:
    return _take_spec(TensorSpec(_parts(x.shape, dims), x.dtype), index)


@_take_strided.vjp
def _take_strided_vjp(
    grad: Tensor, index: Tensor, x_spec: TensorSpec, dims: Dims, from_end: bool
) -> Tensor:
    found = _gradient_of_taken(grad, index, _parts(x_spec.shape, dims), from_end)
    return reshape(found, x_spec.shape)


@_take_strided.reference
def _take_strided_reference(
    x: np.ndarray, index: np.ndarray, dims: Dims, site: str, from_end: bool
) -> np.ndarray:
    return _take_reference(x.reshape(_parts(x.shape, dims)), index, site, from_end)


@_take_strided.kernel
def _take_strided_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    index: StridedSpec,
    dims: Dims,
    site: str,
    from_end: bool,
) -> Dispatch:
    assert index.layout.is_contiguous, f"take_strided: {index.layout} of indices"
    out, reading = _take_strided_spec(x, index, dims), index_constants(index, from_end)
    return gather_dispatch(gpu, x, index, out, {}, site, reading, dims)


@composite(dtypes={"index": INDEX, "source": (*NUMERIC, *COMPLEX)})
def segment_sum(
    index: Tensor, source: Tensor, rows: int, site: str, from_end: bool
) -> Tensor:
    """Return the segment sums (outer, rows, inner) of rows of `source`.

    Shapes as in `_put`. The 2-byte floats are added up in float32. Either atomics add
    up, see `sums_by_atomics`, or indices are sorted and sums taken in order.
    """
    if source.dtype.is_complex:
        return by_parts(
            lambda part: segment_sum(index, part, rows, site, from_end), source
        )
    outer, _, inner = source.layout.shape
    sizes = outer, rows, inner
    if sums_at_once(index, source, rows):
        return matched_sum(index, source, None, rows, site, from_end)
    if _gathers_segments(index, source, rows):
        return _gathered_sum(index, source, None, rows, site, from_end)
    each = len(index.layout.shape) == 3
    compute = sum_dtype(source.dtype)
    parts = atomic_source(source, compute)
    if _sums_by_atomics(index, parts, compute):
        zeros = fill_like(parts, sizes, 0, compute)
        out = scatter_atomic(zeros, index, parts, "sum", True, site, from_end)
        return out if compute is source.dtype else cast(out, source.dtype)
    places = flatten(flat_offsets(index, rows, site, from_end))
    parts = source if source.dtype in GATHERED else cast(source, compute)
    parts = in_storage(parts)
    if each:
        parts, rows = reshape(parts, (1, -1, 1)), outer * rows * inner
    out = sorted_segment_sum(places, argsort_keys(places), parts, rows)
    return reshape(as_dtype_of(out, source.dtype), sizes)


def _gathers_segments(index: Tensor, source: Tensor, rows: int) -> bool:
    """Return whether each of `rows` adds up its own segment of `source`.

    Atomics of 8 bytes in wide rows take longer: 16 Mi int64 in rows of 4096 took
    304 us, with PyTorch 200 (NVIDIA H200, driver 580.159.04, 2026-11-30).
    """
    if source.dtype not in GATHERED or not gathers_segments(source, index, rows):
        return False
    wide = source.dtype.itemsize == 8 and source.layout.shape[2] >= COALESCED_COLUMNS
    return wide or not _sums_by_atomics(index, source, source.dtype)


def _gathered_sum(
    index: Tensor, source: Tensor, base: Tensor | None, rows: int, site: str,
    from_end: bool,
) -> Tensor:  # fmt: skip
    """Return segment sums that each result adds up, and `base`, by a row each."""
    places = flat_offsets(index, rows, site, from_end)
    return gathered_segment_sum(places, argsort_keys(places), source, base, rows)


def _sums_by_atomics(
    index: Tensor, source: Tensor, dtype: DType, gradient: bool = True
) -> bool:
    """Return whether atomics add up rows of `source`, in `dtype`."""
    keys = index.numel()
    columns = source.numel() // max(1, keys)
    return sums_by_atomics(source.device, dtype, keys, columns, gradient)


@segment_sum.vjp
def segment_sum_vjp(grad: Tensor, index: Tensor, from_end: bool) -> tuple[None, Tensor]:
    return None, _take(grad, index, UNCHECKED, from_end)


@primitive(dtypes={"base": STORED, "index": INDEX, "source": STORED})
def _put(
    base: Tensor, index: Tensor, source: Tensor, site: str, from_end: bool
) -> Tensor:
    """Return `base` with rows replaced by those of `source`; the last one wins.

    `base` is (outer, rows, inner), `source` (outer, entries, inner), and `index`
    (entries) or one per element of `source`.
    """


@_put.spec
def _put_spec(
    base: TensorSpec, index: TensorSpec, source: TensorSpec, **_: object
) -> TensorSpec:
    if base.dtype is not source.dtype:
        raise DTypeError(
            f"put: base is {base.dtype.name} and source {source.dtype.name};"
            " they must be the same"
        )
    return base


@_put.kernel
def _put_kernel(
    gpu: DeviceInfo,
    base: StridedSpec,
    index: StridedSpec,
    source: StridedSpec,
    site: str,
    from_end: bool,
) -> list[Dispatch]:
    outer, rows, inner = base.shape
    if index.ndim == 1:
        outer, inner = 1, 1
    entries, targets = source.shape[1], outer * rows * inner
    places = Scratch("places", index.numel * 4)
    last = Scratch("last", targets * 4)
    push: dict[str, Argument] = {"entries": entries, "inner": inner}
    numbered = push | {"indices": "index", "out_": places, "rows": rows}
    numbered["error"] = IndexSlot(site, rows)
    marked, whole = push | {"places": places, "out_": last}, Range(0, targets)
    found = [
        linear_dispatch(
            "index/flat_offset",
            index.numel,
            numbered | {"count": index.numel, **entry_divisors(entries, inner)},
            index_constants(index, from_end),
        ),
        linear_dispatch(
            "index/last_writer",
            targets,
            marked | {"count": targets, **whole._asdict()},
            {"CLEAR": 1},
        ),
        *(
            linear_dispatch(
                "index/last_writer",
                index.numel,
                marked | {"count": index.numel, **each._asdict()},
                {"CLEAR": 0},
            )
            for each in place_ranges(gpu, targets, 4, index.numel)
        ),
    ]
    if index.ndim == 1 and not base.shape[2] * base.dtype.itemsize % WORD:
        begun = first_copy(gpu, "put", base, "base", "out")
        return [begun, *found, _over_rows(gpu, base, source, places, last)]
    winner = TensorSpec((targets,) if index.ndim == 1 else base.shape, int32)
    winners: dict[str, Argument] = {"x": "source", "indices": last, "base": "base"}
    # A missing entry is -1, which must not count from the end.
    given = source, winner, base, winners
    reading = index_constants(winner, from_end=False)
    chosen = gather_dispatch(gpu, *given, UNCHECKED, reading)
    return [*found, chosen]


def _over_rows(
    gpu: DeviceInfo,
    base: TensorSpec,
    source: StridedSpec,
    places: Scratch,
    last: Scratch,
) -> Dispatch:
    """Return the dispatch that writes rows of whole words over those that they name."""
    words, entries = words_of("put", source), source.shape[1]
    row, start = (
        n * base.dtype.itemsize for n in (base.shape[2], source.layout.offset)
    )
    vectors = gpu.target.vec4_loads and row % VECTOR == 0 and start % VECTOR == 0
    size = VECTOR if vectors else WORD
    count, width = words * WORD // size, row // size
    push: dict[str, Argument] = {"source": "source", "places": places, "last": last}
    push |= {"out_": "out", "count": count, "entries": entries}
    push |= {"rows": base.shape[1], "width": width, **entry_divisors(entries, width)}
    defines = {"BYTES": str(size)}
    return linear_dispatch("index/put_rows", count, push, defines=defines)


@_put.vjp
def _put_vjp(
    grad: Tensor,
    index: Tensor,
    source_spec: TensorSpec,
    needs: tuple[bool, bool, bool],
    from_end: bool,
) -> tuple[Tensor | None, None, Tensor | None]:
    grad_base, grad_source = None, None
    if needs[0]:
        zero = fill_like(grad, (1, 1, 1), 0, grad.dtype)
        grad_base = store_rows(grad, index, zero, UNCHECKED, from_end)
    if needs[2]:
        # Duplicates all get it, though only the last was written: as in PyTorch.
        grad_source = _take(grad, index, UNCHECKED, from_end)
    return grad_base, None, grad_source


@_put.reference
def _put_reference(
    base: np.ndarray, index: np.ndarray, source: np.ndarray, site: str, from_end: bool
) -> np.ndarray:
    rows = checked_rows(index, base.shape[1], site, from_end)
    out = base.copy()
    for entry in range(source.shape[1]):
        if index.ndim == 1:
            out[:, rows[entry]] = source[:, entry]
        else:
            np.put_along_axis(out, rows[:, entry, None], source[:, entry, None], 1)
    return out


@primitive(dtypes={"base": STORED, "index": INDEX, "source": STORED})
def _store_rows(
    base: Tensor, index: Tensor, source: Tensor, site: str, from_end: bool
) -> Tensor:
    """Return `base` with rows replaced in any order; see `store_rows`."""


@_store_rows.spec
def _store_rows_spec(
    base: TensorSpec, index: TensorSpec, source: TensorSpec, **_: object
) -> TensorSpec:
    return _put_spec(base, index, source)


@_store_rows.kernel
def _store_rows_kernel(
    gpu: DeviceInfo,
    base: StridedSpec,
    index: StridedSpec,
    source: StridedSpec,
    site: str,
    from_end: bool,
) -> list[Dispatch]:
    outer, rows, inner = base.shape
    single, size = source.numel == 1, base.dtype.itemsize
    if index.ndim == 3:
        outer, _, inner = index.shape
    elif not single and gpu.target.vec4_loads:
        # Rows of whole vectors are stored by them.
        starts = inner, source.layout.offset
        while size < VECTOR and not any(
            n * base.dtype.itemsize % (2 * size) for n in starts
        ):
            size *= 2
        inner = inner * base.dtype.itemsize // size
    entries = index.shape[index.ndim // 2]
    count = outer * entries * inner
    for each in (base, source):
        words_of("put", each)
    push: dict[str, Argument] = {"source": "source", "indices": "index", "out_": "out"}
    push |= {"error": IndexSlot(site, rows), "count": count, "rows": rows}
    push |= {"entries": entries, "inner": inner, **entry_divisors(entries, inner)}
    constants = {"SINGLE": int(single), "EACH": int(index.ndim == 3)}
    repeated = single and count > REPEATED * base.numel
    constants |= {"REPEATED": int(repeated), **index_constants(index, from_end)}
    defines = {"BYTES": str(size)}
    stored = linear_dispatch("index/store_rows", count, push, constants, defines)
    return [first_copy(gpu, "put", base, "base", "out"), stored]


REPEATED = 4
"""Stores of one value for each element from which those that have it are left alone."""


@_store_rows.vjp
def _store_rows_vjp(
    grad: Tensor,
    index: Tensor,
    source_spec: TensorSpec,
    needs: tuple[bool, bool, bool],
    from_end: bool,
) -> tuple[Tensor | None, None, Tensor | None]:
    return _put_vjp(grad, index, source_spec, needs, from_end)


@_store_rows.reference
def _store_rows_reference(
    base: np.ndarray, index: np.ndarray, source: np.ndarray, site: str, from_end: bool
) -> np.ndarray:
    rows, out = checked_rows(index, base.shape[1], site, from_end), base.copy()
    if rows.ndim == 1:
        out[:, rows] = source
    else:
        np.put_along_axis(out, rows, source, 1)
    return out


def store_rows(
    base: Tensor,
    index: Tensor,
    source: Tensor,
    site: str = UNCHECKED,
    from_end: bool = False,
) -> Tensor:
    """Return `base` with rows replaced; indices of any integer dtype.

    `source` is as in `put_rows`, and what names one place must be alike. Or it is
    (1, 1, 1), one element for all, which takes no gradient.
    """
    index = readable_index("index", index)
    if not index.numel() or 0 in base.layout.shape:
        return lazy_copy(base)
    feature = base.dtype.storage_feature
    device = base.device
    if isinstance(device, GpuDevice) and base.dtype.itemsize < WORD and feature:
        if not getattr(device.gpu.info, feature):
            outer, _, inner = base.layout.shape
            each = (outer, index.numel(), inner) if index.ndim == 1 else index.shape
            return _put(base, index, expand(source, each), site, from_end)
    return _store_rows(base, index, source, site, from_end)


ANY_ENTRIES = 1 << 20
"""Entries from which any that name one place may win on a GPU: 16 Mi random ones into
as many float16 took 748 us with the last found, which took two passes over them, a
place each and atomics, on an NVIDIA H200 (580.159.04, 2026-11-29)."""


def take_rows(
    x: Tensor,
    index: Tensor,
    site: str = UNCHECKED,
    from_end: bool = False,
    dims: Dims = (1, 2),
) -> Tensor:
    """Return rows of (outer, rows, inner); indices of any integer dtype.

    Or of a tensor of which a range of dimensions, `dims`, are the rows.
    """
    index = readable_index("index", index)
    layout = x.layout
    if (
        type(layout) is Layout  # not batched, nor made of others
        and isinstance(x.device, GpuDevice)
        and not layout.is_contiguous
        and gathers_in_place(x.spec, layout, dims, index.spec)
    ):
        index = index if index.layout.is_contiguous else contiguous_copy(index)
        return _take_strided(x, index, dims, site, from_end)
    return _take(reshape(x, _parts(x.layout.shape, dims)), index, site, from_end)


def put_rows(
    base: Tensor,
    index: Tensor,
    source: Tensor,
    site: str = UNCHECKED,
    from_end: bool = False,
    last: bool = False,
) -> Tensor:
    """Return `base` with rows replaced; indices of any integer dtype.

    Of those that name one place the last wins; any may if not `last`, where it pays.
    """
    if 0 in source.layout.shape:
        return lazy_copy(base)
    if not last and any_entry_wins(base, index):
        return store_rows(base, index, source, site, from_end)
    return _put(base, readable_index("index", index), source, site, from_end)


def any_entry_wins(base: Tensor, index: Tensor) -> bool:
    """Return whether any of the entries that name one place may be written there.

    To find the last takes more than twice as long where there are many on a GPU. Rows
    of several elements, which could be of two entries, are always the last.
    """
    device = base.device
    single = len(index.layout.shape) == 3 or base.layout.shape[2] == 1
    if not single or not isinstance(device, GpuDevice) or is_deterministic():
        return False
    return index.numel() >= ANY_ENTRIES and device.gpu.info.target.hides_latency


def add_rows(
    base: Tensor,
    index: Tensor,
    source: Tensor,
    site: str = UNCHECKED,
    from_end: bool = False,
) -> Tensor:
    """Return `base` with rows added; indices of any integer dtype."""
    if 0 in source.layout.shape:
        return lazy_copy(base)
    index = readable_index("index", index)
    compute, rows = sum_dtype(base.dtype), base.layout.shape[1]
    if sums_at_once(index, source, rows) or _gathers_segments(index, source, rows):
        return _add_gathered(base, index, source, site, from_end)
    if compute is not base.dtype:
        wide = cast(base, compute), index, atomic_source(source, compute)
        return cast(add_rows(*wide, site, from_end), base.dtype)
    by_atomics = _sums_by_atomics(index, source, compute, gradient=False)
    if not base.dtype.is_complex and by_atomics:
        return _add_rows(base, index, source, site, from_end)
    source = source if source.dtype is compute else cast(source, compute)
    return add(base, segment_sum(index, source, rows, site, from_end))


@composite(dtypes={"base": SUM_DTYPES, "index": INDEX, "source": GATHERED})
def _add_rows(
    base: Tensor, index: Tensor, source: Tensor, site: str, from_end: bool
) -> Tensor:
    """Return `base` with rows added by atomics."""
    return scatter_atomic(base, index, source, "sum", True, site, from_end)


@composite(dtypes={"base": GATHERED, "index": INDEX, "source": GATHERED})
def _add_gathered(
    base: Tensor, index: Tensor, source: Tensor, site: str, from_end: bool
) -> Tensor:
    """Return `base` with rows added, each row by itself."""
    rows = base.layout.shape[1]
    summed = matched_sum if sums_at_once(index, source, rows) else _gathered_sum
    return summed(index, source, base, rows, site, from_end)


@_add_gathered.vjp
@_add_rows.vjp
def _add_rows_vjp(
    grad: Tensor, index: Tensor, source_spec: TensorSpec, from_end: bool
) -> tuple[Tensor, None, Tensor]:
    taken = _take(grad, index, UNCHECKED, from_end)
    return grad, None, as_dtype_of(taken, source_spec.dtype)
