"""Kernels of quantized weights: GEMV with decoding in registers, and dequantizing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.dtype import DType
from ..base.errors import ShapeError
from ..base.quantized_format import INT4, QuantizedFormat
from ..base.shape import TensorSpec, ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    StridedSpec,
    check_rounds,
    divisor,
    fold_grid,
    linear_grid,
)
from .gpu_model import model_of
from .shader_types import storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

MOST_ROWS = 8
"""Rows of activations of one pass over the weights."""

LANES = 32
"""Invocations that share an output."""

OUTPUTS = (4, 2, 1)
"""Outputs of an invocation, whose loads are in flight together."""

WORKGROUP = 128

STAGE_STEP = 64
"""Groups of four activations in shared memory come in multiples of this."""

PADDING = 1.1875
"""How much larger they are there at most; see `glsl/quantized/format.glsl`."""

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
    count = out.numel // kind.piece
    magic, shift = divisor(pieces)
    push: dict[str, Argument] = {"blocks": "blocks", "out_": "out"}
    push |= {"row_size": blocks.shape[-1], "pieces": pieces, "magic": magic}
    push |= {"shift": shift, "count": count, "table": out.shape[-1] // 2}
    return Dispatch(
        "quantized/dequantize",
        linear_grid(count, DEQUANTIZE_WORKGROUP),
        push,
        {"LOCAL_X": DEQUANTIZE_WORKGROUP, **_group(kind)},
        _defines(kind, out.dtype),
    )


def gemv_dispatch(
    gpu: DeviceInfo,
    x: StridedSpec,
    blocks: StridedSpec,
    kind: QuantizedFormat,
    has_bias: bool,
) -> Dispatch:
    """Return the dispatch of a product with few rows.

    Parameters
    ----------
    gpu : DeviceInfo
    x : StridedSpec, shape (rows, k)
    blocks : StridedSpec, shape (columns, row_size), uint8
    kind : QuantizedFormat
    has_bias : bool
    """
    _check_size(blocks.numel, "blocks")
    (rows, k), (columns, row_size) = x.shape, blocks.shape
    pieces = k // kind.piece
    check_rounds(gpu, "quantized_gemv", ceil_div(pieces, LANES))
    taken = min(rows, MOST_ROWS)
    passes = ceil_div(rows, taken)
    teams = WORKGROUP // LANES
    wanted = model_of(gpu).gemv_groups
    outputs = next(
        (
            each
            for each in OUTPUTS
            if each * taken <= MOST_ROWS * OUTPUTS[-2]
            and ceil_div(columns, teams * each) * passes >= wanted
        ),
        OUTPUTS[-1],
    )
    push: dict[str, Argument] = {"x": "x", "blocks": "blocks", "out_": "out"}
    push |= {"bias": "bias" if has_bias else "x", "rows": rows, "columns": columns}
    push |= {"row_size": row_size, "pieces": pieces, "table": k // 2}
    constants = {"LOCAL_X": WORKGROUP, "ROWS": taken, "LANES": LANES}
    constants |= {"OUTPUTS": outputs, "HAS_BIAS": int(has_bias)}
    constants |= {"STAGE": _stage(gpu, taken, outputs, k), **_group(kind)}
    return Dispatch(
        "quantized/gemv",
        fold_grid(ceil_div(columns, teams * outputs), passes),
        push,
        constants,
        _defines(kind, x.dtype),
        joins=passes == 1,
    )


def _stage(gpu: DeviceInfo, rows: int, outputs: int, k: int) -> int:
    """Return how many quads of a row of activations shared memory takes at once."""
    free = gpu.max_shared_memory - 4 * outputs * WORKGROUP
    most = int(free / (16 * PADDING * rows)) // STAGE_STEP
    return min(most, ceil_div(k, 4 * STAGE_STEP)) * STAGE_STEP


def _defines(kind: QuantizedFormat, dtype: DType) -> dict[str, str]:
    return {"FORMAT": f"FORMAT_{kind.family.upper()}", **storage_defines(dtype)}


def _group(kind: QuantizedFormat) -> dict[str, int]:
    return {"GROUP": kind.block} if kind.family == INT4 else {}


def _check_size(size: int, name: str) -> None:
    if size >= MOST_BYTES:
        raise ShapeError(
            f"quantized weights: {name} has {size} elements; a device takes fewer than"
            f" {MOST_BYTES}; use parts of it"
        )
