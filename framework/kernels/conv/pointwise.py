"""Pointwise (1x1) convolutions: GEMM on NCHW images without a copy.

A batched GEMM over images: the left operand, which all share, is the filters (one line
per output channel), the right one an image's channels (lines of pixels). Nothing is
packed where lines of pixels are whole vectors. Where an image's pixels are no whole
tiles, those of all images are the columns of one GEMM: `gemm.side_by_side`.
"""

from __future__ import annotations

import dataclasses
import math

from ...base.shape import Layout, Shape, TensorSpec
from ...ir.kernel_call import BufferOffset, Dispatch, StridedSpec, with_memory
from ..gemm.cost_model import microseconds as modelled
from ..gemm.cost_model import tile_configs
from ..gemm.select import large_tile_gemm
from ..gemm.side_by_side import (
    merged_config,
    merged_gemm,
    summed_config,
    summed_gemm,
)
from ..gemm.tiles import SCALED_FLOAT16, SIMT, GemmSize
from ..gpu_model import model_of
from .problem import ConvCall
from .window import Window

LEAST_PIXELS = 128
"""Pixels of an image that fill the columns of a tile."""


def forward(call: ConvCall) -> list[Dispatch] | None:
    """Return the GEMM of a pointwise convolution, otherwise None.

    The convolution has one group.
    """
    rows, depth = call.weight.shape[:2]
    filters = _view(call.weight, (call.x.shape[0], rows, depth), (0, depth, 1))
    return _product(call, filters, call.x, "x")


def input_vjp(call: ConvCall) -> list[Dispatch] | None:
    """Return the dispatches of the gradient by the images (dgrad), or None."""
    if call.size != call.output_size:
        return None
    depth, rows = call.weight.shape[:2]
    filters = _view(call.weight, (call.x.shape[0], rows, depth), (0, 1, rows))
    return _product(call, filters, call.out, "grad_out")


def weight_vjp(call: ConvCall) -> list[Dispatch] | None:
    """Return the dispatches of the gradient by the filters (wgrad), or None.

    The sum over images of products along their pixels, which are read as they lie.
    """
    config = summed_config(call.gpu, call.how.mode, _sizes_of_sum(call))
    pixel = Window((1, 1), (1, 1), (0, 0), call.window.dilation)
    if config is None or call.window != pixel or call.planes > 1:
        return None
    pixels = math.prod(call.size)
    images = ((each.shape[0], each.shape[1], pixels) for each in (call.out, call.x))
    left, right = (Layout.contiguous(shape) for shape in images)
    right = right.permute((0, 2, 1))
    dtype = call.x.dtype
    found = summed_gemm(
        call.gpu,
        StridedSpec(left.shape, dtype, left),
        StridedSpec(right.shape, dtype, right),
        config[0],
    )
    return found and with_memory(found, {"a": "grad_out", "b": "x"})


def weight_microseconds(call: ConvCall) -> float:
    """Return the modelled time of `weight_vjp`."""
    config = summed_config(call.gpu, call.how.mode, _sizes_of_sum(call))
    return math.inf if config is None else config[1]


def _sizes_of_sum(call: ConvCall) -> GemmSize:
    """Return the size of the products of the images, which `weight_vjp` sums up."""
    rows, columns = call.weight.shape[:2]
    return GemmSize(rows, columns, math.prod(call.size), call.x.shape[0])


def microseconds(call: ConvCall, *, for_input: bool) -> float:
    """Return the modelled time of `forward`, or with `for_input` of `input_vjp`."""
    rows, depth = call.weight.shape[:2]
    if for_input:
        rows, depth = depth, rows
    sizes = GemmSize(rows, math.prod(call.output_size), depth, call.x.shape[0])
    # Of single images scaling is not worthwhile, and operands would be packed for it.
    mode = SIMT if call.how.mode == SCALED_FLOAT16 else call.how.mode
    merged = merged_config(call.gpu, mode, sizes)
    if merged is not None:
        return merged[1]
    config = next(iter(tile_configs(call.gpu, mode, sizes)), None)
    if config is None:
        return math.inf
    return modelled(model_of(call.gpu), config, mode, sizes)


def _product(
    call: ConvCall, filters: StridedSpec, images: TensorSpec, source: str
) -> list[Dispatch] | None:
    """Return the GEMM of filters and the images that the op calls `source`."""
    found = _plain_product(call, filters, images, source)
    return _with_bias(call, found) if found and call.bias else found


def _with_bias(call: ConvCall, found: list[Dispatch]) -> list[Dispatch]:
    """Return the dispatches of a GEMM that adds the op's `bias` to its rows.

    Of several products each has the rows after those of the one before.
    """
    made, row = [], 0
    for each in found:
        if each.kernel.startswith("matmul/gemm_"):
            own = BufferOffset("bias", row * call.x.dtype.itemsize) if row else "bias"
            push = {**each.push, "bias": own}
            defines = {**each.defines, "BIAS": "1"}
            row += int(each.push["m"])  # type: ignore[arg-type]  # an int
            each = dataclasses.replace(each, push=push, defines=defines)
        made.append(each)
    return made


def _plain_product(
    call: ConvCall, filters: StridedSpec, images: TensorSpec, source: str
) -> list[Dispatch] | None:
    """Return the GEMM without a bias."""
    pixels = math.prod(images.shape[2:])
    pixel = Window((1, 1), (1, 1), (0, 0), call.window.dilation)
    whole = call.planes == 1 and pixels % (16 // images.dtype.itemsize) == 0
    if call.window != pixel or not whole:
        return None
    shape = (*images.shape[:2], pixels)
    columns = _view(images, shape, Layout.contiguous(shape).strides)
    sizes = GemmSize(filters.shape[1], pixels, filters.shape[2], images.shape[0])
    merged = merged_config(call.gpu, call.how.mode, sizes)
    if merged is not None:
        found = merged_gemm(call.gpu, filters, columns, merged[0])
        if found is not None:
            return with_memory(found, {"a": "weight", "b": source})
    if pixels < LEAST_PIXELS:
        return None
    found = large_tile_gemm(call.gpu, filters, columns, call.how.mode)
    # Images that need packing are packed as NHWC instead: see `implicit_gemm`.
    if found is None or any(row.push.get("x") == BufferOffset("b", 0) for row in found):
        return None
    return with_memory(found, {"a": "weight", "b": source})


def _view(x: TensorSpec, shape: Shape, strides: Shape) -> StridedSpec:
    return StridedSpec(shape, x.dtype, Layout(shape, strides))
