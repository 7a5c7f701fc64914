"""Selection of the first elements of an order, or one, without sorting the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base.dtype import DType, int32
from ..base.shape import TensorSpec, ceil_div
from ..ir.kernel_call import Argument, BufferOffset, Dispatch, Scratch, fold_grid
from .gpu_model import model_of
from .linear import linear_dispatch
from .radix_sort import key_defines
from .reduce import WORKGROUP
from .shader_types import place_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

MOST_SELECTED = 1024
"""Elements that a workgroup selects, which it sorts in shared memory."""

LEAST_LINE = 1024
"""Size of lines from which selection pays."""

LEAST_SHARE = 4
"""Elements of a chunk for each that is selected, at least."""

LEAST_CHUNK = 8192
"""Elements that one workgroup selects from, at least, if a line has them."""

WIDE_CHUNK, WIDE_GROUP = 16384, 1024
"""Elements from which a workgroup is as large as this."""

SHARED_MEMORY = 32768
"""Bytes of shared memory that suffice for `MOST_SELECTED` of 8 bytes."""


def pays_to_select(gpu: DeviceInfo, x: TensorSpec, most: int) -> bool:
    """Whether to select the first `most` of (outer, count, inner), and sort them."""
    count = x.shape[1]
    few = most <= MOST_SELECTED and LEAST_SHARE * most <= count
    has_room = gpu.max_shared_memory >= SHARED_MEMORY
    return gpu.target.hides_latency and has_room and few and count >= LEAST_LINE


def select_dispatches(
    gpu: DeviceInfo,
    x: TensorSpec,
    most: int,
    descending: bool,
    source: str,
    results: Mapping[str, str],
    places: DType,
) -> list[Dispatch]:
    """Return the dispatches that find the first `most` in order; see `sort_dispatches`.

    Long lines are split into chunks, for which a workgroup each selects; what they have
    found is selected from likewise.
    """
    outer, count, inner = x.shape
    lines, size = outer * inner, x.dtype.itemsize
    steps: list[Dispatch] = []
    read: dict[str, Argument] = {"x": source, "places": source, "inner": inner}
    while True:
        chunk = _chunk_size(gpu, lines, count, most)
        chunks = ceil_div(count, chunk)
        is_last = chunks == 1
        kept = (chunks - 1) * most + min(most, count - (chunks - 1) * chunk)
        # Levels differ in size, which falls.
        at = 4 * ceil_div(size * lines * kept, 4)
        area = Scratch("selected", at + 4 * lines * kept)
        out: dict[str, Argument] = {"values": area, "order": BufferOffset(area, at)}
        out = {name: results[name] for name in out} if is_last else out
        push = read | out | {"lines": lines, "count": count, "chunks": chunks}
        push |= {"chunk_size": chunk, "most": most, "kept": kept}
        push["inner_out"] = inner if is_last else 1
        group = WIDE_GROUP if chunk >= WIDE_CHUNK else WORKGROUP
        constants = {"LOCAL_X": min(group, gpu.max_workgroup_invocations)}
        constants |= {"SLOTS": 1 << max(1, (most - 1).bit_length())}
        constants |= {"DESCENDING": int(descending), "HAS_PLACES": int(bool(steps))}
        wide = place_defines(places if is_last else int32)
        defines = {**key_defines(x.dtype), **wide}
        grid = fold_grid(lines * chunks)
        steps.append(Dispatch("sort/select_rows", grid, push, constants, defines))
        if is_last:
            return steps
        read = {"x": area, "places": BufferOffset(area, at), "inner": 1}
        count = kept


def _chunk_size(gpu: DeviceInfo, lines: int, count: int, most: int) -> int:
    """Return how many elements of each line a workgroup selects from."""
    wanted = ceil_div(model_of(gpu).full_reduction_groups, lines)
    least = max(LEAST_CHUNK, LEAST_SHARE * most)
    chunks = max(1, min(wanted, count // least))
    return ceil_div(count, chunks)


SHORT_LINE = 128
"""Size of lines up to which a workgroup sorts several and takes an element of each."""

HELD_ITEMS = 16
"""Elements of a line that an invocation holds, at most."""

SMALL_LINE = 1024
"""Size of lines up to which digits have 8 bits, not 11: there are fewer bins to sum."""

MOST_LINE = 1 << 16
"""Size of lines from which several workgroups share one, where there are few."""

RANK_CHUNK = 1 << 14
"""Elements of a line that one of these takes, at least."""

MISSING = ("counts", "takes_place", "left_out")
"""What NaN does, in the order of `sort/rank.glsl`: it is above every number; the last
one is taken, if there is any; or the median of all others is."""

DIGIT_BITS = 11
STATE_WORDS = 16 + (1 << DIGIT_BITS)
"""As in `sort/rank_chunks`."""


def rank_dispatches(
    gpu: DeviceInfo,
    x: TensorSpec,
    rank: int,
    missing: str,
    source: str,
    results: Mapping[str, str],
    places: DType,
) -> list[Dispatch]:
    """Return the dispatches that find the element of one rank, from 0, of each line.

    Parameters
    ----------
    gpu : DeviceInfo
    x : TensorSpec, shape (lines, count)
    rank : int
    missing : str
        One of `MISSING`.
    source : str
        The node's argument.
    results : mapping of str to str
        The node's results for "values" and for "order", places.
    places : DType
        Of the order.
    """
    lines, count = x.shape
    push: dict[str, Argument] = {"x": source, **results}
    push |= {"lines": lines, "count": count}
    constants = {"MISSING": MISSING.index(missing) if x.dtype.is_float else 0}
    defines = {**key_defines(x.dtype), **place_defines(places)}
    if count <= SHORT_LINE:
        width = 1 << max(1, (count - 1).bit_length())
        push |= {"inner": 1, "most": rank}
        constants |= {"LOCAL_X": WORKGROUP, "WIDTH": width, "DESCENDING": 0}
        constants |= {"HAS_VALUES": 1, "RANKED": 1}
        grid = fold_grid(ceil_div(lines, 2 * WORKGROUP // width))
        return [Dispatch("sort/short_rows", grid, push, constants, defines)]
    push |= {"rank": rank, "place_bits": (count - 1).bit_length()}
    wanted = model_of(gpu).full_reduction_groups
    if count > MOST_LINE and lines < wanted:
        chunks = min(ceil_div(wanted, lines), ceil_div(count, RANK_CHUNK))
        return _rank_passes(gpu, x, chunks, push, constants, defines)
    most = min(WIDE_GROUP, gpu.max_workgroup_invocations)
    group = min(most, max(64, 1 << (ceil_div(count, 8) - 1).bit_length()))
    items = ceil_div(count, group)
    # Not every length deserves a pipeline.
    items = items if items <= 8 else HELD_ITEMS if items <= HELD_ITEMS else 0
    constants |= {"LOCAL_X": group, "ITEMS": items}
    constants["DIGIT_BITS"] = 8 if count <= SMALL_LINE else DIGIT_BITS
    return [Dispatch("sort/select_rank", fold_grid(lines), push, constants, defines)]


def _rank_passes(
    gpu: DeviceInfo,
    x: TensorSpec,
    chunks: int,
    push: Mapping[str, Argument],
    constants: Mapping[str, int],
    defines: Mapping[str, str],
) -> list[Dispatch]:
    """Return a pass for each digit of keys, and of places, and one that stores.

    Passes after the one that is left with one element do nothing.
    """
    lines, count = x.shape
    words = lines * STATE_WORDS
    states = Scratch("states", 4 * words)
    zero: dict[str, Argument] = {"out_": states, "words": states, "count": words}
    chunk = ceil_div(count, chunks)
    push = {**push, "states": states, "chunk_size": chunk}
    push["chunks"] = chunks = ceil_div(count, chunk)
    size = min(WORKGROUP, gpu.max_workgroup_invocations)
    bits = 8 * x.dtype.itemsize
    per_word = ceil_div(min(bits, 32), DIGIT_BITS)
    rounds = per_word * ceil_div(bits, 32)
    rounds += ceil_div((count - 1).bit_length(), DIGIT_BITS)
    steps = [linear_dispatch("copy/fill_zero", ceil_div(words, 4), zero)]
    for number in range(rounds + 1):
        chosen = {"LOCAL_X": size, "PASS": 0 if number == 0 else 1, **constants}
        chosen["PASS"] = 2 if number == rounds else chosen["PASS"]
        grid = fold_grid(lines * chunks)
        steps.append(Dispatch("sort/rank_chunks", grid, push, chosen, defines))
    return steps
