"""Copies of rows by vectors: with uniform loads on software devices, or of 16 bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..base.shape import Layout, ceil_div, collapse
from ..codegen.ir.program import DIGIT_WORDS, MAX_UNIFORM
from ..ir.kernel_call import (
    Argument,
    BufferOffset,
    Dispatch,
    StridedSpec,
    divisor,
    fold_grid,
)
from .linear import COPY_ITEMS, MIN_COPY_ITEMS, linear_dispatch, words_of

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

WORD = 4
"""Bytes of a word."""

VECTOR = 16
"""Bytes of the loads and stores of a GPU."""

MOST_ROUNDS = 16
"""Loads of two words by each invocation; half as many, and so on, of short rows."""

LANES = (4, 8)
"""Subgroup sizes that `lib/uniform_row.glsl` has loads for."""


LEAST_WORDS = 1 << 13
"""Words of a layout from which it is copied by rows; a fused copy may join others."""

LEAST_LENGTH = 128
"""Words of a row from which that is quicker; pairs of words, at even places."""

SEGMENT = 128
"""Vectors of a row that are gathered for all entries before the next: rows that several
entries name are read again from the L2 cache, which a table's whole rows do not fit."""

FEW_ENTRIES = 64
"""Entries below which an invocation has one, for its neighbours store beside it."""

MOST_PARTS = 8
"""Dispatches of a layout with one dimension more than `Rows`."""


class Rows(NamedTuple):
    """Rows (outer, inner) of contiguous words, and their distances.

    Attributes
    ----------
    length : int
        Words of a row.
    outer, inner : int
        How many rows there are.
    source, out : (int, int)
        Words from one outer row to the next, and from one inner row to the next.
    """

    length: int
    outer: int
    inner: int
    source: tuple[int, int]
    out: tuple[int, int]


def copies_rows(gpu: DeviceInfo, rows: Rows) -> bool:
    """Return whether `row_dispatch` copies such rows quickest: never on a GPU."""
    return (
        gpu.target.uniform_loads
        and gpu.subgroup_size in LANES
        and rows.length >= 2 * gpu.subgroup_size
        and reach(rows, rows.source) <= MAX_UNIFORM
    )


def reach(rows: Rows, steps: tuple[int, int]) -> int:
    """Return the words from the first row's first to the last row's last."""
    outer, inner = steps
    return (rows.outer - 1) * outer + (rows.inner - 1) * inner + rows.length


def first_copy(
    gpu: DeviceInfo, name: str, x: StridedSpec, source: str, out: str
) -> Dispatch:
    """Return the dispatch with which a result begins that has not its input's memory.

    `name` is that of the op, for `words_of`; `source` and `out` are names of the input
    and of the result, which later dispatches change.
    """
    found = whole_copy(gpu, name, x, source, out)
    return dataclasses.replace(found, copies=(source, out))


def whole_copy(
    gpu: DeviceInfo, name: str, x: StridedSpec, source: str, out: str
) -> Dispatch:
    """Return the dispatch that copies all words of an input; see `first_copy`."""
    words = words_of(name, x)
    whole = Rows(words, 1, 1, (words, 0), (words, 0))
    if copies_rows(gpu, whole):
        return row_dispatch(gpu, whole, source, out)
    push: dict[str, Argument] = {"x": source, "out_": out, "count": words}
    aligned = x.layout.offset * x.dtype.itemsize % VECTOR == 0
    wide = gpu.target.vec4_loads and aligned
    each, defines = (VECTOR // WORD, {"VECTORS": "1"}) if wide else (1, {})
    return linear_dispatch("copy/words", ceil_div(words, each), push, defines=defines)


def rows_of(layout: Layout, itemsize: int) -> tuple[Rows, int, int] | None:
    """Return a layout's rows, how many times it has such, and the words between them.

    None where it has more dimensions, or rows that are no words one after the other.
    """
    sizes, (strides,) = collapse(layout.shape, [layout.strides])
    if not sizes or len(sizes) > 4 or strides[-1] != 1:
        return None
    reach = [sizes[-1], layout.offset, *strides[:-1]]
    if any(each * itemsize % WORD for each in reach):
        return None
    missing = 4 - len(sizes)
    parts, outer, inner, length = (1,) * missing + sizes
    apart = (0,) * missing + tuple(each * itemsize // WORD for each in strides[:-1])
    length = length * itemsize // WORD
    source, out = (apart[1], apart[2]), (inner * length, length)
    rows = Rows(length, outer, inner, source, out)
    return rows, parts, apart[0]


def copies_layout(gpu: DeviceInfo, layout: Layout, itemsize: int) -> bool:
    """Return whether `layout_dispatches` copies a layout quickest: never on a GPU."""
    if not gpu.target.uniform_loads or layout.numel * itemsize < WORD * LEAST_WORDS:
        return False
    found = rows_of(layout, itemsize)
    if found is None or found[1] > MOST_PARTS:
        return False
    length = found[0].length
    return length % 2 == 0 and length >= LEAST_LENGTH and copies_rows(gpu, found[0])


def layout_dispatches(
    gpu: DeviceInfo, layout: Layout, itemsize: int, source: str, out: str
) -> list[Dispatch]:
    """Return the dispatches that copy a layout into row-major order."""
    found = rows_of(layout, itemsize)
    assert found is not None, f"{layout} has no rows of words"
    rows, parts, apart = found
    size = rows.outer * rows.inner * rows.length
    return [
        row_dispatch(
            gpu,
            rows,
            BufferOffset(source, WORD * part * apart),
            BufferOffset(out, WORD * part * size),
            part * size % 2 == 0,
        )
        for part in range(parts)
    ]


def row_dispatch(
    gpu: DeviceInfo,
    rows: Rows,
    source: Argument,
    out: Argument,
    even: bool = True,
) -> Dispatch:
    """Return the dispatch that copies rows, which `copies_rows`.

    Parameters
    ----------
    gpu : DeviceInfo
    rows : Rows
    source, out : Argument
        Addresses of whole words.
    even : bool, default True
        Whether that of `out` is of two words.
    """
    push: dict[str, Argument] = {"source": source, "out_": out, "inner": rows.inner}
    push |= {"source_outer": rows.source[0], "source_inner": rows.source[1]}
    push |= {"out_outer": rows.out[0], "out_inner": rows.out[1]}
    return _dispatch(gpu, "copy/rows", rows, push, {}, even)


def gathered_row_dispatch(
    gpu: DeviceInfo,
    rows: Rows,
    push: Mapping[str, Argument],
    constants: Mapping[str, int],
) -> Dispatch:
    """Return the dispatch that copies rows by index, with further arguments.

    The rows are those of the result.
    """
    return _dispatch(gpu, "index/gather_rows", rows, push, constants, True)


def gathered_vector_dispatch(
    rows: Rows,
    entries: int,
    push: Mapping[str, Argument],
    constants: Mapping[str, int],
) -> Dispatch:
    """Return the dispatch that copies `entries` rows of whole vectors by index.

    The rows are those of the source.
    """
    width = rows.length * WORD // VECTOR
    several = rows.outer * entries * width >= MIN_COPY_ITEMS and entries >= FEW_ENTRIES
    items = COPY_ITEMS if several else 1
    segments = ceil_div(width, SEGMENT)
    segment, lines = ceil_div(width, segments), ceil_div(entries, items)
    count = rows.outer * segments * lines * segment
    places: dict[str, Argument] = {"width": width, "count": count, "lines": lines}
    places |= {"segment": segment, "segments": segments}
    for k, number in enumerate((segment, lines, segments)):
        places[f"magic[{k}]"], places[f"shift[{k}]"] = divisor(number)
    constants = {**constants, "ITEMS": items}
    return linear_dispatch("index/gather_vectors", count, {**push, **places}, constants)


def _dispatch(
    gpu: DeviceInfo,
    kernel: str,
    rows: Rows,
    push: Mapping[str, Argument],
    constants: Mapping[str, int],
    even: bool,
) -> Dispatch:
    lanes, rounds = gpu.subgroup_size, MOST_ROUNDS
    while 2 * lanes * rounds > rows.length:
        rounds //= 2
    segments = ceil_div(rows.length, 2 * lanes * rounds)
    count = rows.outer * rows.inner * segments
    places: dict[str, Argument] = {"width": rows.length, "segments": segments}
    places |= {"count": count, **dict(DIGIT_WORDS)}
    for k, number in enumerate((segments, rows.inner)):
        places[f"magic[{k}]"], places[f"shift[{k}]"] = divisor(number)
    paired = even and not any(number % 2 for number in (rows.length, *rows.out))
    constants = {"LOCAL_X": lanes, "PAIRED": int(paired), **constants}
    defines = {"LANES": str(lanes), "ROUNDS": str(rounds)}
    return Dispatch(kernel, fold_grid(count), {**push, **places}, constants, defines)
