"""Rows of the op table for indexing."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from tests.case import Bad, Case, Draw, Sample, sample
from vkbackend.framework import ops
from vkbackend.framework.base.errors import DTypeError, IndexRangeError, ShapeError
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ops.indexing.grid_taps import grid_taps_reference
from vkbackend.framework.ops.indexing.masked import flatnonzero
from vkbackend.framework.ops.indexing.segment_sum import argsort_keys
from vkbackend.framework.ops.indexing.tap_sum import tap_sum


def summed(index: np.ndarray, source: np.ndarray, rows: int) -> np.ndarray:
    """Return rows of `source` added up one after the other."""
    wide = np.float32 if source.dtype == np.float16 else source.dtype
    out = np.zeros((source.shape[0], rows, source.shape[2]), wide)
    if index.ndim == 1:
        np.add.at(out, (slice(None), index), source)
    else:
        outer, _, inner = np.indices(index.shape)
        np.add.at(out, (outer, index, inner), source)
    return out.astype(source.dtype)


def put(base: np.ndarray, index: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return `base` with rows replaced; the last one wins."""
    out = base.copy()
    for entry in range(source.shape[1]):
        if index.ndim == 1:
            out[:, index[entry]] = source[:, entry]
        else:
            np.put_along_axis(out, index[:, entry, None], source[:, entry, None], 1)
    return out


def took(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return rows by index."""
    return x[:, index] if index.ndim == 1 else np.take_along_axis(x, index, 1)


def rows(count: int, low: int, high: int, dtype: str = "int32") -> Draw:
    """Return indices of one dimension."""
    return Draw((count,), low, high, dtype)


EACH = Draw((3, 4, 5), -7, 7, "int64")


def tap_samples(*order: str) -> tuple[Sample, ...]:
    """Return operands of ops over taps, a third of whose indices name none."""
    found = []
    for batch, channels, size, places in (
        (2, 11, 5, 7), (2, 8, 5, 1), (2, 3, 6, 300), (1, 1, 1, 1), (2, 3, 5, 0),
    ):  # fmt: skip
        draws = {
            "x": Draw((batch, channels, size)),
            "slope": Draw((batch, channels, places)),
            "index": Draw((batch, 3, places), -2, min(size, 5), "int32"),
            "weights": Draw((batch, 3, places)),
        }
        found.append(Sample(tuple(draws[name] for name in order)))
    return tuple(found)


def nearest_of(size: tuple[int, ...], padding: str = "zeros") -> dict[str, Any]:
    """Return the keywords of `nearest_samples`."""
    given = taps_of(size, "nearest", padding)
    return {name: value for name, value in given.items() if name != "mode"}


def nearest_elements(x: np.ndarray, grid: np.ndarray, **options: Any) -> np.ndarray:
    """Return the elements nearest to places, 0 outside."""
    index, _ = grid_taps_reference(grid, mode="nearest", **options)
    return np.where(index < 0, x.dtype.type(0), named_elements(x, index)[:, :, 0])


def taps_of(
    size: tuple[int, ...],
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    aligned: bool = False,
) -> dict[str, Any]:
    """Return the keywords of `grid_taps`."""
    return {
        "size": size, "mode": mode, "padding_mode": padding_mode, "aligned": aligned
    }  # fmt: skip


def as_statistics(weights: fw.Tensor) -> fw.Tensor:
    """Return weights in the dtype in which products are added up."""
    return weights if weights.dtype is fw.float64 else weights.float()


def named_elements(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return elements (batch, channels, taps, places), 0 where an index names none."""
    batch = np.arange(len(x))[:, None, None]
    found = np.moveaxis(x[batch, :, index % x.shape[2]], -1, 1)
    return np.where(index[:, None] < 0, 0, found).astype(x.dtype)


def wide(x: np.ndarray) -> np.dtype:
    """Return the dtype in which elements are added up."""
    return np.dtype(np.float32) if x.dtype.itemsize < 4 else x.dtype


SCATTERED = tuple(
    Sample((Draw(base), Draw(index, 0, base[1], "int32"), Draw(source)))
    for base, index, source in (
        ((3, 4, 5), (3, 7, 5), (3, 7, 5)),
        ((3, 4, 5), (7,), (3, 7, 5)),
        ((1, 5, 1), (30,), (1, 30, 1)),
        ((1, 5, 1), (1, 300, 1), (1, 300, 1)),
        ((1, 0, 1), (0,), (1, 0, 1)),
        ((1, 1, 1), (1,), (1, 1, 1)),
    )
)
"""Rows that are combined: with an index for each element, or for each row."""

SCATTERED_ROWS = tuple(SCATTERED[at] for at in (1, 2, 4, 5))
"""Those with an index for each row."""


def combined(
    base: np.ndarray, index: np.ndarray, source: np.ndarray, join: Callable[..., Any]
) -> np.ndarray:
    """Return rows of `base` joined with those of `source` that name them."""
    out = base.copy()
    for outer, entry, inner in np.ndindex(*source.shape):
        row = index[entry] if index.ndim == 1 else index[outer, entry, inner]
        place = outer, row, inner
        out[place] = join(out[place], source[outer, entry, inner])
    return out


def combining(name: str, *rest: Any, end: tuple[bool, ...] = ()) -> Callable[..., Any]:
    """Return an op that combines rows, with its arguments around the site."""
    rest = *rest, "", *end
    return lambda base, index, source: REGISTRY[name](base, index, source, *rest)


BAGS = tuple(
    Sample((Draw(table), rows(entries, 0, table[0])), {"bags": bags})
    for table, entries, bags in (
        ((7, 5), 12, 4),
        ((13, 8), 33, 11),
        ((1, 1), 1, 1),
        ((3, 4), 0, 2),
    )
)
"""Tables, and indices of bags of as many rows each."""

WEIGHTED_BAGS = tuple(
    Sample((*each.draws, Draw(each.draws[1].shape)), each.keywords) for each in BAGS
)


def bag_maximum(weight: fw.Tensor, index: fw.Tensor, bags: int) -> fw.Tensor:
    found, _ = REGISTRY["bag_max"](weight, index, None, bags, -1, "")
    return found


def bagged(
    weight: np.ndarray, index: np.ndarray, *shares: np.ndarray, bags: int
) -> np.ndarray:
    """Return rows (bags, count, width) in the dtype of sums, times shares."""
    taken = weight[index].astype(wide(weight))
    for each in shares:
        taken = taken * each[:, None].astype(taken.dtype)
    return taken.reshape(bags, len(index) // bags, weight.shape[1])


def each_third(shape: tuple[int, ...]) -> np.ndarray:
    """Return a mask that holds for each third element."""
    numbers: np.ndarray = np.arange(math.prod(shape)).reshape(shape) % 3 == 0
    return numbers


def coordinates(mask: fw.Tensor) -> fw.Tensor:
    """Return the coordinates of true elements, counted before."""
    starts, total = REGISTRY["nonzero"](mask)
    count = int(total.item()) if mask.numel() else 0
    given = mask, starts, count, mask.shape, True, fw.int32
    return REGISTRY["true_coordinates"](*given)


def counted(mask: fw.Tensor) -> fw.Tensor:
    """Return the coordinates of true elements, then zeros."""
    found, total = REGISTRY["counted_coordinates"](mask, mask.shape, True, fw.int32)
    rows = fw.arange(mask.numel(), dtype=fw.int32, device=mask.device)[:, None]
    return fw.where(rows < total, found, 0)


def runs(x: fw.Tensor) -> fw.Tensor:
    """Return the first of each run of equal elements, then zeros."""
    found, total = REGISTRY["counted_runs"](x.flatten())
    places = fw.arange(x.numel(), dtype=fw.int32, device=x.device)
    return fw.where(places < total, found, fw.zeros_like(found))


def firsts(x: np.ndarray) -> np.ndarray:
    """Return what `runs` does."""
    flat = x.reshape(-1)
    changed = flat[1:] != flat[:-1]
    found = np.concatenate([flat[:1], flat[1:][changed]])
    return np.concatenate([found, np.zeros(x.size - found.size, x.dtype)])


def elements(x: fw.Tensor) -> fw.Tensor:
    """Return each third element, counted before."""
    mask = fw.tensor(each_third(x.shape), device=x.device)
    starts, total = REGISTRY["nonzero"](mask)
    count = int(total.item()) if mask.numel() else 0
    return REGISTRY["true_elements"](x, mask, starts, count)


def row_beyond(mode: str) -> Bad:
    """Return a call with an index that is out of range."""
    return Bad(
        lambda ones: ops.scatter_reduce(
            ones(3), 0, ones(2, dtype="int32") * 3, ones(2), mode
        ),
        IndexRangeError,
        "scatter_reduce: index 3 is out of range: dimension 0 has size 3",
    )


INDEXING = {
    "scatter_minmax": Case(
        combining("scatter_minmax", True, True),
        SCATTERED,
        lambda base, index, source: combined(base, index, source, np.fmax),
        exact=True,
        bad=(row_beyond("amax"),),
    ),
    "scatter_product": Case(
        combining("scatter_product", True),
        SCATTERED,
        lambda base, index, source: combined(base, index, source, np.multiply),
        scale=20,  # up to a hundred factors
        bad=(row_beyond("prod"),),
    ),
    "scatter_sum": Case(
        combining("scatter_sum", "sum", True),
        SCATTERED,
        lambda base, index, source: combined(base, index, source, np.add),
        scale=20,  # up to a hundred terms
    ),
    "column_reduce": Case(
        combining("column_reduce", "max", True),
        SCATTERED,
        lambda base, index, source: combined(base, index, source, np.fmax),
        exact=True,
        gradient=False,
        bad=(row_beyond("amax"),),
    ),
    "scatter_atomic": Case(
        combining("scatter_atomic", "min", True, end=(False,)),
        SCATTERED,
        lambda base, index, source: combined(base, index, source, np.fmin),
        exact=True,
        gradient=False,
        bad=(row_beyond("amin"),),
    ),
    "bag_reduce": Case(
        lambda weight, index, bags: REGISTRY["bag_reduce"](
            weight, index, None, bags, "sum", -1, ""
        ),
        BAGS,
        lambda weight, index, bags: (
            bagged(weight, index, bags=bags).sum(1).astype(weight.dtype)
        ),
        bad=(
            Bad(
                lambda ones: fw.nn.functional.embedding_bag(
                    ones(1, 2, dtype="int32") * 3, ones(3, 2)
                ),
                IndexRangeError,
                "embedding_bag: index 3 is out of range: weight has size 3",
            ),
        ),
    ),
    "weighted_bag_sum": Case(
        lambda weight, index, shares, bags: REGISTRY["weighted_bag_sum"](
            weight, index, None, shares, bags, -1, ""
        ),
        WEIGHTED_BAGS,
        lambda weight, index, shares, bags: (
            bagged(weight, index, shares, bags=bags).sum(1).astype(weight.dtype)
        ),
        scale=4,  # products
    ),
    "bag_max": Case(
        bag_maximum,
        BAGS,
        lambda weight, index, bags: (
            bagged(weight, index, bags=bags)
            .max(1, initial=-np.inf if index.size else 0)
            .astype(weight.dtype)
        ),
        exact=True,
    ),
    "take": Case(
        lambda x, index: REGISTRY["take"](x, index, "", True),
        (
            Sample((Draw((3, 7, 5)), rows(11, -7, 7))),
            Sample((Draw((3, 7, 4)), rows(5, 0, 7, "int64"))),
            Sample((Draw((3, 7, 5)), EACH)),
            Sample((Draw((1, 113, 1)), rows(300, 0, 113, "uint32"))),
            Sample((Draw((3, 0, 5)), rows(0, 0, 1))),
            Sample((Draw((1, 1, 1)), rows(1, 0, 1))),
        ),
        took,
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.index_select(ones(3), 0, ones(2, dtype="int32") * 3),
                IndexRangeError,
                "index_select: index 3 is out of range: dimension 0 has size 3",
            ),
            Bad(
                lambda ones: ops.gather(ones(3), 0, ones(2)),
                DTypeError,
                "index: the indices are float32; they must be integers",
            ),
        ),
    ),
    "take_strided": Case(
        lambda x, index: REGISTRY["take_strided"](
            x.transpose(0, 2), index.contiguous(), (1, 2), "", True
        ),
        (
            Sample((Draw((5, 7, 3)), rows(11, -7, 7))),
            Sample((Draw((5, 7, 3)), EACH)),
            Sample((Draw((1, 113, 4)), rows(300, 0, 113, "uint32"))),
            Sample((Draw((5, 0, 3)), rows(0, 0, 1))),
            Sample((Draw((1, 1, 1)), rows(1, 0, 1))),
        ),
        lambda x, index: took(x.transpose(2, 1, 0), index),
        exact=True,
    ),
    "put": Case(
        lambda x, index, src: REGISTRY["put"](x, index, src, "", True),
        (
            Sample((Draw((3, 7, 5)), rows(11, -7, 7), Draw((3, 11, 5)))),
            Sample((Draw((3, 7, 5)), EACH, Draw((3, 4, 5)))),
            Sample((Draw((2, 3, 4)), rows(1, 0, 3, "uint64"), Draw((2, 1, 4)))),
            Sample((Draw((3, 7, 5)), rows(0, 0, 1), Draw((3, 0, 5)))),
            Sample((Draw((1, 1, 1)), rows(1, 0, 1), Draw((1, 1, 1)))),
        ),
        put,
        exact=True,
        bad=(
            Bad(
                lambda ones: REGISTRY["put"](
                    ones(1, 2, 1),
                    ones(1, dtype="int32"),
                    ones(1, 1, 1, dtype="int32"),
                    "",
                    True,
                ),
                DTypeError,
                "put: base is float32 and source int32; they must be the same",
            ),
        ),
    ),
    "chosen": Case(
        lambda x: ops.masked_select(
            x, fw.tensor(each_third(tuple(x.shape)), device=x.device)
        ),
        (sample((7, 11)), sample((3, 5, 4)), sample((0, 3)), sample((1,))),
        torch=lambda x: torch.masked_select(x, torch.from_numpy(each_third(x.shape))),
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.masked_select(ones(3), ones(3)),
                DTypeError,
                "flatnonzero: `mask` is float32; accepted: bool",
            ),
        ),
    ),
    "store_rows": Case(
        lambda x, index, src: REGISTRY["store_rows"](x, index, src, "", True),
        (
            Sample((Draw((3, 7, 5)), rows(1, -7, 7), Draw((3, 1, 5)))),
            Sample((Draw((3, 7, 8)), rows(1, 0, 7, "int64"), Draw((3, 1, 8)))),
            Sample((Draw((3, 7, 5)), Draw((3, 1, 5), -7, 7, "int64"), Draw((3, 1, 5)))),
            Sample((Draw((3, 7, 5)), rows(0, 0, 1), Draw((3, 0, 5)))),
            Sample((Draw((1, 1, 1)), rows(1, 0, 1), Draw((1, 1, 1)))),
        ),
        put,
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.index_fill(
                    ones(3), 0, ones(2, dtype="int32") * 3, 1.0
                ),
                IndexRangeError,
                "index_fill: index 3 is out of range: dimension 0 has size 3",
            ),
        ),
    ),
    "segment_sum": Case(
        lambda index, x, rows: REGISTRY["segment_sum"](index, x, rows, "", True),
        (
            Sample((rows(11, -7, 7), Draw((3, 11, 5))), {"rows": 7}),
            Sample((EACH, Draw((3, 4, 5))), {"rows": 7}),
            # More than one block, more than one chunk.
            Sample((rows(1031, 0, 37), Draw((1, 1031, 3))), {"rows": 37}),
            Sample((rows(0, 0, 1), Draw((3, 0, 5))), {"rows": 7}),
            Sample((rows(1, 0, 1), Draw((1, 1, 1))), {"rows": 1}),
        ),
        summed,
        scale=20,  # dozens of terms of size 2
    ),
    "flat_offsets": Case(
        lambda x, rows: REGISTRY["flat_offsets"](
            fw.full_like(x, rows - 1), rows, "", True
        ),
        (
            sample((3, 4, 5), rows=2),
            sample((3, 0, 5), rows=2),
            sample((1, 1, 1), rows=1),
        ),
        lambda x, rows: np.ravel_multi_index(
            (
                np.indices(x.shape)[0],
                np.full(x.shape, rows - 1),
                np.indices(x.shape)[2],
            ),
            (x.shape[0], rows, x.shape[2]),
        ).astype(np.int32),
        gradient=False,
        bad=(
            Bad(
                lambda ones: REGISTRY["flat_offsets"](
                    ones(1, 1, 2, dtype="int32"), 1 << 31, "", True
                ),
                ShapeError,
                "index: 4294967296 elements are more than an int32 counts",
            ),
        ),
    ),
    "median": Case(
        ops.median,
        tuple(Sample((Draw(shape),)) for shape in ((7, 11), (113,), (1,), (37,))),
        torch=torch.median,
        exact=True,
    ),
    "argsort_keys": Case(
        REGISTRY["argsort_keys"],
        (
            sample((37,)),
            sample((1031,)),
            sample((256,)),
            sample((3001,)),
            sample((1,)),
            sample((0,)),
        ),
        lambda keys: np.argsort(keys.astype(np.uint32), kind="stable").astype(np.int32),
        gradient=False,
    ),
    "sorted_segment_sum": Case(
        lambda rows, source: REGISTRY["sorted_segment_sum"](
            rows, argsort_keys(rows), source, 7
        ),
        (
            Sample((rows(37, -2, 7), Draw((2, 37, 3)))),
            Sample((rows(0, 0, 1), Draw((2, 0, 3)))),
            Sample((rows(1, 0, 7), Draw((1, 1, 1)))),
        ),
        lambda rows, source: summed(rows[rows >= 0], source[:, rows >= 0], 7),
        gradient=False,
        scale=20,  # dozens of terms of size 2
    ),
    "add_rows": Case(
        combining("add_rows", end=(True,)),
        SCATTERED,
        lambda base, index, source: combined(base, index, source, np.add),
        scale=20,  # up to a hundred terms
        bad=(
            Bad(
                lambda ones: ops.index_add(
                    ones(3), 0, ones(2, dtype="int32") * 3, ones(2)
                ),
                IndexRangeError,
                "index_add: index 3 is out of range: dimension 0 has size 3",
            ),
        ),
    ),
    "add_gathered": Case(
        combining("add_gathered", end=(True,)),
        SCATTERED_ROWS,
        lambda base, index, source: combined(base, index, source, np.add),
        scale=20,  # up to a hundred terms
        bad=(
            Bad(
                lambda ones: ops.index_add(
                    ones(3), 0, ones(2, dtype="int32") * 3, ones(2)
                ),
                IndexRangeError,
                "index_add: index 3 is out of range: dimension 0 has size 3",
            ),
        ),
    ),
    "gathered_segment_sum": Case(
        lambda rows, source: REGISTRY["gathered_segment_sum"](
            rows, argsort_keys(rows), source, None, 7
        ),
        (
            Sample((rows(37, -2, 7), Draw((2, 37, 3)))),
            Sample((rows(0, 0, 1), Draw((2, 0, 3)))),
            Sample((rows(1, 0, 7), Draw((1, 1, 1)))),
        ),
        lambda rows, source: summed(rows[rows >= 0], source[:, rows >= 0], 7),
        gradient=False,
        scale=20,  # dozens of terms of size 2
    ),
    "matched_sum": Case(
        lambda index, source: REGISTRY["matched_sum"](
            index, source, None, 7, "index_add: dimension 0", False
        ),
        (
            Sample((rows(37, 0, 7), Draw((2, 37, 3)))),
            Sample((Draw((2, 11, 3), 0, 7, "int64"), Draw((2, 11, 3)))),
            Sample((rows(0, 0, 1), Draw((2, 0, 3)))),
            Sample((rows(1, 0, 7), Draw((1, 1, 1)))),
        ),
        lambda index, source: summed(index, source, 7),
        gradient=False,
        scale=20,  # dozens of terms of size 2
    ),
    "grid_taps": Case(
        lambda grid, **options: REGISTRY["grid_taps"](grid, **options),
        (
            Sample((Draw((2, 9, 2)),), taps_of((4, 5))),
            Sample((Draw((2, 9, 2)),), taps_of((4, 5), "bicubic", "reflection")),
            Sample((Draw((1, 7, 3)),), taps_of((2, 3, 4), "nearest", "border", True)),
            Sample((Draw((2, 0, 2)),), taps_of((4, 5))),
            Sample((Draw((1, 1, 2)),), taps_of((1, 1))),
        ),
        lambda grid, **options: grid_taps_reference(grid, **options),
        gradient=False,
        scale=8,  # weights are products of up to three
    ),
    "nearest_samples": Case(
        lambda x, grid, **options: REGISTRY["nearest_samples"](x, grid, **options)[0],
        (
            Sample((Draw((2, 3, 20)), Draw((2, 9, 2))), nearest_of((4, 5))),
            Sample(
                (Draw((1, 2, 24)), Draw((1, 7, 3))), nearest_of((2, 3, 4), "border")
            ),
            Sample((Draw((2, 3, 20)), Draw((2, 0, 2))), nearest_of((4, 5))),
            Sample((Draw((1, 1, 1)), Draw((1, 1, 2))), nearest_of((1, 1))),
        ),
        nearest_elements,
        exact=True,
    ),
    "tap_sum": Case(
        tap_sum,
        tap_samples("x", "index", "weights"),
        lambda x, index, weights: np.einsum(
            "nctp,ntp->ncp", named_elements(x, index), weights
        ),
        scale=8,  # sums of three products of size 4
    ),
    "tap_scatter": Case(
        lambda slope, index, weights: REGISTRY["tap_scatter"](
            slope, index, as_statistics(weights), 6
        ),
        tap_samples("slope", "index", "weights"),
        lambda slope, index, weights: np.einsum(
            "ncp,ntp,ntps->ncs",
            slope,
            weights,
            index[..., None] == np.arange(6),
            dtype=wide(slope),
        ).astype(slope.dtype),
        scale=8,  # sums of some products of size 4
    ),
    "tap_products": Case(
        lambda slope, x, index: REGISTRY["tap_products"](slope, x, index),
        tap_samples("slope", "x", "index"),
        lambda slope, x, index: np.einsum(
            "ncp,nctp->ntp", slope, named_elements(x, index), dtype=wide(x)
        ),
        scale=8,  # sums of eleven products of size 4
    ),
    "run_starts": Case(
        lambda x: REGISTRY["run_starts"](x.flatten()),
        tuple(sample(shape) for shape in ((7, 11), (1031,), (2,), (1,), (0, 3))),
        lambda x: (
            np.concatenate([[True], x.reshape(-1)[1:] != x.reshape(-1)[:-1]])
            if x.size
            else x.astype(bool).reshape(-1)
        ),
        gradient=False,
        exact=True,
    ),
    "counted_runs": Case(
        runs,
        tuple(sample(shape) for shape in ((7, 11), (1031,), (2,), (1,))),
        firsts,
        gradient=False,
        exact=True,
    ),
    "true_coordinates": Case(
        coordinates,
        tuple(sample(shape) for shape in ((7, 11), (1031,), (3, 1, 29), (1,), (0, 3))),
        lambda mask: np.argwhere(mask).astype(np.int32),
        gradient=False,
    ),
    "counted_coordinates": Case(
        counted,
        tuple(sample(shape) for shape in ((7, 11), (1031,), (3, 1, 29), (1,), (0, 3))),
        lambda mask: np.pad(
            np.argwhere(mask).astype(np.int32),
            ((0, mask.size - np.count_nonzero(mask)), (0, 0)),
        ),
        gradient=False,
    ),
    "true_elements": Case(
        elements,
        tuple(sample(shape) for shape in ((7, 11), (1031,), (1,), (0, 3))),
        lambda x: x[each_third(x.shape)],
        exact=True,
    ),
    "counted_elements": Case(
        lambda x: ops.masked_select(x, fw.tensor(each_third(x.shape), device=x.device)),
        tuple(sample(shape) for shape in ((7, 11), (1031,), (1,), (0, 3))),
        lambda x: x[each_third(x.shape)],
        exact=True,
    ),
    "padded_elements": Case(
        lambda x: REGISTRY["padded_elements"](
            x, fw.tensor(each_third(x.shape), device=x.device), x.numel()
        ),
        tuple(sample(shape) for shape in ((7, 11), (1031,), (1,), (0, 3))),
        lambda x: np.resize(
            np.concatenate([x[each_third(x.shape)], np.zeros_like(x).reshape(-1)]),
            x.size,
        ),
        exact=True,
    ),
    "masked_store": Case(
        lambda x, source: REGISTRY["masked_store"](
            x, fw.tensor(each_third(x.shape), device=x.device), source, ""
        ),
        tuple(
            Sample((Draw(shape), Draw((math.prod(shape),))))
            for shape in ((7, 11), (1031,), (1,), (0, 3))
        ),
        lambda x, source: (
            np.where(
                mask := each_third(x.shape),
                source[np.cumsum(mask).reshape(x.shape) - mask],
                x,
            )
            if x.size
            else x
        ),
        exact=True,
        bad=(
            Bad(
                lambda ones: ops.masked_scatter(ones(3), ones(3) > 0, ones(2)),
                IndexRangeError,
                "masked_scatter: index 2 is out of range: source has size 2",
            ),
        ),
    ),
    "nonzero": Case(
        lambda mask: flatnonzero(mask.reshape(-1)),
        tuple(sample(shape) for shape in ((7, 11), (1031,), (20_011,), (1,), (0, 3))),
        lambda mask: np.flatnonzero(mask).astype(np.int32),
        gradient=False,
    ),
}
