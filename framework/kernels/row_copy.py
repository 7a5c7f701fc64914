"""Copies of rows with uniform loads, on software devices whose loads those are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..base.shape import ceil_div
from ..codegen.ir.program import DIGIT_WORDS, MAX_UNIFORM
from ..ir.kernel_call import Argument, Dispatch, divisor, fold_grid

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

WORD = 4
"""Bytes of a word."""

MOST_ROUNDS = 16
"""Loads of two words by each invocation; half as many, and so on, of short rows."""

LANES = (4, 8)
"""Subgroup sizes that `lib/uniform_row.glsl` has loads for."""


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
