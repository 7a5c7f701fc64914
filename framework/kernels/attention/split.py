"""Split-KV attention of few queries: a workgroup for each slice of the keys.

The heads that share keys are rows of one workgroup, which reads the keys once. A second
kernel combines the slices, or, in a step of decoding, the last workgroup to finish.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ...base.dtype import float64
from ...base.shape import TensorSpec, ceil_div
from ...ir.kernel_call import (
    Argument,
    Dispatch,
    IndexSlot,
    PersistentScratch,
    Scratch,
    divisor,
    fold_grid,
)
from ..gpu_model import model_of
from ..reduce import need_countable
from ..shader_types import full_subgroup, storage_defines
from .flash import MOST_HEAD, AttentionCall, attention_arguments

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...ir.kernel_call import StridedSpec

SITE = "KeyValueCache: the room"
"""Site of positions that are out of range; see `base.index_checks`."""

PAGE_SITE = "PagedCache: the pool of pages"
"""Site of pages that are out of range."""

MOST_QUERIES = 32
"""More queries than these are worth a tile of their own; 0 splits nothing."""

MOST_CACHED_QUERIES = 16
"""The same for a cache, over which tensor cores go in place."""

LEAST_KEYS = 256
"""Fewer keys than these are not worth a second kernel."""

LEAST_SLICE = 128
"""Least keys of a slice, whose results are written and read once more."""

LEAST_CACHED_SLICE = 128
"""Least keys of a slice of a cache, which are divided up on the device."""

GROUPS = 8
"""Workgroups per multiprocessor that the slices are to make."""

CACHED_GROUPS = 4
"""The same for slices of a cache."""

CACHED_GROUPS_OF_MANY = 2
"""The same where a slice has a workgroup for each multiprocessor."""

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
        scores = self.rows * (self.invocations + 32 // self.rows + self.span + 2)
        return WORD * (tile + own) + 4 * (scores + self.invocations + 1)


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
    """Return whether `decode_dispatches` has a tile for queries of a cache."""
    few = 0 < q.shape[2] <= MOST_CACHED_QUERIES and 0 < q.shape[3] <= MOST_HEAD
    if not few or 0 in (*q.shape, *k.shape):
        return False
    return _cached_tile(q, k).shared_memory <= gpu.max_shared_memory


def _cached_tile(q: TensorSpec, k: TensorSpec) -> SplitTile:
    return split_tile(q, k, k, CACHED_INVOCATIONS_OF_ROWS)


def decode_dispatches(
    call: AttentionCall,
    new: tuple[StridedSpec, StridedSpec],
    angles: tuple[StridedSpec, StridedSpec] | None,
    padding: StridedSpec | None,
    tables: StridedSpec | None,
    window: int | None,
    cap: float | None,
) -> list[Dispatch]:
    """Return the dispatches of tokens that are added to a cache, and attend to it.

    The device divides the keys up to its position among the slices, of which there are
    as many as fill the device, if each has `LEAST_CACHED_SLICE` keys; without keys they
    end at once. The last workgroup to finish combines them.

    Parameters
    ----------
    call : AttentionCall
        Its keys and values are the cache, of pages if there are tables.
    new : (StridedSpec, StridedSpec)
        Keys and values of the tokens.
    angles : (StridedSpec, StridedSpec) or None
        Cosines and sines.
    padding, tables : StridedSpec or None
    window : int or None
    cap : float or None
    """
    q, cache = call.q, call.k
    tile = _cached_tile(q, cache)
    blocks = _blocks(call, tile)
    multiprocessors = model_of(call.gpu).multiprocessors
    fill = CACHED_GROUPS if blocks < multiprocessors else CACHED_GROUPS_OF_MANY
    wanted = ceil_div(fill * multiprocessors, blocks)
    pages, _, page, _ = cache.shape
    keys = page if tables is None else page * tables.shape[1]
    slices = max(1, min(wanted, ceil_div(keys, LEAST_CACHED_SLICE)))
    kernel, turned = "attention/flash_split", 0
    own: dict[str, Argument] = {"position": "position", "pages": pages}
    own |= {"new_k": "k", "new_v": "v", "cosine": "q", "sine": "q", "out_": "out"}
    own |= {"padding": "padding" if padding else "position"}
    own |= {"tables": "tables" if tables else "position"}
    magic, shift = divisor(slices)
    own |= {"slice_keys": LEAST_CACHED_SLICE}
    own |= {"slices_magic": magic, "slices_shift": shift}
    own |= {"window": window or 0, "cap": cap or 0.0}
    own |= {"error": IndexSlot(SITE, keys), "page_error": IndexSlot(PAGE_SITE, pages)}
    own |= {"table_batch": 0, "table_row": 0, "finished": PersistentScratch(4 * blocks)}
    own |= _areas(call, slices)
    for name, x in zip(("new_k", "new_v"), new, strict=True):
        need_countable(kernel, x)
        for label, stride in zip(("batch", "head", "row"), x.layout.strides):
            own[f"{name}_{label}"] = stride
    aligned = all(is_aligned(x, tile.vector) for x in (cache, *new))
    if angles is not None:
        whole, count, turned = angles[0].shape
        own |= {"cosine": "cosine", "sine": "sine", "table_row": turned}
        own["table_batch"] = 0 if whole == 1 else count * turned
    pairs = aligned and turned % (2 * tile.vector) == 0 and is_aligned(q, tile.vector)
    if angles is not None:
        pairs = pairs and all(is_aligned(x, tile.vector) for x in angles)
    push = attention_arguments(kernel, own, call)
    push |= {"k": "new_keys", "v": "new_values", "keys": keys}
    constants = _constants(call, tile) | {"ALIGNED": int(aligned)}
    constants |= {"KEY_HEADS": cache.shape[1], "GROUP": q.shape[1] // cache.shape[1]}
    # Any number of more would have a pipeline each.
    constants |= {"QUERIES": 1 if q.shape[2] == 1 else 0}
    constants |= {"HAS_PADDING": int(padding is not None)}
    constants |= {"CAPPED": int(cap is not None)}
    constants |= {"PAGE": 0 if tables is None else page}
    constants |= {"TURNED": turned, "TURNED_WORDS": int(pairs)}
    constants |= _cluster(call.gpu, tile)
    defines = {**_defines(call, tile), "CACHED": "1"}
    width, height, _ = fold_grid(blocks)
    grid = width, slices, height
    return [Dispatch(kernel, grid, push, constants, defines)]


def split_dispatches(call: AttentionCall) -> list[Dispatch]:
    """Return the dispatches of the split-KV kernels: slices, and the combination."""
    q, k, v = call.q, call.k, call.v
    tile, keys = split_tile(q, k, v), k.shape[2]
    blocks = _blocks(call, tile)
    length = _slice_length(call.gpu, blocks, keys, tile.span)
    slices = ceil_div(keys, length)
    areas = _areas(call, slices)
    own: dict[str, Argument] = {"slice_keys": length, "slices": slices, **areas}
    kernel = "attention/flash_split"
    aligned = is_aligned(k, tile.vector) and is_aligned(v, tile.vector)
    constants = _constants(call, tile) | {"ALIGNED": int(aligned)}
    constants |= _cluster(call.gpu, tile)
    (batch, heads, queries, _), width = q.shape, v.shape[3]
    rows = batch * heads * queries
    combined: dict[str, Argument] = {**areas, "out_": "out", "logsumexp": "logsumexp"}
    combined |= {"rows": rows, "heads": heads, "queries": queries, "slices": slices}
    return [
        Dispatch(
            kernel,
            fold_grid(blocks * slices),
            attention_arguments(kernel, own, call),
            constants,
            _defines(call, tile),
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
            storage_defines(q.dtype),
        ),
    ]


def _blocks(call: AttentionCall, tile: SplitTile) -> int:
    """Return the workgroups that a slice of the keys has."""
    (batch, heads, queries, _), key_heads = call.q.shape, call.k.shape[1]
    return batch * key_heads * ceil_div(heads // key_heads * queries, tile.rows)


def _areas(call: AttentionCall, slices: int) -> dict[str, Argument]:
    """Return the memory of what slices give."""
    rows, width = math.prod(call.q.shape[:3]), ceil_div(call.v.shape[3], 4) * 4
    sums = Scratch("sums", 4 * slices * rows * width)
    return {"sums": sums, "statistics": Scratch("statistics", 8 * slices * rows)}


def _constants(call: AttentionCall, tile: SplitTile) -> dict[str, int]:
    """Return the constants that calls of both kinds have."""
    constants = {"LOCAL_X": tile.invocations, "HEAD": call.q.shape[3]}
    constants |= {"VALUE_HEAD": call.v.shape[3], "ROWS": tile.rows, "SPAN": tile.span}
    return constants | {"HAS_MASK": int(call.mask is not None)}


def _defines(call: AttentionCall, tile: SplitTile) -> dict[str, str]:
    """Return the macros that calls of both kinds have."""
    shuffles = {"SHUFFLES": "1"} if _cluster(call.gpu, tile) else {}
    return {**storage_defines(call.q.dtype), **shuffles}


def _cluster(gpu: DeviceInfo, tile: SplitTile) -> dict[str, int]:
    """Return the constant of rows' sums by shuffles, if subgroups are to take them."""
    size = full_subgroup(gpu, tile.invocations)
    return {"CLUSTER": min(size, tile.invocations // tile.rows)} if size else {}


def _slice_length(gpu: DeviceInfo, blocks: int, keys: int, span: int) -> int:
    """Return the keys of a slice, whole tiles: as many slices as fill the device."""
    wanted = ceil_div(GROUPS * model_of(gpu).multiprocessors, blocks)
    slices = max(1, min(wanted, keys // LEAST_SLICE))
    return ceil_div(ceil_div(keys, slices), span) * span


def is_aligned(x: StridedSpec, vector: int) -> bool:
    """Return whether the vectors of a tensor are whole words of `vector` elements."""
    strides = [
        stride for size, stride in zip(x.shape[:-1], x.layout.strides) if size > 1
    ]
    steps = (x.shape[-1], x.layout.offset, *strides)
    return not any(step % vector for step in steps)
