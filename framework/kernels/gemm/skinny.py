"""Skinny GEMM on tensor cores: few rows, and a right operand that lies along K.

Subgroups of a workgroup share K and wait for each other once, so that loads of the
right operand, which is read once, do not wait for barriers. See
`matmul/gemm_skinny.comp`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from ...base.dtype import DType
from ...base.shape import ceil_div
from ...ir.kernel_call import (
    Argument,
    Dispatch,
    PersistentScratch,
    Scratch,
    StridedSpec,
    fold_grid,
)
from ..gpu_model import model_of
from ..quantized import FLOATS_PIECE, GATES
from ..shader_types import (
    decoded_defines,
    format_defines,
    group_constant,
    storage_defines,
)
from .pack import GemmOperand, fits, vector_operand
from .tiles import FP16_ACCUMULATE, TENSOR_CORES

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...base.quantized_format import QuantizedFormat

MOST_ROWS = 64
"""Rows of the left operand; the sums of more have no place in registers."""

STEPS = (64, 32)
"""K of a subgroup's step, the longest that fits first."""

EDGE = 16
"""Rows and columns of a cooperative matrix."""

VECTOR = 8
"""Elements of a 16-byte vector."""

MOST_ROWS_OF_FLOATS = 32
"""The same where the right operand is not quantized."""

LEAST_FLOATS = 1 << 20
"""Elements of such an operand that are worth it."""

SUBGROUPS = (8, 6, 4, 3, 2, 1)
"""Subgroups of a workgroup, the most that have room first."""

COLUMNS = (64, 32)
"""Columns of a workgroup."""

RESIDENT = 2
"""Workgroups of floats that a multiprocessor has room for."""

MOST_SPLITS = 4
"""Workgroups that may share the K of a tile of quantized elements."""

SPLIT_GROUPS = 4
"""Workgroups per multiprocessor that these are to make: the fewer there are, the fewer
loads are in flight."""

LEAST_SPLIT_CHUNKS = 2
"""Least chunks of a subgroup of theirs that are worth a way through memory."""

LEAST_CHUNKS = 4
"""The same of floats."""

MOST_WAVES = 8
"""Tiles for each workgroup that has room at once, from which on tiles stay whole."""


class SkinnyTile(NamedTuple):
    """Tile of a workgroup.

    Attributes
    ----------
    rows, columns : int
    step : int
        K of a subgroup's step.
    subgroups : int
        Which share K.
    """

    rows: int
    columns: int
    step: int
    subgroups: int

    @property
    def shared_memory(self) -> int:
        """Its shared memory in bytes."""
        stage = (self.rows + self.columns) * (self.step // VECTOR + 1)
        strip = EDGE * (self.columns // 4 + 1)
        return 16 * self.subgroups * max(stage, strip)


def skinny_tile(
    gpu: DeviceInfo, rows: int, columns: int, k: int, piece: int
) -> SkinnyTile | None:
    """Return the tile of a product, or None where the kernel does not take it.

    Parameters
    ----------
    gpu : DeviceInfo
        With tensor cores.
    rows, columns, k : int
    piece : int
        Elements that an invocation decodes at once.
    """
    lanes = gpu.subgroup_size
    if not 0 < rows <= MOST_ROWS or columns < 1:
        return None
    height = ceil_div(rows, EDGE) * EDGE
    wanted = model_of(gpu).multiprocessors
    found = [
        SkinnyTile(height, width, step, subgroups)
        for step in STEPS
        if k % step == 0 and step % piece == 0
        if height * step // VECTOR % lanes == 0
        for width in COLUMNS
        if width * step // piece % lanes == 0
        for subgroups in SUBGROUPS
        if subgroups <= min(gpu.max_workgroup_invocations // lanes, k // step)
    ]
    found = [each for each in found if each.shared_memory <= gpu.max_shared_memory]
    found = [each for each in found if each.step == found[0].step]
    filling = (each for each in found if ceil_div(columns, each.columns) >= wanted)
    narrow = min(found, key=lambda each: each.columns, default=None)
    return next(filling, narrow)


def skinny_coopmat(
    gpu: DeviceInfo,
    x: StridedSpec,
    columns: int,
    row_size: int,
    kind: QuantizedFormat | None,
    names: tuple[str, str],
    has_bias: bool = False,
    gate: str | None = None,
) -> list[Dispatch] | None:
    """Return the dispatches of a product of few rows on tensor cores, or None.

    Parameters
    ----------
    gpu : DeviceInfo
        With tensor cores for the dtype of `x`.
    x : StridedSpec, shape (rows, k), float16 or bfloat16
    columns : int
        Rows of the right operand.
    row_size : int
        Between these: bytes of blocks, or vectors of 16 bytes.
    kind : QuantizedFormat or None
        Of the right operand; None if it has the dtype of `x`.
    names : (str, str)
        What the op calls `x` and the right operand.
    has_bias : bool, default False
        Whether `bias`, of shape (columns,), is added to each row.
    gate : str, optional
        One of `quantized.GATES`, a function of the product with `gate`, a right operand
        as the other; its results multiply those.
    """
    rows, k = x.shape
    piece = kind.piece if kind else FLOATS_PIECE
    tile = skinny_tile(gpu, rows, columns, k, piece)
    if tile is None:
        return None
    layout = x.layout
    batch = layout._replace(shape=(1, rows, k), strides=(0, *layout.strides))
    left = GemmOperand(names[0], StridedSpec((1, rows, k), x.dtype, batch), 1, 2)
    vectors = vector_operand(left, VECTOR, 1, k, along_k=True, wide=True)
    push: dict[str, Argument] = {"x": vectors.memory, "b": names[1], "out_": "out"}
    push |= {"bias": "bias" if has_bias else vectors.memory}
    push |= {"rows": rows, "columns": columns, "x_line": vectors.line}
    push |= {"row_size": row_size, "chunks": k // tile.step, "table": k // 2}
    constants = {"LOCAL_X": tile.subgroups * gpu.subgroup_size, "ROWS": tile.rows}
    constants |= {"COLUMNS": tile.columns, "SUBGROUP": gpu.subgroup_size}
    constants |= {"STEP": tile.step, "HAS_BIAS": int(has_bias)}
    defines = dict(storage_defines(x.dtype))
    tiles = ceil_div(columns, tile.columns if gate is None else tile.columns // 2)
    share_of = _equal_share if kind is None else _part_of_tile
    share = share_of(gpu, tiles, k // tile.step, tile.subgroups)
    if gate is not None:
        push["gate"] = "gate"
        constants["GATE"] = GATES.index(gate)
        defines["GATED"] = "1"
    groups = tiles
    if share is not None:
        groups = ceil_div(tiles * (k // tile.step), share)
        size = 4 * groups * 2 * tile.rows * tile.columns
        push |= {"partial": Scratch("partial", size)}
        push |= {"finished": PersistentScratch(4 * tiles)}
        push |= {"share": share, "tiles": tiles}
        defines["STREAMED"] = "1"
    if kind:
        constants |= group_constant(kind)
        defines |= {**format_defines(kind), **decoded_defines(x.dtype)}
    product = Dispatch(
        "matmul/gemm_skinny",
        fold_grid(groups),
        push,
        constants,
        defines,
        joins=True,
    )
    return [*vectors.packing, product]


@functools.lru_cache(maxsize=1024)
def takes_gate(
    gpu: DeviceInfo,
    rows: int,
    columns: int,
    k: int,
    kind: QuantizedFormat | None,
) -> bool:
    """Return whether `skinny_coopmat` takes a gate beside (columns, k).

    Parameters
    ----------
    gpu : DeviceInfo
        With tensor cores.
    rows, columns, k : int
    kind : QuantizedFormat or None
        As of `skinny_coopmat`.
    """
    if kind is None and (rows > MOST_ROWS_OF_FLOATS or columns * k < LEAST_FLOATS):
        return False
    piece = kind.piece if kind else FLOATS_PIECE
    return skinny_tile(gpu, rows, columns, k, piece) is not None


def _equal_share(
    gpu: DeviceInfo, tiles: int, chunks: int, subgroups: int
) -> int | None:
    """Return the chunks that a workgroup takes, None for those of a tile each.

    With equal shares all workgroups begin at once and end at once, however many tiles
    there are; a tile's workgroup would leave multiprocessors idle in the last wave.
    """
    room = RESIDENT * model_of(gpu).multiprocessors
    if tiles >= MOST_WAVES * room:
        return None
    share = max(ceil_div(tiles * chunks, room), LEAST_CHUNKS * subgroups)
    if share >= chunks and tiles <= room:
        return None
    return share


def _part_of_tile(
    gpu: DeviceInfo, tiles: int, chunks: int, subgroups: int
) -> int | None:
    """Return the chunks of a part of a tile, None where few tiles fill the device."""
    wanted = SPLIT_GROUPS * model_of(gpu).multiprocessors // tiles
    deepest = chunks // (LEAST_SPLIT_CHUNKS * subgroups)
    splits = min(MOST_SPLITS, wanted, deepest)
    return ceil_div(chunks, splits) if splits > 1 else None


def skinny_product(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, mode: str, dtype: DType
) -> list[Dispatch] | None:
    """Return the dispatches of a GEMM of few rows on tensor cores, or None.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (batch, m, k)
    b : StridedSpec, shape (batch, k, n)
        Read in place, along K.
    mode : str
        A GEMM mode of `tiles`.
    dtype : DType
        Of the result.
    """
    batch, m, k = a.shape
    n = b.shape[2]
    if mode not in (TENSOR_CORES, FP16_ACCUMULATE) or dtype is not a.dtype:
        return None
    right = GemmOperand("b", b, 2, 1)
    in_place = right.along_k and fits(right, VECTOR, 1, k)
    few = batch == 1 and m <= MOST_ROWS_OF_FLOATS
    if not few or n * k < LEAST_FLOATS or not in_place:
        return None
    x = a.layout._replace(shape=(m, k), strides=a.layout.strides[1:])
    line = b.layout.strides[2] // VECTOR
    left = StridedSpec((m, k), a.dtype, x)
    return skinny_coopmat(gpu, left, n, line, None, ("a", "b"))
