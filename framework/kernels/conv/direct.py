"""Direct convolution kernels for groups with few channels, such as depthwise.

An implicit GEMM of a few rows would leave most of each tile idle. Here an invocation
computes one output element, or a workgroup reduces one element of a filter's gradient;
operands are loaded without tiling and served by the caches, so that the cost of a
multiplication does not depend on the number of rows.
"""

from __future__ import annotations

import math

from ...base.shape import TensorSpec, ceil_div
from ...ir.kernel_call import Argument, Dispatch, Scratch, fold_grid, linear_grid
from ..gpu_model import model_of
from ..reduce import sum_rows
from ..shader_types import acc_size, storage_defines
from .problem import ConvCall, divisors

WORKGROUP = 256

MOST_ROWS = 8
"""Output channels per group from which tiled kernels are quicker."""

MOST_TAPS = 64
"""Largest number of accumulators of an invocation for a filter's gradient."""

MIN_SPLIT_DEPTH = 4096
"""Least pixels per workgroup of split wgrad."""

MAX_SPLITS = 64


def forward(call: ConvCall) -> Dispatch | None:
    """Return the direct convolution where it is the quicker kernel, otherwise None."""
    bias = "bias" if call.bias else "weight"
    push: dict[str, Argument] = {"x": "x", "weight": "weight", "bias": bias}
    return _of_results(call, call.out, push, {"FOR_INPUT": 0})


def input_vjp(call: ConvCall) -> Dispatch | None:
    """Return the dispatch of the gradient by the images (dgrad), or None."""
    push: dict[str, Argument] = {"x": "grad_out", "weight": "weight", "bias": "weight"}
    return _of_results(call, call.x, push, {"FOR_INPUT": 1})


def weight_vjp(call: ConvCall) -> list[Dispatch] | None:
    """Return the dispatches of the gradient by the filters (wgrad), or None."""
    weight, taps = call.weight, math.prod(call.window.kernel)
    filters = math.prod(weight.shape[:2])
    pixels = call.x.shape[0] * math.prod(call.output_size)
    few = _is_few(call, weight.shape[0]) and taps <= MOST_TAPS
    if not few or filters * pixels == 0:
        return None
    wanted = ceil_div(model_of(call.gpu).depthwise_wgrad_groups, filters)
    splits = min(wanted, pixels // MIN_SPLIT_DEPTH, MAX_SPLITS)
    share = ceil_div(pixels, max(1, splits))
    splits = ceil_div(pixels, share)
    partial = Scratch("partial", acc_size(weight.dtype) * weight.numel * splits)
    push: dict[str, Argument] = {
        "x": "x", "grad": "grad_out", "out_": "out" if splits == 1 else partial,
        **call.sizes(), "share": share, **divisors(call.output_size),
    }  # fmt: skip
    constants = {**call.window.constants(), "LOCAL_X": WORKGROUP}
    defines = storage_defines(weight.dtype, out_acc=splits > 1)
    kernel = "conv/depthwise_wgrad"
    first = Dispatch(kernel, fold_grid(filters, splits), push, constants, defines)
    if splits == 1:
        return [first]
    return [first, sum_rows(call.gpu, partial, weight, splits, weight.numel)]


def _is_few(call: ConvCall, channels: int) -> bool:
    """Return whether a convolution has many groups of few channels."""
    groups = call.how.groups
    return (
        call.gpu.target.hides_latency and 1 < groups and channels <= MOST_ROWS * groups
    )


def _of_results(
    call: ConvCall,
    out: TensorSpec,
    push: dict[str, Argument],
    constants: dict[str, int],
) -> Dispatch | None:
    """Return the direct dispatch, one invocation per output element, or None."""
    if not _is_few(call, out.shape[1]):
        return None
    push |= {"out_": "out", **call.sizes(), **divisors((out.shape[2], out.shape[3]))}
    constants |= {**call.window.constants(), "LOCAL_X": WORKGROUP}
    constants["HAS_BIAS"] = int(call.bias)
    grid = linear_grid(out.numel, WORKGROUP)
    return Dispatch("conv/depthwise", grid, push, constants, storage_defines(out.dtype))
