"""Scaling of float32 GEMM operands to float16, for tensor cores.

Each row of the left operand and each column of the right one is multiplied by a power
of two that brings its largest element near the largest float16, and rounded: the
elements then have the 11 bits that TF32 has, and none overflows. The GEMM multiplies
its results by the powers of two of their row and column: see
`glsl/lib/float16_scale.glsl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...base.shape import ceil_div
from ...ir.kernel_call import (
    Argument,
    BufferOffset,
    Dispatch,
    Scratch,
    divisor,
    fold_grid,
    linear_grid,
)
from ..gpu_model import model_of
from .pack import VECTOR_SIZE, WORKGROUP, GemmOperand, VectorOperand

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

WIDE_LOADS = {"WIDE_LOADS": "1"}
"""Macro of kernels that read 16 bytes at a time."""

WIDTH = 8
"""Elements of a vector of float16."""

VECTORS_EACH = 4
"""Vectors of a line that an invocation takes, where lines are long enough."""

LEAST_SHARE = 8
"""Least invocations of a line, which read what is adjacent."""

COLUMNS_TOGETHER = 128
"""Columns of a workgroup that looks for their largest elements."""

LEAST_SLICE = 32
"""Least lines of a slice: what a workgroup reads at once."""

MOST_SLICES = 16
"""Most slices that scaling reads; of more the largest are found first."""

LEAST_IN_STAGES = 1 << 21
"""Elements from which that is worth a launch."""

LEAST_LINES = 4
"""Least lines that an invocation scales, after it has read the slices of its columns;
it has as many as there are slices."""


def scaled_operand(
    gpu: DeviceInfo, side: GemmOperand, block: int, depth: int
) -> VectorOperand:
    """Return a float32 operand scaled and rounded to float16, in vectors.

    Parameters
    ----------
    gpu : DeviceInfo
    side : GemmOperand
    block : int
        Rows or columns of a tile.
    depth : int
        K after padding, a multiple of 8.
    """
    padded = max(ceil_div(side.outer, WIDTH) * WIDTH, block)
    along = side.along_k
    batch = side.x.shape[0] if side.x.layout.strides[0] else 1
    lines, elements = (padded, depth) if along else (depth, padded)
    vectors = elements // WIDTH
    memory = Scratch(f"packed {side.name}", VECTOR_SIZE * batch * lines * vectors)
    exponents = Scratch(f"exponents of {side.name}", 4 * batch * padded)
    push = _arguments(side, lines, vectors)
    push |= {"vectors": memory, "exponents": exponents}
    packing = (
        (_scaled_rows(side, push, lines, vectors, batch),)
        if along
        else _scaled_columns(gpu, side, push, lines, vectors, batch)
    )
    step = lines * vectors if batch > 1 else 0
    return VectorOperand(memory, along, vectors, step, padded, packing, exponents)


def _arguments(side: GemmOperand, lines: int, vectors: int) -> dict[str, Argument]:
    """Return the arguments that tell where the lines of an operand lie."""
    strides = side.x.layout.strides
    k, along = side.x.shape[side.k_dim], side.along_k
    line_dim = side.outer_dim if along else side.k_dim
    return {
        "x": BufferOffset(side.name, 0),
        "lines": side.outer if along else k,
        "elements": k if along else side.outer,
        "line_stride": strides[line_dim],
        "batch_stride": strides[0],
        "padded_lines": lines,
        "padded_vectors": vectors,
    }


def _scaled_rows(
    side: GemmOperand,
    push: dict[str, Argument],
    lines: int,
    vectors: int,
    batch: int,
) -> Dispatch:
    """Return the dispatch that scales lines along K."""
    share = 1 << (ceil_div(vectors, VECTORS_EACH) - 1).bit_length()
    share = min(max(share, LEAST_SHARE), WORKGROUP)
    together = WORKGROUP // share
    push = {**push, "element_stride": side.x.layout.strides[side.k_dim]}
    return Dispatch(
        "matmul/scale_rows",
        fold_grid(ceil_div(lines, together), batch),
        push,
        {"LOCAL_X": WORKGROUP, "LINES": together},
        _load_defines(side, push["element_stride"] == 1),
    )


def _scaled_columns(
    gpu: DeviceInfo,
    side: GemmOperand,
    push: dict[str, Argument],
    lines: int,
    vectors: int,
    batch: int,
) -> tuple[Dispatch, ...]:
    """Return the dispatches that scale lines across K, after their largest elements."""
    columns, wide = WIDTH * vectors, _load_defines(side, True)
    first, slices = _largest(gpu, side, push, columns, batch, wide)
    magic, shift = divisor(vectors)
    each = max(LEAST_LINES, slices)
    x, y, _ = linear_grid(ceil_div(lines, each) * vectors, WORKGROUP)
    largest = first[-1].push["largest"]
    scaled = Dispatch(
        "matmul/scale_columns",
        (x, y, batch),
        {**push, "largest": largest, "inner_magic": magic, "inner_shift": shift},
        {"LOCAL_X": WORKGROUP, "SLICES": slices, "EACH": each},
        wide,
    )
    return *first, scaled


def _largest(
    gpu: DeviceInfo,
    side: GemmOperand,
    push: Mapping[str, Argument],
    columns: int,
    batch: int,
    loads: Mapping[str, str],
) -> tuple[list[Dispatch], int]:
    """Return the dispatches that find the largest of `columns`, and their slices."""
    depth = side.x.shape[side.k_dim]
    blocks = ceil_div(columns, COLUMNS_TOGETHER)
    filling = model_of(gpu).full_reduction_groups // (blocks * batch)
    slices = max(1, min(filling, ceil_div(depth, LEAST_SLICE)))
    if batch * depth * columns < LEAST_IN_STAGES:
        slices = min(slices, MOST_SLICES)
    names = ("x", "lines", "line_stride", "batch_stride")
    found = {name: push[name] for name in names} | {"columns": push["elements"]}

    def stage(
        name: str, found: Mapping[str, Argument], loads: Mapping[str, str]
    ) -> Dispatch:
        largest = Scratch(f"{name} of {side.name}", 4 * batch * slices * columns)
        return Dispatch(
            "matmul/largest_columns",
            fold_grid(blocks * slices, batch),
            {**found, "largest": largest, "padded_columns": columns},
            {"LOCAL_X": WORKGROUP, "SLICES": slices},
            loads,
        )

    first = stage("largest", found, loads)
    if slices <= MOST_SLICES:
        return [first], slices
    # The bits of a magnitude are a number again, whose largest are found likewise.
    found = {"x": first.push["largest"], "lines": slices, "columns": columns}
    found |= {"line_stride": columns, "batch_stride": slices * columns}
    slices = max(1, min(MOST_SLICES, slices // LEAST_SLICE))
    return [first, stage("largest of all", found, WIDE_LOADS)], slices


def _load_defines(side: GemmOperand, contiguous: bool) -> Mapping[str, str]:
    """Return the macro of loads of 16 bytes, where lines are whole vectors of four."""
    layout, along = side.x.layout, side.along_k
    line_dim, inner = side.outer_dim, side.k_dim
    if not along:
        line_dim, inner = inner, line_dim
    apart = layout.offset, layout.strides[0], layout.strides[line_dim]
    whole = side.x.shape[inner] % 4 == 0 and not any(step % 4 for step in apart)
    return WIDE_LOADS if contiguous and whole else {}
