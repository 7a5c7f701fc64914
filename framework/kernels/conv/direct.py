"""Direct convolution kernels for groups with few channels, such as depthwise.

An implicit GEMM of a few rows would leave most of each tile idle. Here an invocation
computes a register tile, several channels at neighbouring pixels, or a workgroup
reduces the gradients of several filters; lines of images are loaded in vectors where
they are whole ones, without tiles in shared memory, and served by the caches.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from ...base.dtype import DType, float64
from ...base.shape import TensorSpec, ceil_div
from ...ir.kernel_call import (
    Argument,
    Dispatch,
    Scratch,
    divisor,
    fold_grid,
    linear_grid,
)
from ..gpu_model import model_of
from ..reduce import sum_rows
from ..shader_types import acc_size, storage_defines
from .problem import ConvCall, divisors, volume_constants
from .window import Pair

WORKGROUP = 256

WGRAD_WORKGROUP = 128
"""Invocations that share the sums of a filter's gradient, which fill registers."""

MOST_ROWS = 8
"""Output channels per group from which tiled kernels are quicker."""

MOST_TAPS = 64
"""Largest number of accumulators of an invocation for a filter's gradient."""

MAX_SUMS = 80
"""Largest number of them in a register tile of several filters."""

MAX_SPAN = 40
"""Most elements of a line that an invocation holds."""

MAX_UNROLLED = 640
"""Most multiply-adds of a register tile that are unrolled, for the compiler's sake."""

MIN_TILES = 1 << 16
"""Register tiles that fill the device; of larger ones there must be as many."""

MIN_SPLIT_SEGMENTS = 512
"""Least segments per workgroup of split wgrad."""

MAX_SPLITS = 64


class _RegisterTile(NamedTuple):
    """Channels and pixels of an invocation."""

    channels: int
    pixels: int


def forward(call: ConvCall) -> Dispatch | None:
    """Return the direct convolution where it is the quicker kernel, otherwise None."""
    if not _is_few(call, call.out.shape[1]):
        return None
    push = _operands(call, "x")
    taps, (out_count, in_count) = _taps(call), _counts(call)
    push |= {"in_count": in_count, "out_count": out_count}
    push |= {"filter_out": in_count * taps, "filter_in": taps}
    return _tiled(call, call.x, call.out, call.window.padding, push) or _of_results(
        call, call.out, push, {"FOR_INPUT": 0}
    )


def input_vjp(call: ConvCall) -> Dispatch | None:
    """Return the dispatch of the gradient by the images (dgrad), or None."""
    if not _is_few(call, call.x.shape[1]):
        return None
    window = call.window
    push = _operands(call, "grad_out")
    if window.stride == (1, 1):
        high, wide = (
            reach - 1 - pad for reach, pad in zip(window.reach, window.padding)
        )
        taps, (out_count, in_count) = _taps(call), _counts(call)
        turned: dict[str, Argument] = {"in_count": out_count, "out_count": in_count}
        turned |= {"filter_out": taps, "filter_in": in_count * taps}
        found = _tiled(call, call.out, call.x, (high, wide), push | turned, turned=True)
        if found is not None:
            return found
    return _of_results(call, call.x, push, {"FOR_INPUT": 1})


def weight_vjp(call: ConvCall) -> list[Dispatch] | None:
    """Return the dispatches of the gradient by the filters (wgrad), or None."""
    weight, taps, groups = call.weight, _taps(call), call.how.groups
    out_count, in_count = _counts(call)
    few = _is_few(call, weight.shape[0]) and taps <= MOST_TAPS
    if not few or weight.numel * call.out.numel == 0:
        return None
    channels = _channels(out_count, max(1, min(MOST_ROWS, MAX_SUMS // taps)))
    pixels = _pixels(call.output_size[1], MAX_UNROLLED // (channels * taps))
    if _span(call, pixels) > MAX_SPAN:
        return None
    segments = ceil_div(call.output_size[1], pixels)
    total = call.x.shape[0] * call.output_size[0] * segments
    count = weight.shape[0] // channels * in_count
    # Figures of workgroups are of 256 invocations.
    wanted = ceil_div(
        model_of(call.gpu).depthwise_wgrad_groups * WORKGROUP, WGRAD_WORKGROUP * count
    )
    splits = min(wanted, total // MIN_SPLIT_SEGMENTS, MAX_SPLITS)
    share = ceil_div(total, max(1, splits))
    splits = ceil_div(total, share)
    partial = Scratch("partial", acc_size(weight.dtype) * weight.numel * splits)
    push: dict[str, Argument] = {
        "x": "x", "grad": "grad_out", "out_": "out" if splits == 1 else partial,
        "count": count, "in_count": in_count, "out_count": out_count,
        "groups": groups, "share": share, "total": total,
        **_sizes(call.x, call.out, segments),
    }  # fmt: skip
    tile, whole = _RegisterTile(channels, pixels), call.output_size[1] % pixels == 0
    constants = {
        **_constants(call, call.x, call.window.padding, call.window.stride, tile),
        **volume_constants(call.planes),
        "LOCAL_X": WGRAD_WORKGROUP,
        "WHOLE": int(whole),
        "GRAD_VECTORS": int(whole and _has_vectors(weight.dtype, pixels)),
    }
    defines = storage_defines(weight.dtype, out_acc=splits > 1)
    kernel = "conv/direct_wgrad"
    first = Dispatch(kernel, fold_grid(count, splits), push, constants, defines)
    if splits == 1:
        return [first]
    return [first, sum_rows(call.gpu, partial, weight, splits, weight.numel)]


def _operands(call: ConvCall, source: str) -> dict[str, Argument]:
    # Without a bias its address is not read; any will do.
    bias = "bias" if call.bias else "weight"
    return {"x": source, "weight": "weight", "bias": bias}


def _is_few(call: ConvCall, channels: int) -> bool:
    """Return whether a convolution has many groups of few channels."""
    groups = call.how.groups
    return (
        call.gpu.target.hides_latency and 1 < groups and channels <= MOST_ROWS * groups
    )


def _taps(call: ConvCall) -> int:
    return math.prod(call.window.kernel)


def _counts(call: ConvCall) -> Pair:
    """Return the channels of a group: of the result and of the images."""
    return call.weight.shape[0] // call.how.groups, call.weight.shape[1]


def _channels(count: int, most: int) -> int:
    """Return the channels of a register tile: as many as divide those of a group."""
    return max(n for n in range(1, min(count, most) + 1) if count % n == 0)


def _pixels(width: int, most: int) -> int:
    """Return the pixels of a register tile, of a line that it divides if it can."""
    sizes = [size for size in (8, 7, 4) if size <= max(most, 4)]
    whole = (size for size in (8, 4, 7) if size in sizes and width % size == 0)
    return next(whole, sizes[0] if width > 2 * sizes[0] else 4)


def _span(call: ConvCall, pixels: int, stride: int | None = None) -> int:
    """Return how many elements of a line a segment's windows see."""
    step = call.window.stride[1] if stride is None else stride
    return (pixels - 1) * step + call.window.reach[1]


def _has_vectors(dtype: DType, *sizes: int) -> bool:
    """Return whether lines of these sizes are vectors of four elements."""
    return dtype is not float64 and not any(size % 4 for size in sizes)


def _sizes(x: TensorSpec, out: TensorSpec, segments: int) -> dict[str, int]:
    """Return the sizes that both kernels take, and divisors of numbers of segments."""
    names = ("in_height", "in_width", "out_height", "out_width")
    sizes = dict(zip(names, (*x.shape[2:], *out.shape[2:])))
    sizes["segments"] = segments
    for name, by in (("segments", segments), ("height", out.shape[2])):
        sizes[f"{name}_magic"], sizes[f"{name}_shift"] = divisor(by)
    return sizes


def _constants(
    call: ConvCall, x: TensorSpec, before: Pair, stride: Pair, tile: _RegisterTile
) -> dict[str, int]:
    """Return the constants of a window and of `conv/line_segment.glsl`."""
    vectors = _has_vectors(x.dtype, x.shape[3], tile.pixels * stride[1])
    skew = -before[1] % 4 if vectors else 0
    window = call.window._replace(stride=stride, padding=(0, 0))
    return {
        **window.constants(),
        "CHANNELS": tile.channels,
        "PIXELS": tile.pixels,
        "BEFORE_H": before[0] % (1 << 32),
        "BEFORE_W": before[1] % (1 << 32),
        "VECTORS": int(vectors),
        "SKEW": skew,
        "BEFORE_VECTORS": (before[1] + skew) // 4 % (1 << 32),
    }


def _tiled(
    call: ConvCall,
    x: TensorSpec,
    out: TensorSpec,
    before: Pair,
    push: dict[str, Argument],
    *,
    turned: bool = False,
) -> Dispatch | None:
    """Return the dispatch of register tiles, or None where one would be too large.

    `before` is the padding of `x`, and `turned` says that filters are turned around,
    with a stride of 1.
    """
    stride = (1, 1) if turned else call.window.stride
    channels = _channels(int(push["out_count"]), MOST_ROWS)  # type: ignore[arg-type]  # an int
    pixels = _pixels(out.shape[3], MAX_UNROLLED // (channels * call.window.kernel[1]))
    while channels > 1 and out.numel < MIN_TILES * channels * pixels:
        channels = _channels(channels, channels - 1)
    if pixels > 4 and out.numel < MIN_TILES * pixels:
        pixels = 4
    unrolled = channels * pixels * call.window.kernel[1]
    if _span(call, pixels, stride[1]) > MAX_SPAN or unrolled > MAX_UNROLLED:
        return None
    segments = ceil_div(out.shape[3], pixels)
    count = out.numel // max(1, channels * out.shape[3]) * segments
    tiles_magic, tiles_shift = divisor(max(1, out.shape[1] // channels))
    push = {
        **push, "out_": "out", "count": count, "groups": call.how.groups,
        **_sizes(x, out, segments),
        "tiles_magic": tiles_magic, "tiles_shift": tiles_shift,
    }  # fmt: skip
    constants = {
        **_constants(call, x, before, stride, _RegisterTile(channels, pixels)),
        "LOCAL_X": WORKGROUP,
        "HAS_BIAS": int(call.bias),
        **volume_constants(call.planes),
        "TURNED": int(turned),
        "VECTOR_STORES": int(_has_vectors(out.dtype, out.shape[3], pixels)),
    }
    grid = linear_grid(count, WORKGROUP)
    return Dispatch("conv/direct", grid, push, constants, storage_defines(out.dtype))


def _of_results(
    call: ConvCall,
    out: TensorSpec,
    push: dict[str, Argument],
    constants: dict[str, int],
) -> Dispatch:
    """Return the direct dispatch, one invocation per output element."""
    names = ("x", "weight", "bias")
    push = {name: push[name] for name in names} | {"out_": "out"}
    push |= {**call.sizes(), **divisors((out.shape[2], out.shape[3]))}
    constants |= {**call.constants(), "LOCAL_X": WORKGROUP}
    constants["HAS_BIAS"] = int(call.bias)
    grid = linear_grid(out.numel, WORKGROUP)
    return Dispatch("conv/depthwise", grid, push, constants, storage_defines(out.dtype))
