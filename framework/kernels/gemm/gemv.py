"""GEMV and skinny GEMM (at most 8 rows or columns): the matrix is read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...base.dtype import DType, bfloat16, float16, float32, int8
from ...base.shape import TensorSpec, ceil_div
from ...ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    BufferOffset,
    Dispatch,
    IndexSlot,
    Scratch,
    StridedSpec,
    fold_grid,
)
from ..gpu_model import model_of
from ..shader_types import storage_defines
from .pack import (
    VECTOR_SIZE,
    GemmOperand,
    fits,
    unaligned_operand,
    vector_operand,
)
from .slice_sum import sum_slices

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

DTYPES = (float32, float16, bfloat16, int8)

SHORT_STEPS = 2
"""K vectors per lane of lines that have fewer than there are lanes."""

UNALIGNED_STEPS = 4
"""Most K vectors per lane and iteration where each takes two loads."""


class _Shape(NamedTuple):
    """Tile of a GEMV workgroup, whose lanes split K.

    Attributes
    ----------
    workgroup : int
        Invocations.
    across : int
        Groups of columns, one per lane: a vector, or `columns` columns where the
        matrix is contiguous along K.
    columns : int
    steps : int
        K vectors per lane and loop iteration.
    """

    workgroup: int
    across: int
    columns: int
    steps: int


def _shape(rows: int, width: int, along_k: bool, depth: int) -> _Shape:
    """Return the quickest tile for lines of `depth` vectors.

    Partial sums of 16 columns of 512 invocations would exceed the shared memory that
    every device has. Short lines are shared by fewer lanes, so that none is idle.
    """
    if not along_k:
        return _Shape(512 if width < 16 else 256, 8 if rows <= 2 else 16, 1, 1)
    found = _Shape(256, 4, 1, 8) if rows == 1 else _Shape(128, 4, 4, 2)
    if depth >= found.workgroup // found.across:
        return found
    lanes = 1 << (ceil_div(depth, SHORT_STEPS) - 1).bit_length()
    return found._replace(across=found.workgroup // lanes, steps=SHORT_STEPS)


def skinny_gemm(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, dtype: DType
) -> list[Dispatch] | None:
    """Return the dispatches of a GEMM with at most 8 rows or columns, or None.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (batch, m, k)
    b : StridedSpec, shape (batch, k, n)
    dtype : DType
        Of the result: that of the operands, or of their sums.
    """
    m, n = a.shape[1], b.shape[2]
    model = model_of(gpu)
    by_column = m > model.gemv_most_rows
    matrix = GemmOperand("a", a, 1, 2) if by_column else GemmOperand("b", b, 2, 1)
    width = VECTOR_SIZE // a.dtype.itemsize
    batch, _, k = a.shape
    if not gpu.target.vec4_loads or a.dtype not in DTYPES:
        return None
    small = matrix.outer * k < model.gemv_smallest
    if min(m, n) > model.gemv_most_rows or batch > MAX_GROUPS or small:
        return None
    if k % width == 0 and fits(matrix, width, 1, k):
        return _dispatches(gpu, a, b, matrix, dtype)
    # In the same order of sums, wherever lines begin.
    if unaligned_operand(matrix) is None:
        return None
    return _dispatches(gpu, a, b, matrix, dtype, unaligned=True)


class _Unaligned(NamedTuple):
    """Operand that begins anywhere, as the vectors that it touches.

    Attributes
    ----------
    memory : BufferOffset
        The first of them.
    start : int
        Its first element in that.
    last : int
        Number of the last of them.
    """

    memory: BufferOffset
    start: int
    last: int


def _vectors_of(name: str, x: StridedSpec) -> _Unaligned:
    width = VECTOR_SIZE // x.dtype.itemsize
    start = x.layout.offset % width
    steps = zip(x.shape, x.layout.strides)
    last = start + sum((size - 1) * step for size, step in steps)
    memory = BufferOffset(name, -start * x.dtype.itemsize)
    return _Unaligned(memory, start, last // width)


def gathered_gemv(
    gpu: DeviceInfo, a: StridedSpec, b: StridedSpec, numbers: StridedSpec, site: str
) -> list[Dispatch] | None:
    """Return the dispatches of rows times matrices by their numbers, or None.

    Parameters
    ----------
    gpu : DeviceInfo
    a : StridedSpec, shape (m, k)
    b : StridedSpec, shape (matrices, k, n)
    numbers : StridedSpec, int32, shape (count,)
        As of `gathered_dispatches`.
    site : str
        Of numbers out of range.
    """
    (m, k), (matrices, _, n), (count,) = a.shape, b.shape, numbers.shape
    matrix = GemmOperand("b", b, 2, 1)
    width = VECTOR_SIZE // a.dtype.itemsize
    if not gpu.target.vec4_loads or a.dtype not in DTYPES or count > MAX_GROUPS:
        return None
    if n * k < model_of(gpu).gemv_smallest or k % width:
        return None
    if not fits(matrix, width, 1, k):
        return None
    layout = a.layout
    strides = (layout.strides[0], *layout.strides)
    rows = layout._replace(shape=(count, 1, k), strides=strides)
    gathered: dict[str, Argument] = {"numbers": "numbers", "matrices": matrices}
    gathered |= {"share": count // m, "error": IndexSlot(site, matrices)}
    x = StridedSpec((count, 1, k), a.dtype, rows)
    return _dispatches(gpu, x, b, matrix, a.dtype, gathered)


def _dispatches(
    gpu: DeviceInfo,
    a: StridedSpec,
    b: StridedSpec,
    matrix: GemmOperand,
    dtype: DType,
    gathered: dict[str, Argument] | None = None,
    unaligned: bool = False,
) -> list[Dispatch]:
    width = VECTOR_SIZE // a.dtype.itemsize
    batch, m, k = a.shape
    n = b.shape[2]
    rows = n if matrix.name == "a" else m
    x, x_row, x_k = (b, 2, 1) if matrix.name == "a" else (a, 1, 2)
    shape = _shape(rows, width, matrix.along_k, ceil_div(k, width))
    if unaligned and shape.steps > UNALIGNED_STEPS:
        shape = shape._replace(steps=UNALIGNED_STEPS)
    columns = shape.across * (shape.columns if matrix.along_k else width)
    groups = ceil_div(matrix.outer, columns)
    multiple = 1 if unaligned else width
    splits = _split_counts(gpu, groups * batch, k, multiple)
    slice_depth = ceil_div(ceil_div(k, width), splits) * width
    out: str | Scratch = "out"
    if splits > 1:
        out = Scratch("partial", 4 * splits * batch * m * n)
    operand = unaligned_operand(matrix) if unaligned else None
    operand = operand or vector_operand(matrix, width, 1, k)
    placed = _vectors_of(matrix.name, matrix.x)
    name = "b" if matrix.name == "a" else "a"
    push: dict[str, Argument] = {"x": name, "matrix": operand.memory}
    push |= {"out_": out, "n": matrix.outer, "k": slice_depth}
    push |= {"batches": batch, "x_row": x.layout.strides[x_row]}
    push |= {"x_column": x.layout.strides[x_k], "x_batch": x.layout.strides[0]}
    push |= {"line": operand.line, "matrix_batch": operand.batch}
    push |= {"out_row": n if x is a else 1, "out_column": 1 if x is a else n}
    push |= {"out_batch": m * n}
    constants = {"LOCAL_X": shape.workgroup, "ROWS": rows, "ACROSS": shape.across}
    constants |= {"ALONG_K": int(matrix.along_k)}
    constants |= {"STEPS": shape.steps, "COLUMNS": shape.columns}
    starts = x.layout.offset, x.layout.strides[0], x.layout.strides[x_row]
    whole = x.layout.strides[x_k] == 1
    whole = whole and (unaligned or not any(number % width for number in starts))
    constants |= {"X_VECTORS": int(whole)}
    sums = splits > 1 or dtype is not a.dtype
    defines = dict(storage_defines(a.dtype, out_acc=sums))
    if a.dtype is int8 and "integer_dot_product" in gpu.supported:
        defines["INTEGER_DOT"] = "1"
    if unaligned:
        for side, given in (("x", _vectors_of(name, x)), ("matrix", placed)):
            push |= {side: given.memory, f"{side}_start": given.start}
            push[f"{side}_last"] = given.last
        push["depth"] = k
        defines["UNALIGNED"] = "1"
    if gathered is not None:
        push |= gathered
        defines["GATHERED"] = "1"
    grid = fold_grid(groups, batch * splits)
    alone = grid[2] == 1 and gathered is None
    product = Dispatch("matmul/gemv", grid, push, constants, defines, joins=alone)
    found = [*operand.packing, product]
    if splits > 1:
        assert isinstance(out, Scratch)
        result = TensorSpec((batch, m, n), dtype)
        found.append(sum_slices(gpu, out, result, splits))
    return found


def _split_counts(gpu: DeviceInfo, groups: int, k: int, width: int) -> int:
    """Return the split-K count, into equal slices of whole vectors."""
    model, splits = model_of(gpu), 1
    while (
        groups * splits * 2 <= model.gemv_groups
        and k % (2 * splits * width) == 0
        and k // (2 * splits) >= model.gemv_min_split_depth
        and groups * splits * 2 <= MAX_GROUPS
    ):
        splits *= 2
    return splits
