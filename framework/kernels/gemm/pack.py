"""Operand packing of large GEMMs: 16-byte vectors that need no bounds checks.

The large-tile kernels in `glsl/matmul/` load whole vectors along an operand's
contiguous dimension, outer or K, and whole tiles. Any other operand (odd sizes, other
strides, less than a tile) is packed into scratch memory first, padded with zeros; that
takes a few percent of the time of a large GEMM.
"""

from __future__ import annotations

from typing import NamedTuple

from ...base.dtype import int8
from ...base.shape import ceil_div
from ...ir.kernel_call import (
    Argument,
    BufferOffset,
    Dispatch,
    Scratch,
    StridedSpec,
    divisor,
    linear_grid,
)
from ..shader_types import storage_defines

VECTOR_SIZE = 16
"""Bytes."""

WORKGROUP = 256

MAX_UNALIGNED_EXTENT = 1 << 29
"""Largest extent of an unaligned operand, in elements."""


class GemmOperand(NamedTuple):
    """GEMM operand (batch, outer, k) before packing.

    Attributes
    ----------
    name : str
        The op's name for it.
    x : StridedSpec
    outer_dim, k_dim : int
        Its outer dimension (m or n) and its K dimension.
    """

    name: str
    x: StridedSpec
    outer_dim: int
    k_dim: int

    @property
    def outer(self) -> int:
        """Rows of the left operand, or columns of the right one."""
        return self.x.shape[self.outer_dim]

    @property
    def along_k(self) -> bool:
        """Whether the operand is contiguous along K."""
        strides = self.x.layout.strides
        return strides[self.k_dim] == 1 or strides[self.outer_dim] != 1


class VectorOperand(NamedTuple):
    """GEMM operand as vectors, ready to be loaded by a kernel.

    Attributes
    ----------
    memory : str or Scratch
        The operand in place, or its packed copy.
    along_k : bool
        Whether lines run along K.
    line, batch : int
        Strides, in vectors.
    padded : int
        Rows or columns, with padding.
    packing : tuple of Dispatch
        Packing dispatches, which run first.
    exponents : Scratch or None
        Of rows or columns that were scaled, those of their scales, with padding.
    """

    memory: str | Scratch
    along_k: bool
    line: int
    batch: int
    padded: int
    packing: tuple[Dispatch, ...] = ()
    exponents: Scratch | None = None

    def last(self, block: int) -> int:
        """Return where the last tile of `block` rows or columns starts."""
        return self.padded - block


def vector_operand(
    side: GemmOperand,
    width: int,
    block: int,
    depth: int,
    *,
    along_k: bool = False,
    wide: bool = False,
) -> VectorOperand:
    """Return a vector operand, packed where it must be.

    Parameters
    ----------
    side : GemmOperand
    width : int
        Elements of a vector.
    block : int
        Rows or columns of a tile.
    depth : int
        K after padding.
    along_k : bool, default False
        Whether lines must run along K.
    wide : bool, default False
        Whether packing uses 16-byte loads where the operand is contiguous.
    """
    turned = along_k and not side.along_k
    if not turned and fits(side, width, block, depth):
        layout = side.x.layout
        dim = side.outer_dim if side.along_k else side.k_dim
        line, batch = layout.strides[dim] // width, layout.strides[0] // width
        return VectorOperand(side.name, side.along_k, line, batch, side.outer)
    return _packed(side, width, block, depth, turned=turned, wide=wide)


def fits(side: GemmOperand, width: int, block: int, depth: int) -> bool:
    """Return whether an operand can be loaded in place, without packing."""
    layout, along = side.x.layout, side.along_k
    inner, line = (
        (side.k_dim, side.outer_dim) if along else (side.outer_dim, side.k_dim)
    )
    return (
        layout.strides[inner] == 1
        and layout.strides[line] % width == 0
        and layout.strides[0] % width == 0
        and layout.offset * side.x.dtype.itemsize % VECTOR_SIZE == 0
        and side.x.shape[side.k_dim] == depth
        and side.outer >= block
        and (along or side.outer % width == 0)
    )


def unaligned_operand(side: GemmOperand) -> VectorOperand | None:
    """Return an unaligned operand in place, with strides in elements.

    None where neither its outer dimension nor K is contiguous, or a stride exceeds
    the kernel's integers.
    """
    strides, along = side.x.layout.strides, side.along_k
    last = sum((size - 1) * step for size, step in zip(side.x.shape, strides))
    inner, line = (
        (side.k_dim, side.outer_dim) if along else (side.outer_dim, side.k_dim)
    )
    if strides[inner] != 1 or last >= MAX_UNALIGNED_EXTENT:
        return None
    return VectorOperand(side.name, along, strides[line], strides[0], side.outer)


def _packed(
    side: GemmOperand,
    width: int,
    block: int,
    depth: int,
    *,
    turned: bool,
    wide: bool,
) -> VectorOperand:
    """Return an operand packed in scratch memory, once where the batch repeats it."""
    layout, k = side.x.layout, side.x.shape[side.k_dim]
    along = side.along_k or turned
    batch = side.x.shape[0] if layout.strides[0] else 1
    padded = side.outer if along else ceil_div(side.outer, width) * width
    padded = max(padded, block)
    lines, elements = (padded, depth) if along else (depth, padded)
    per_line = elements // width
    size = VECTOR_SIZE * batch * lines * per_line
    scratch = Scratch(f"packed {side.name}", size)
    outer_stride, k_stride = (layout.strides[d] for d in (side.outer_dim, side.k_dim))
    quads = turned and _is_transposed_by_words(side)
    line_blocks = ceil_div(lines, 32)
    magic, shift = divisor(line_blocks if quads else lines if turned else per_line)
    push: dict[str, Argument] = {
        "x": BufferOffset(side.name, 0),
        "vectors": BufferOffset(scratch, 0),
        "lines": side.outer if along else k,
        "elements": k if along else side.outer,
        "line_stride": outer_stride if along else k_stride,
        "element_stride": k_stride if along else outer_stride,
        "batch_stride": layout.strides[0],
        "padded_lines": lines,
        "padded_vectors": per_line,
        "inner_magic": magic,
        "inner_shift": shift,
    }
    count = line_blocks * ceil_div(per_line, 4) * 32 if quads else lines * per_line
    x, y, _ = linear_grid(count, WORKGROUP)
    defines = dict(storage_defines(side.x.dtype))
    if quads:
        defines["QUADS"] = "1"
    elif wide and push["element_stride"] == 1:
        defines["WIDE_LOADS"] = "1"
    packing = Dispatch(
        "matmul/pack",
        (x, y, batch),
        push,
        {"LOCAL_X": WORKGROUP, "LINES_FIRST": int(turned)},
        defines,
    )
    return VectorOperand(
        scratch,
        along,
        per_line,
        lines * per_line if batch > 1 else 0,
        padded,
        (packing,),
    )


def _is_transposed_by_words(side: GemmOperand) -> bool:
    """Return whether int8 words can be transposed, four lines at a time."""
    layout = side.x.layout
    apart = layout.strides[0], layout.strides[side.k_dim], layout.offset
    return (
        side.x.dtype is int8
        and layout.strides[side.outer_dim] == 1
        and all(step % 4 == 0 for step in apart)
    )
