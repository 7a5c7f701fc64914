"""Kernels of quantized weights: GEMV with decoding in registers, and dequantizing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..base.dtype import DType, float32
from ..base.errors import ShapeError
from ..base.quantized_format import QuantizedFormat
from ..base.shape import TensorSpec, ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    IndexSlot,
    JoinedTiles,
    StridedSpec,
    check_rounds,
    divisor,
    fold_grid,
    linear_grid,
)
from .gemm.grouped import NUMBER_SITE
from .gpu_model import model_of
from .shader_types import (
    format_defines,
    full_subgroup,
    group_constant,
    storage_defines,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

MOST_ROWS = 2
"""Rows of activations of one pass over the weights."""


class GemvTuning(NamedTuple):
    """Constants of the GEMV for a kind of weights; all measured in steps of decoding.

    Attributes
    ----------
    invocations : int
        Of a workgroup at most, which rows of a pass share.
    fill : int
        How many times `gemv_groups` workgroups there are to be, if columns suffice.
    together : int
        Elements of an invocation whose loads are in flight, of several columns. More
        take more instructions, which each launch of a decoding step reads anew.
    ahead : bool
        Whether the first columns' loads come before those of the activations.
    resident : int, default 0
        Workgroups for each multiprocessor at most, which take several groups of columns
        in turn; 0 for any number.
    """

    invocations: int
    fill: int
    together: int
    ahead: bool
    resident: int = 0


FLOATS = GemvTuning(256, 2, 64, True)
GATED_FLOATS = GemvTuning(512, 1, 64, True, 2)
OF_NIBBLES = GemvTuning(256, 1, 128, False, 5)
OF_BYTES = GemvTuning(512, 1, 64, False)
"""For one row, of 16-bit floats, alone and with a gate, of formats with four bits an
element, and of those with more."""

OF_ROWS = GemvTuning(512, 1, 64, False)
"""For more rows of a pass, whose activations take more registers."""

NIBBLES = ("q4_0", "q4_1", "q4_k", "int4")
"""Formats with four bits an element."""

MOST_IDLE = 1 / 8
"""Share of invocations without a piece, beyond the least, for larger workgroups."""

FLOATS_PIECE = 8
"""Elements of a piece of weights that are not quantized."""

OUTPUTS = (16, 8, 4)
"""Columns of a workgroup."""

GATES = ("silu", "gelu_tanh")
"""Functions of a gate, by number."""

DEQUANTIZE_WORKGROUP = 128

MOST_BYTES = 1 << 32
"""Bytes of blocks, and elements of what is dequantized, that shaders can number."""


def dequantize_dispatch(
    gpu: DeviceInfo, blocks: StridedSpec, kind: QuantizedFormat, out: TensorSpec
) -> Dispatch:
    """Return the dispatch that decodes weights.

    Parameters
    ----------
    gpu : DeviceInfo
    blocks : StridedSpec, shape (..., row_size), uint8
    kind : QuantizedFormat
    out : TensorSpec, shape (..., columns)
    """
    _check_size(blocks.numel, "blocks")
    _check_size(out.numel, "result")
    pieces = out.shape[-1] // kind.piece
    count = out.numel // 8
    magic, shift = divisor(pieces)
    push: dict[str, Argument] = {"blocks": "blocks", "out_": "out"}
    push |= {"row_size": blocks.shape[-1], "pieces": pieces, "magic": magic}
    push |= {"shift": shift, "count": count, "table": out.shape[-1] // 2}
    return Dispatch(
        "quantized/dequantize",
        linear_grid(count, DEQUANTIZE_WORKGROUP),
        push,
        {"LOCAL_X": DEQUANTIZE_WORKGROUP, **group_constant(kind)},
        _defines(kind, out.dtype),
    )


def gemv_dispatch(
    gpu: DeviceInfo,
    x: StridedSpec,
    blocks: StridedSpec,
    kind: QuantizedFormat | None,
    has_bias: bool,
    gate: str | None = None,
    numbers: StridedSpec | None = None,
    names: tuple[str, str] = ("x", "blocks"),
) -> Dispatch:
    """Return the dispatch of a product with few rows.

    Parameters
    ----------
    gpu : DeviceInfo
    x : StridedSpec, shape (rows, k)
    blocks : StridedSpec, shape (columns, row_size), uint8
        With `numbers` (matrices, columns, row_size).
    kind : QuantizedFormat or None
        None if `blocks` are rows (columns, k) of the dtype of `x`, of 16 bits.
    has_bias : bool
    gate : str, optional
        One of `GATES`, a function of the products with `gate`, blocks of the same
        shape; its results multiply those of `blocks`.
    numbers : StridedSpec, int32, shape (count,), optional
        Which matrix each row of the result is of; `count` is a multiple of the rows.
    names : (str, str)
        What the op calls `x` and `blocks`.
    """
    _check_size(blocks.numel, "blocks")
    matrices = 1 if gate is None else 2
    (rows, k), (columns, row_size) = x.shape, blocks.shape[-2:]
    piece = kind.piece if kind else FLOATS_PIECE
    row_size = row_size if kind else blocks.layout.strides[0] // piece
    pieces = k // piece
    taken = min(rows, MOST_ROWS) if numbers is None else 1
    share = 1
    if numbers is not None:
        share, rows = numbers.shape[0] // rows, numbers.shape[0]
    passes = ceil_div(rows, taken)
    tuning = _tuning(kind, taken, gate is not None)
    local = _workgroup(gpu, pieces, taken, matrices, tuning.invocations)
    wanted = tuning.fill * model_of(gpu).gemv_groups
    shuffles = full_subgroup(gpu, local)
    possible = [
        each
        for each in OUTPUTS
        if _shared_memory(each * matrices, taken, local) <= gpu.max_shared_memory
        and local >= each * matrices
        and (shuffles or local % (each * matrices) == 0)
    ] or [OUTPUTS[-1]]
    filling = (each for each in possible if ceil_div(columns, each) * passes >= wanted)
    outputs = next(filling, possible[-1])
    batch = max(1, tuning.together // piece)
    groups = ceil_div(columns, outputs)
    most = tuning.resident * model_of(gpu).multiprocessors
    # Where it is fused with others each group has a workgroup.
    turns = ceil_div(ceil_div(columns, possible[0]), most) if most and rows == 1 else 1
    rounds = turns * ceil_div(pieces, local) * matrices * outputs // batch
    check_rounds(gpu, "quantized_gemv", rounds)
    push: dict[str, Argument] = {"x": names[0], "blocks": names[1], "out_": "out"}
    push |= {"bias": "bias" if has_bias else names[0]}
    push |= {"rows": rows, "columns": columns}
    push |= {"row_size": row_size, "pieces": pieces, "table": k // 2}
    constants = {"LOCAL_X": local, "ROWS": taken, "AHEAD": int(tuning.ahead)}
    constants |= {"HAS_BIAS": int(has_bias)}
    defines: dict[str, str] = {**storage_defines(x.dtype), "FLOATS": "1"}
    if kind:
        constants |= group_constant(kind)
        defines = _defines(kind, x.dtype) | _integer_dot(gpu, x.dtype)
    if gate is not None:
        push["gate"] = "gate"
        constants["GATE"] = GATES.index(gate)
        defines["GATED"] = "1"
    if numbers is not None:
        slot = IndexSlot(NUMBER_SITE, blocks.shape[0])
        push |= {"numbers": "numbers", "error": slot}
        push |= {"matrices": blocks.shape[0], "share": share}
        defines["GATHERED"] = "1"
    if shuffles:
        defines["SHUFFLES"] = "1"

    def tile(each: int) -> dict[str, int]:
        """Return the constants with as many columns for a workgroup."""
        taken_together = max(n for n in range(1, batch + 1) if each % n == 0)
        own = {**constants, "OUTPUTS": each, "BATCH": taken_together}
        if shuffles:
            shares = min(shuffles, local // (each * matrices))
            own["SHARES"] = 1 << (shares.bit_length() - 1)
        return own

    joins = passes == 1 and numbers is None
    tiles = tuple((fold_grid(ceil_div(columns, each)), tile(each)) for each in possible)
    return Dispatch(
        "quantized/gemv",
        fold_grid(ceil_div(groups, turns), passes),
        push,
        {**tile(outputs), "TURNS": turns},
        defines,
        joins=joins,
        joined=JoinedTiles(wanted, tiles) if joins and len(tiles) > 1 else None,
    )


def _tuning(kind: QuantizedFormat | None, rows: int, gated: bool) -> GemvTuning:
    if rows > 1:
        return OF_ROWS
    if kind is None:
        return GATED_FLOATS if gated else FLOATS
    return OF_NIBBLES if kind.family in NIBBLES else OF_BYTES


def _workgroup(
    gpu: DeviceInfo, pieces: int, rows: int, matrices: int, invocations: int
) -> int:
    """Return the invocations of a workgroup: many, few of which are without a piece."""
    least = OUTPUTS[-1] * matrices
    step = max(least, gpu.subgroup_size)
    most = max(step, invocations // rows)
    most = min(most, gpu.max_workgroup_invocations, step * pieces)
    covered = {
        local: ceil_div(pieces, local) * local
        for local in range(step, most + 1, step)
        if _shared_memory(least, rows, local) <= gpu.max_shared_memory
    }
    enough = min(covered.values()) * (1 + MOST_IDLE)
    return min(
        (local for local, places in covered.items() if places <= enough),
        key=lambda local: (ceil_div(pieces, local), local),
    )


def _shared_memory(outputs: int, rows: int, local: int) -> int:
    """Return the bytes that a workgroup takes, with sums for a norm and an epilogue."""
    parts = rows * outputs * (local + local // outputs)
    return 4 * (parts + 2 * local + 32 + outputs)


def _defines(kind: QuantizedFormat, dtype: DType) -> dict[str, str]:
    return {**format_defines(kind), **storage_defines(dtype)}


def _integer_dot(gpu: DeviceInfo, dtype: DType) -> dict[str, str]:
    """Return the macro of dp4a, whose activations have 16 bits."""
    wanted = dtype is not float32 and "integer_dot_product" in gpu.supported
    return {"INTEGER_DOT": "1"} if wanted else {}


def _check_size(size: int, name: str) -> None:
    if size >= MOST_BYTES:
        raise ShapeError(
            f"quantized weights: {name} has {size} elements; a device takes fewer than"
            f" {MOST_BYTES}; use parts of it"
        )
