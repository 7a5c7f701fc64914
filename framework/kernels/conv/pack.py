"""Operand packing of implicit GEMM: NCHW to NHWC, and filters.

Images become NHWC, padded with zeros, so that 16 bytes hold neighbouring channels of
one pixel; filters become lines of taps, each with all its channels. The wgrad GEMM
gives gradients of filters in that order too, and they are transposed afterwards.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from ...base.dtype import DType
from ...base.shape import TensorSpec, ceil_div
from ...ir.kernel_call import (
    Argument,
    Dispatch,
    Scratch,
    divisor,
    fold_grid,
    linear_grid,
)
from ..gemm.pack import VECTOR_SIZE
from ..shader_types import storage_defines
from .largest import Largest, of_filters
from .problem import ConvCall, divisors, volume_constants
from .window_grid import DepthTaps, WindowGrid

WORKGROUP = 256
"""Workgroup size of the packing kernels."""

MOST_SHARERS = 8
"""Most invocations that share a result in the reduction of split-K slices."""

TILE_VECTORS = 8
"""Most vectors of a pixel that neighbours store: a cache line."""


class Copy(NamedTuple):
    """Packed operand: its scratch memory and the dispatches that write it.

    Attributes
    ----------
    memory : Scratch
    dispatches : tuple of Dispatch
    exponents : Scratch or None
        Of the scales of float32 that was scaled to float16.
    """

    memory: Scratch
    dispatches: tuple[Dispatch, ...]
    exponents: Scratch | None = None


def channels_last(
    name: str,
    windows: WindowGrid,
    dtype: DType,
    vectors: int,
    least: int = 0,
    largest: Largest | None = None,
    *,
    by_channel: bool = False,
) -> Copy:
    """Return images packed as NHWC.

    Parameters
    ----------
    name : str
        The op's name for the images.
    windows : WindowGrid
        Extent and padding.
    dtype : DType
    vectors : int
        Channel vectors per pixel.
    least : int, default 0
        Smallest number of pixels to allocate; those after the images are zero.
    largest : Largest or None
        Of float32 that is scaled to float16: the largest magnitudes.
    by_channel : bool, default False
        Whether these are of channels, and not of images.
    """
    high, wide = windows.padded
    pixels = max(windows.pixels, least)
    across = min(TILE_VECTORS, 1 << (vectors - 1).bit_length())
    tiles = ceil_div(vectors, across)
    memory = Scratch(f"channels of {name}", VECTOR_SIZE * pixels * vectors)
    push: dict[str, Argument] = {
        "x": name, "vectors": memory, "pixels": windows.pixels,
        "padded_pixels": pixels, "channels": windows.channels,
        "height": windows.size[0], "width": windows.size[1],
        "top": windows.before[0] % (1 << 32), "left": windows.before[1] % (1 << 32),
        "padded_plane": high * wide, "padded_width": wide,
        "channel_vectors": vectors, "tiles": tiles, **divisors((high, wide)),
    }  # fmt: skip
    grid = fold_grid(ceil_div(pixels, WORKGROUP // across) * tiles)
    constants = {"LOCAL_X": WORKGROUP, "VECTORS": across}
    constants |= volume_constants(windows.planes)
    if windows.depth is not None:
        constants["PADDED_PLANES"] = windows.depth.padded
        constants["FRONT"] = windows.depth.before % (1 << 32)
    defines = dict(storage_defines(dtype))
    if largest is not None:
        constants["BY_CHANNEL"] = int(by_channel)
    packed = Dispatch("conv/nchw_to_nhwc", grid, push, constants, defines)
    return _copy(memory, packed, name, largest)


def _copy(
    memory: Scratch,
    packed: Dispatch,
    name: str,
    largest: Largest | None,
    groups: int | None = None,
) -> Copy:
    """Return a packed operand, scaled by the largest magnitudes of groups if given."""
    if largest is None:
        return Copy(memory, (packed,))
    number = largest.groups if groups is None else groups
    exponents = Scratch(f"exponents of {name}", 4 * number)
    scaled = dataclasses.replace(
        packed,
        push={**packed.push, "largest": largest.memory, "exponents": exponents},
        constants={**packed.constants, "SLICES": largest.slices},
        defines={**packed.defines, "SCALED": "1"},
    )
    return Copy(memory, (largest.dispatch, scaled), exponents)


def filters(
    call: ConvCall,
    vectors: int,
    lines: int,
    line: int,
    *,
    for_input: bool,
    scaled: bool = False,
    bundle: int = 1,
    deep: DepthTaps | None = None,
    together: int = 1,
) -> Copy:
    """Return the packed filters, the op's `weight`.

    Parameters
    ----------
    call : ConvCall
    vectors : int
        Channel vectors per filter tap.
    lines, line : int
        Number of lines, and vectors of each, with padding.
    for_input : bool
        Whether to pack for the gradient by the images (dgrad).
    scaled : bool, default False
        Whether float32 is scaled to float16, each line by its largest magnitude.
    bundle : int, default 1
        Groups whose channels a line has, with zeros for those of other groups.
    deep : DepthTaps or None
        Of filters of volumes: their planes in a line.
    together : int, default 1
        Stride phases across that neighbouring lines are of, or 1.
    """
    name = f"filters {deep.first}" if deep is not None else "filters"
    memory = Scratch(name, VECTOR_SIZE * lines * line)
    push: dict[str, Argument] = {
        "weight": "weight", "vectors": memory, "rows": lines, "pitch": line,
        "channel_vectors": vectors,
        "out_channels": call.weight.shape[0],
        "in_channels": call.weight.shape[1] * call.how.groups,
        "out_count": call.weight.shape[0] // call.how.groups,
        "in_count": call.weight.shape[1], "bundle": bundle,
    }  # fmt: skip
    names = ("KERNEL_H", "KERNEL_W", "STRIDE_H", "STRIDE_W")
    constants = {name: call.window.constants()[name] for name in names}
    constants |= {"LOCAL_X": WORKGROUP, "FOR_INPUT": int(for_input)}
    if together > 1:
        constants["PHASES_TOGETHER"] = together
    if deep is not None:
        constants |= {
            "DEPTH": call.weight.shape[2], "DEEP": deep.planes,
            "DEEP_FIRST": deep.first, "DEEP_STEP": deep.step,
            "PLANES_FIRST": int(deep.outermost),
        }  # fmt: skip
    grid = linear_grid(lines * line, WORKGROUP)
    defines = dict(storage_defines(call.weight.dtype))
    packed = Dispatch("conv/pack_weight", grid, push, constants, defines)
    largest = of_filters(call, for_input=for_input) if scaled else None
    return _copy(memory, packed, name, largest, lines)


def filter_sums(
    sums: Scratch,
    out: TensorSpec,
    splits: int,
    pitch: int,
    groups: int,
    bundle: int,
    exponents: tuple[Scratch, Scratch] | None = None,
) -> Dispatch:
    """Return the reduction of wgrad's split-K slices into the result of the op.

    Parameters
    ----------
    sums : Scratch, shape (splits, rows, taps, channels), of accumulator dtype
    out : TensorSpec, shape (rows, channels, kernel_h, kernel_w)
        Or (rows, channels, planes, kernel_h, kernel_w).
    splits : int
    pitch : int
        Channels in `sums`, those of a bundle in the packed images.
    groups, bundle : int
        Groups of the convolution, and of them in a bundle.
    exponents : (Scratch, Scratch) or None
        Of scaled rows and channels.
    """
    rows, channels, *kernel = out.shape
    taps = math.prod(kernel)
    row_magic, row_shift = divisor(taps * pitch)
    pitch_magic, pitch_shift = divisor(pitch)
    push: dict[str, Argument] = {
        "sums": sums, "out_": "out", "parts": splits, "rows": rows, "taps": taps,
        "pitch": pitch, "channels": channels,
        "group_rows": rows // groups, "bundle": bundle,
        "row_magic": row_magic, "row_shift": row_shift,
        "pitch_magic": pitch_magic, "pitch_shift": pitch_shift,
    }  # fmt: skip
    sharers = min(MOST_SHARERS, 1 << (splits.bit_length() - 1))
    grid = linear_grid(rows * taps * pitch, WORKGROUP // sharers)
    constants = {"LOCAL_X": WORKGROUP, "SHARERS": sharers}
    if len(kernel) == 3:
        constants["DEEP"] = kernel[0]
    defines = dict(storage_defines(out.dtype))
    if exponents is not None:
        push["row_exponents"], push["column_exponents"] = exponents
        defines["SCALED"] = "1"
    return Dispatch("conv/wgrad_reduce", grid, push, constants, defines)
