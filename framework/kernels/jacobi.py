"""Launches of one-sided Jacobi sweeps, which make the rows of matrices orthogonal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.dtype import DType, float32, float64
from ..base.shape import ceil_div
from ..ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    BufferOffset,
    Dispatch,
    Scratch,
    StridedSpec,
)
from .gpu_model import model_of
from .row_copy import first_copy

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

BLOCKS = {float32: (16, 32), float64: (16,)}
"""Rows of a block, of few rows and of many."""

MANY_ROWS = 2048
"""Rows from which blocks are large: products take the time then, not the launches."""

INNER = {16: 2, 32: 1}
"""Sweeps over a pair of blocks, at most, in each round, by rows of a block."""

WORKGROUP = 256

TILE = 4096
"""Elements of a workgroup of `linalg/jacobi_apply`."""

FUSED_GROUPS = 1.0
"""Workgroups of `linalg/jacobi_apply` for each multiprocessor up to which each makes
its rotations itself, as others of the same rows do: it would be idle, and there is a
launch less."""

GROUPS, PART = 264, 64
"""Workgroups of `linalg/jacobi_gram` up to which columns are split in parts, and the
fewest columns of a part."""

SHARED = {16: 30 << 10, 32: 28 << 10}
"""Bytes of shared memory by rows of a block."""


def jacobi_block(gpu: DeviceInfo, dtype: DType, rows: int) -> int:
    """Return the rows of the blocks that a device rotates, 0 if it has no kernels."""
    if dtype is float64 and not gpu.shader_float64:
        return 0
    fits = [
        each
        for each in BLOCKS.get(dtype, ())
        if gpu.max_workgroup_invocations >= max(WORKGROUP, each * each)
        and gpu.max_shared_memory >= SHARED[each]
    ]
    if not fits:
        return 0
    return fits[-1] if rows >= MANY_ROWS else fits[0]


def jacobi_players(rows: int, block: int) -> int:
    """Return the blocks of a round robin: an even number, the last perhaps empty."""
    blocks = max(2, ceil_div(rows, block))
    return blocks + blocks % 2


def jacobi_fits(matrices: int, rows: int, width: int) -> bool:
    """Return whether indices of the kernels reach so many elements and workgroups."""
    return matrices <= MAX_GROUPS and matrices * rows * width < 1 << 31


def jacobi_dispatches(
    gpu: DeviceInfo,
    x: StridedSpec,
    state: StridedSpec,
    length: int,
    tolerance: float,
    block: int,
) -> list[Dispatch]:
    """Return the dispatches of sweeps over the rows of (matrices, rows, width).

    In each round all blocks of rows meet in pairs. Of each pair the products of the
    rows are added up, which makes the rotations, and these are applied.

    Parameters
    ----------
    gpu : DeviceInfo
    x : StridedSpec, shape (matrices, rows, width)
    state : StridedSpec, shape (sweeps + 1, matrices), int32
        Before each sweep, and after the last, 0 for matrices that have converged.
    length : int
        Columns, the first ones, that are to be orthogonal; others are rotated along.
    tolerance : float
        Cosine of rows up to which they count as orthogonal, in units of the rounding.
    block : int
        Rows of a block.
    """
    matrices, rows, width = x.shape
    side, players = 2 * block, jacobi_players(rows, block)
    pairs, size = players // 2, x.dtype.itemsize
    shares = max(1, GROUPS // (pairs * matrices))
    span = max(PART, ceil_div(ceil_div(length, shares), PART) * PART)
    parts = ceil_div(length, span)
    grams = Scratch("grams", matrices * pairs * parts * side * side * size)
    turns = Scratch("turns", matrices * pairs * side * side * size)
    turned = Scratch("turned", matrices * pairs * 4)
    defines = {"BLOCK": str(block)} | ({"DOUBLE": "1"} if size == 8 else {})
    tiles = ceil_div(width, TILE // side)
    fuses = block * block == WORKGROUP and size == 4
    most = FUSED_GROUPS * model_of(gpu).multiprocessors
    fuses = fuses and matrices * pairs * tiles <= most
    whole, inner = (
        {"LOCAL_X": WORKGROUP},
        {"LOCAL_X": block * block, "INNER": INNER[block]},
    )
    given: dict[str, Argument] = {"grams": grams, "parts": parts}
    made: dict[str, Argument] = {"turns": turns, "turned": turned}
    shape: dict[str, Argument] = {"rows": rows, "width": width, "players": players}
    found = [
        first_copy(gpu, "jacobi", x, "x", "out"),
        first_copy(gpu, "jacobi", state, "state", "info"),
    ]
    for sweep in range(state.shape[0] - 1):
        before = BufferOffset("info", 4 * matrices * sweep)
        now = BufferOffset("info", 4 * matrices * (sweep + 1))
        marks: dict[str, Argument] = {"before": before, "now": now}
        marks["tolerance"] = tolerance
        for number in range(players - 1):
            place: dict[str, Argument] = {**shape, "x": "out", "before": before}
            place["round_"] = number
            push = {**place, "grams": grams, "length_": length, "span": span}
            grid = pairs, parts, matrices
            found.append(Dispatch("linalg/jacobi_gram", grid, push, whole, defines))
            grid = tiles, pairs, matrices
            if fuses:
                fused = {**defines, "ROTATES": "1"}
                push = {**place, **given, **marks}
                found.append(Dispatch("linalg/jacobi_apply", grid, push, inner, fused))
                continue
            push = {**given, **made, **marks}
            each = pairs, 1, matrices
            found.append(Dispatch("linalg/jacobi_rotate", each, push, inner, defines))
            push = {**place, **made}
            found.append(Dispatch("linalg/jacobi_apply", grid, push, whole, defines))
    return found
