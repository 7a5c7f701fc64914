"""Split-KV attention of few queries: a workgroup for each slice of the keys.

The heads that share keys are rows of one workgroup, which reads the keys once; a second
kernel combines the slices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...base.dtype import float64
from ...base.shape import TensorSpec, ceil_div
from ...ir.kernel_call import Argument, Dispatch, Scratch, fold_grid
from ..gpu_model import model_of
from ..shader_types import storage_defines
from .flash import MOST_HEAD, AttentionCall, attention_arguments

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...ir.kernel_call import StridedSpec

MOST_QUERIES = 32
"""More queries than these are worth a tile of their own; 0 splits nothing."""

MOST_CACHED_QUERIES = 16
"""The same for a cache, over which tensor cores go in place."""

LEAST_KEYS = 256
"""Fewer keys than these are not worth a second kernel."""

LEAST_SLICE = 128
"""Least keys of a slice, whose results are written and read once more."""

LEAST_CACHED_SLICE = 64
"""Least keys of a slice of a cache, which are divided up on the device."""

GROUPS = 8
"""Workgroups per multiprocessor that the slices are to make."""

CACHED_GROUPS = 4
"""The same for slices of a cache."""

MOST_ROWS = 8
"""Queries of a workgroup, all heads that share keys together; a power of two to 32."""

INVOCATIONS = 128
"""Invocations of a workgroup with one query, a power of two."""

INVOCATIONS_OF_ROWS = 64
"""Invocations of a workgroup with more, whose sums take registers; a power of two."""

CACHED_INVOCATIONS_OF_ROWS = 128
"""The same for a cache: fewer have more loads each, whose code is read for each launch
of a decoding step, as the kernels between have taken its place."""

QUERIES_WITH_TENSOR_CORES = 8
"""More queries than these are quicker on tensor cores, if their workgroups, one for
each head, fill the device."""

TILE_BYTES = 1 << 14
"""Bytes of a tile of keys, which bounds its length."""

WORD = 16
"""Bytes of a load."""

COMBINING = MOST_HEAD
"""Invocations of a workgroup of the second kernel, one for each of a row's results."""


class SplitTile(NamedTuple):
    """Tile of a workgroup.

    Attributes
    ----------
    rows : int
        Queries, of all heads that share keys.
    span : int
        Keys of a step.
    words : int
        Words of 16 bytes of a key.
    vector : int
        Elements of a word.
    invocations : int
        Invocations of the workgroup.
    """

    rows: int
    span: int
    words: int
    vector: int
    invocations: int

    @property
    def shared_memory(self) -> int:
        """Its shared memory in bytes."""
        quads = self.vector // 4
        tile = max(self.span * (self.words | 1), self.invocations * quads)
        own = self.rows * self.words * quads
        scores = self.rows * (self.invocations + 32 // self.rows) + self.rows
        return WORD * (tile + own) + 4 * (scores + self.invocations)


def split_tile(
    q: TensorSpec,
    k: TensorSpec,
    v: TensorSpec,
    invocations_of_rows: int = INVOCATIONS_OF_ROWS,
) -> SplitTile:
    """Return the tile of a call."""
    rows = q.shape[1] // k.shape[1] * q.shape[2]
    vector = WORD // q.dtype.itemsize
    words = ceil_div(q.shape[3], vector)
    # A line of invocations has a vector's words.
    few = rows > 1 and max(q.shape[3], v.shape[3]) <= invocations_of_rows * vector
    invocations = invocations_of_rows if few else INVOCATIONS
    span = min(invocations, TILE_BYTES // WORD // words)
    return SplitTile(
        min(MOST_ROWS, 1 << (rows - 1).bit_length()),
        1 << (span.bit_length() - 1),
        words,
        vector,
        invocations,
    )


def splits_keys(
    gpu: DeviceInfo,
    q: TensorSpec,
    k: TensorSpec,
    v: TensorSpec,
    causal: bool,
    dropout: float,
) -> bool:
    """Return whether a call takes the split-KV kernels.

    Not with `causal`, by which the queries see as few keys as they are.
    """
    if not gpu.target.hides_latency or causal or dropout or q.dtype is float64:
        return False
    few = 0 < q.shape[2] <= MOST_QUERIES and k.shape[2] >= LEAST_KEYS
    fits = 0 < min(q.shape[3], v.shape[3]) and max(q.shape[3], v.shape[3]) <= MOST_HEAD
    if not few or not fits or 0 in (q.shape[0], k.shape[1]):
        return False
    return split_tile(q, k, v).shared_memory <= gpu.max_shared_memory


def fills_tensor_cores(gpu: DeviceInfo, q: TensorSpec) -> bool:
    """Return whether tensor cores, if they take a call, are quicker at it.

    There a workgroup has all queries of a head, so that keys which heads share are read
    for each of them.
    """
    heads = q.shape[0] * q.shape[1]
    most = 3 * model_of(gpu).multiprocessors // 4
    return q.shape[2] > QUERIES_WITH_TENSOR_CORES and heads >= most


def fits_cache(gpu: DeviceInfo, q: TensorSpec, k: TensorSpec) -> bool:
    """Return whether `cached_dispatches` has a tile for queries of a cache."""
    few = 0 < q.shape[2] <= MOST_CACHED_QUERIES and 0 < q.shape[3] <= MOST_HEAD
    if not few or 0 in (*q.shape, *k.shape):
        return False
    return _cached_tile(q, k).shared_memory <= gpu.max_shared_memory


def _cached_tile(q: TensorSpec, k: TensorSpec) -> SplitTile:
    return split_tile(q, k, k, CACHED_INVOCATIONS_OF_ROWS)


def cached_dispatches(
    call: AttentionCall,
    padding: StridedSpec | None,
    tables: StridedSpec | None,
    window: int | None,
    cap: float | None,
) -> list[Dispatch]:
    """Return the dispatches of attention over a cache, of pages if there are tables.

    The device divides the keys up to its position among the slices, of which there are
    as many as fill the device, if each has `LEAST_CACHED_SLICE` keys; without keys they
    end at once.
    """
    tile = _cached_tile(call.q, call.k)
    blocks = _blocks(call, tile)
    wanted = ceil_div(CACHED_GROUPS * model_of(call.gpu).multiprocessors, blocks)
    pages, _, page, _ = call.k.shape
    keys = page if tables is None else page * tables.shape[1]
    slices = max(1, min(wanted, ceil_div(keys, LEAST_CACHED_SLICE)))
    own: dict[str, Argument] = {"position": "position", "pages": pages}
    own |= {"padding": "padding" if padding else "position"}
    own |= {"tables": "tables" if tables else "position"}
    own |= {"slice_keys": LEAST_CACHED_SLICE, "slices": slices}
    own |= {"window": window or 0, "cap": cap or 0.0}
    constants = {
        "HAS_PADDING": int(padding is not None),
        "CAPPED": int(cap is not None),
        "PAGE": 0 if tables is None else page,
    }
    no_logsumexp = Scratch("logsumexp", 4 * math.prod(call.q.shape[:3]))
    return _pair(call, keys, tile, own, constants, {"CACHED": "1"}, no_logsumexp)


def split_dispatches(call: AttentionCall) -> list[Dispatch]:
    """Return the dispatches of the split-KV kernels: slices, and the combination."""
    tile, keys = split_tile(call.q, call.k, call.v), call.k.shape[2]
    length = _slice_length(call.gpu, _blocks(call, tile), keys, tile.span)
    own: dict[str, Argument] = {"slice_keys": length, "slices": ceil_div(keys, length)}
    return _pair(call, keys, tile, own, {}, {}, "logsumexp")


def _blocks(call: AttentionCall, tile: SplitTile) -> int:
    """Return the workgroups that a slice of the keys has."""
    (batch, heads, queries, _), key_heads = call.q.shape, call.k.shape[1]
    return batch * key_heads * ceil_div(heads // key_heads * queries, tile.rows)


def _pair(
    call: AttentionCall,
    keys: int,
    tile: SplitTile,
    own: dict[str, Argument],
    more: Mapping[str, int],
    macros: Mapping[str, str],
    logsumexp: str | Scratch,
) -> list[Dispatch]:
    """Return the dispatches of the slices and of the combination."""
    q, k, v = call.q, call.k, call.v
    batch, heads, queries, head = q.shape
    width, rows = v.shape[3], batch * heads * queries
    slices = own["slices"]
    assert isinstance(slices, int)
    sums = Scratch("sums", 4 * slices * rows * width)
    statistics = Scratch("statistics", 8 * slices * rows)
    own = {**own, "sums": sums, "statistics": statistics}
    constants = {"LOCAL_X": tile.invocations, "HEAD": head, "VALUE_HEAD": width}
    constants |= {"ROWS": tile.rows, "SPAN": tile.span}
    constants |= {"HAS_MASK": int(call.mask is not None)}
    constants |= {"ALIGNED": int(_is_aligned(k, tile) and _is_aligned(v, tile)), **more}
    kernel, defines = "attention/flash_split", storage_defines(q.dtype)
    push = attention_arguments(kernel, own, call) | {"keys": keys}
    combined: dict[str, Argument] = {"sums": sums, "statistics": statistics}
    combined |= {"out_": "out", "logsumexp": logsumexp, "rows": rows, "heads": heads}
    combined |= {"queries": queries, "slices": slices}
    return [
        Dispatch(
            kernel,
            fold_grid(_blocks(call, tile) * slices),
            push,
            constants,
            {**defines, **macros},
        ),
        Dispatch(
            "attention/flash_combine",
            fold_grid(rows),
            combined,
            {
                "LOCAL_X": COMBINING,
                "VALUE_HEAD": width,
                "PARTS": COMBINING >> (width - 1).bit_length(),
            },
            defines,
        ),
    ]


def _slice_length(gpu: DeviceInfo, blocks: int, keys: int, span: int) -> int:
    """Return the keys of a slice, whole tiles: as many slices as fill the device."""
    wanted = ceil_div(GROUPS * model_of(gpu).multiprocessors, blocks)
    slices = max(1, min(wanted, keys // LEAST_SLICE))
    return ceil_div(ceil_div(keys, slices), span) * span


def _is_aligned(x: StridedSpec, tile: SplitTile) -> bool:
    """Return whether the vectors of a tensor are whole, aligned words."""
    strides = [
        stride for size, stride in zip(x.shape[:3], x.layout.strides) if size > 1
    ]
    steps = (x.shape[3], x.layout.offset, *strides)
    return not any(step % tile.vector for step in steps)
