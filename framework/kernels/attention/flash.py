"""Flash attention without tensor cores: tiles and launch parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...base.shape import ceil_div
from ...ir.kernel_call import Argument, Dispatch, StridedSpec, check_rounds, fold_grid
from ..reduce import need_countable
from ..shader_types import storage_defines
from .coopmat import fits, tensor_core_dispatch, tiles_of
from .simt import KERNELS, simt_tile

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

MOST_HEAD = 256
"""Largest head size that the kernels have registers for."""

GPU_TILE = {"LOCAL_X": 128, "LANES": 32, "ROWS": 8, "TILE": 2, "STAGED": 1}
"""Four teams of eight rows, and 64 vectors of the other side."""


class QuadTile(NamedTuple):
    """Tile of a workgroup where head sizes are whole vec4.

    Attributes
    ----------
    invocations, lanes : int
        Of a workgroup, and of a team.
    rows, tile : int
        Own vectors of a team, and those of the other side of an invocation.
    """

    invocations: int
    lanes: int
    rows: int
    tile: int

    @property
    def shared_memory(self) -> int:
        """Upper bound of its shared memory in bytes."""
        block, pitch = (
            self.invocations // self.lanes * self.rows,
            self.tile * self.lanes + 4,
        )
        return 4 * ((block + SLAB) * pitch + self.invocations + block)

    def constants(self) -> dict[str, int]:
        """Return the specialization constants of the tile."""
        names = ("LOCAL_X", "LANES", "ROWS", "TILE")
        return {**dict(zip(names, self)), "STAGED": 1}


QUAD = 4
"""Elements of a vec4 load."""

SLAB = 16
"""Elements of each vector staged in shared memory at a time."""

QUAD_TILES = {
    "attention/flash": {128: QuadTile(64, 8, 8, 8)},
    "attention/flash_dq": {
        64: QuadTile(64, 8, 8, 8),
        128: QuadTile(128, 16, 8, 8),
    },
    "attention/flash_dkv": {64: QuadTile(128, 16, 8, 8)},
}
"""By the largest head size, the quickest of several on an NVIDIA H200 (driver
580.159.04, 2026-11-21)."""

SMALL_QUAD_TILE = QuadTile(128, 16, 4, 4)
"""Tile of larger head sizes, which need registers, of little shared memory, and of wide
subgroups: a SIMD unit of Vega holds two, and one of the others (RADV 25.0.7)."""

SOFTWARE_ROWS = 8
SOFTWARE_TILE = 4
"""One subgroup is one team: barriers between subgroups are dear there. Of long vectors
it takes half the rows, for the driver compiles a line for each sum."""


class AttentionCall(NamedTuple):
    """Attention or one of its gradients: what the op's kernel rule is given.

    Attributes
    ----------
    gpu : DeviceInfo
    q, k, v : StridedSpec, shape (batch, heads, rows, columns)
    mask, seed : StridedSpec or None
    scale : float
    causal : bool
    dropout : float
    tensor_cores : bool
        Whether the kernels for tensor cores may be used.
    incoming, logsumexp, delta : StridedSpec or None
        Of a gradient: the result's, and what forward saved.
    """

    gpu: DeviceInfo
    q: StridedSpec
    k: StridedSpec
    v: StridedSpec
    mask: StridedSpec | None
    seed: StridedSpec | None
    scale: float
    causal: bool
    dropout: float
    tensor_cores: bool
    incoming: StridedSpec | None = None
    logsumexp: StridedSpec | None = None
    delta: StridedSpec | None = None


def flash_dispatch(
    kernel: str,
    arguments: Mapping[str, Argument],
    call: AttentionCall,
    *,
    large_simt: bool = True,
) -> Dispatch:
    """Return the dispatch of a kernel built on `attention/flash_body.glsl`.

    `arguments` are those that not all of them take. With `tensor_cores` it is the
    tensor-core kernel, if that supports the call; otherwise that with large register
    tiles, if the device has room for them, unless `large_simt` is false.
    """
    gpu, q, k, v, mask = call.gpu, call.q, call.k, call.v, call.mask
    batch, heads, queries, head = q.shape
    key_heads, keys = k.shape[1:3]
    push = attention_arguments(kernel, arguments, call)
    options = {"CAUSAL": int(call.causal), "HAS_MASK": int(mask is not None)}
    options["DROPOUT"] = int(call.seed is not None)
    vectors = [q, k, v] if call.incoming is None else [q, k, v, call.incoming]
    on_tensor_cores = call.tensor_cores and fits(vectors, call.scale)
    if on_tensor_cores and tiles_of(kernel, q.dtype, head) is not None:
        return tensor_core_dispatch(kernel, push, q, k, v, options)
    head_sizes = {"HEAD": head, "VALUE_HEAD": v.shape[3]}
    longest = max(x.shape[3] for x in vectors)
    rows, groups = (keys, key_heads) if "grad_k" in push else (queries, heads)
    tile = None
    if large_simt:
        tile = simt_tile(gpu, kernel, longest, rows, batch * groups)
    if tile is not None:
        defines = dict(storage_defines(q.dtype))
        if all(map(is_vec4_aligned, vectors)):
            defines["QUADS"] = "1"
        grid = fold_grid(ceil_div(rows, tile.block) * batch * groups)
        constants = tile.constants() | head_sizes | options
        return Dispatch(KERNELS[kernel], grid, push, constants, defines)
    constants, defines = _tile(gpu, kernel, vectors)
    block = constants["ROWS"] * constants["LOCAL_X"] // constants["LANES"]
    span = constants["TILE"] * constants["LANES"]
    by_keys = "grad_k" in push
    own, other = (keys, queries * heads // key_heads) if by_keys else (queries, keys)
    # The loops of the kernels are unrolled by two or four elements.
    rounds = head + v.shape[3] + span if "grad" in push else (head + span) // 2 + span
    check_rounds(gpu, kernel, ceil_div(other, span) * rounds)
    constants |= head_sizes | options
    groups = ceil_div(own, block) * batch * (key_heads if by_keys else heads)
    return Dispatch(kernel, fold_grid(groups), push, constants, defines)


def attention_arguments(
    kernel: str, arguments: Mapping[str, Argument], call: AttentionCall
) -> dict[str, Argument]:
    """Return the arguments of `attention/arguments.glsl`, and a kernel's own."""
    q, k, mask = call.q, call.k, call.mask
    batch, heads, queries, _ = q.shape
    key_heads, keys = k.shape[1:3]
    push = {**arguments, "q": "q", "k": "k", "v": "v", "mask": "mask" if mask else "q"}
    push |= {"seed": "seed" if call.seed else "q", "batch": batch, "heads": heads}
    push |= {"group": heads // key_heads, "queries": queries, "keys": keys}
    push |= {"scale": call.scale, "dropout": call.dropout}
    for name, x in (("q", q), ("k", k), ("v", call.v), ("mask", mask)):
        push |= _strides(kernel, name, x)
    return push


def _strides(kernel: str, name: str, x: StridedSpec | None) -> dict[str, int]:
    """Return the strides of a tensor as arguments; vectors are contiguous."""
    if x is not None:
        need_countable(kernel, x)
    strides = (0,) * 4 if x is None else x.layout.strides
    labels = ("batch", "head", "row", "column")[: 4 if name == "mask" else 3]
    return {f"{name}_{label}": stride for label, stride in zip(labels, strides)}


def _tile(
    gpu: DeviceInfo, kernel: str, vectors: Sequence[StridedSpec]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the tile's constants and macros."""
    defines = dict(storage_defines(vectors[0].dtype))
    longest = max(x.shape[3] for x in vectors)
    if not gpu.target.fast_shared_memory:
        size = gpu.subgroup_size
        rows = SOFTWARE_ROWS if vectors[0].shape[3] <= 64 else SOFTWARE_ROWS // 2
        found = {"LOCAL_X": size, "LANES": size, "TILE": SOFTWARE_TILE, "STAGED": 0}
        return found | {"ROWS": min(size, rows)}, defines
    if all(map(is_vec4_aligned, vectors)):
        tile = _quad_tile(gpu, kernel, longest)
        return tile.constants(), defines | {"QUADS": "1"}
    return dict(GPU_TILE), defines


def is_vec4_aligned(x: StridedSpec) -> bool:
    """Return whether the vectors of a tensor are whole, aligned vec4."""
    steps = (x.shape[3], x.layout.offset, *x.layout.strides[:3])
    return not any(step % QUAD for step in steps)


def _quad_tile(gpu: DeviceInfo, kernel: str, head: int) -> QuadTile:
    """Return the workgroup tile, within the limits of registers and shared memory."""
    if gpu.target.wide_subgroups:
        return SMALL_QUAD_TILE
    for most, tile in QUAD_TILES[kernel].items():
        if head <= most and tile.shared_memory <= gpu.max_shared_memory:
            return tile
    return SMALL_QUAD_TILE
