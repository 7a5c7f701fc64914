"""Operand packing of implicit GEMM: NCHW to NHWC, and filters.

Images get their channels last, padded with zeros, so that 16 bytes hold neighbouring
channels of one pixel; filters get lines of taps, each with all its channels. Gradients
of filters come out of products in the same order, and get their own afterwards.
"""

from __future__ import annotations

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
from .problem import ConvCall, divisors
from .window import Pair

WORKGROUP = 256
"""Invocations of the kernels that copy."""

MOST_SHARERS = 8
"""Invocations that share a result whose parts are added."""

TILE_VECTORS = 8
"""Vectors of a pixel that neighbours store at most: a line of a cache."""


class WindowGrid(NamedTuple):
    """Grid of windows over images: output pixels and filter taps.

    Attributes
    ----------
    images, channels : int
    size : (int, int)
        Of an image.
    before : (int, int)
        Padding at the top and at the left; of an image that is less from the start if
        it is negative.
    grid : (int, int)
        Places of the window.
    step : (int, int)
        From one to the next.
    taps, gap : (int, int)
        How many the window has, and how far they are apart.
    """

    images: int
    channels: int
    size: Pair
    before: Pair
    grid: Pair
    step: Pair = (1, 1)
    taps: Pair = (1, 1)
    gap: Pair = (1, 1)

    @property
    def padded(self) -> Pair:
        """The size of an image with all that windows cover, and no more."""
        high, wide = (
            (grid - 1) * step + (taps - 1) * gap + 1
            for grid, step, taps, gap in zip(self.grid, self.step, self.taps, self.gap)
        )
        return high, wide

    @property
    def pixels(self) -> int:
        """Pixels of all padded images."""
        return self.images * math.prod(self.padded)

    @property
    def number(self) -> int:
        """Places in all images."""
        return self.images * math.prod(self.grid)

    def constants(self, channel_vectors: int) -> dict[str, int]:
        """Return the specialization constants of `conv/igemm_addressing.glsl`."""
        high, wide = self.padded
        return {
            "PLANE": math.prod(self.grid),
            "ACROSS": self.grid[1],
            "IMAGE": high * wide * channel_vectors,
            "LINE": self.step[0] * wide * channel_vectors,
            "PLACE": self.step[1] * channel_vectors,
            "CHANNEL_VECTORS": channel_vectors,
            "TAPS": math.prod(self.taps),
            "TAPS_ACROSS": self.taps[1],
            "TAP_LINE": self.gap[0] * wide * channel_vectors,
            "TAP": self.gap[1] * channel_vectors,
        }


class Copy(NamedTuple):
    """Where a copy lies, and what makes it."""

    memory: Scratch
    dispatch: Dispatch


def channels_last(
    name: str, windows: WindowGrid, dtype: DType, vectors: int, least: int = 0
) -> Copy:
    """Return a copy of images.

    Parameters
    ----------
    name : str
        What the op calls them.
    windows : Places
        Which part of them, and how it is padded.
    dtype : DType
    vectors : int
        Of channels, of each pixel.
    least : int, default 0
        Pixels that are there at least; after the images they are zero.
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
    defines = storage_defines(dtype)
    return Copy(memory, Dispatch("conv/nchw_to_nhwc", grid, push, constants, defines))


def filters(
    call: ConvCall, vectors: int, lines: int, line: int, *, for_input: bool
) -> Copy:
    """Return a copy of filters, which the op calls `weight`.

    Parameters
    ----------
    call : Call
    vectors : int
        Of channels, of each tap.
    lines, line : int
        How many lines there are, and vectors of each, with padding.
    for_input : bool
        Whether lines are those of the gradient by the images.
    """
    memory = Scratch("filters", VECTOR_SIZE * lines * line)
    push: dict[str, Argument] = {
        "weight": "weight", "vectors": memory, "rows": lines, "pitch": line,
        "channel_vectors": vectors,
        "out_channels": call.weight.shape[0], "in_channels": call.weight.shape[1],
    }  # fmt: skip
    names = ("KERNEL_H", "KERNEL_W", "STRIDE_H", "STRIDE_W")
    constants = {name: call.window.constants()[name] for name in names}
    constants |= {"LOCAL_X": WORKGROUP, "FOR_INPUT": int(for_input)}
    grid = linear_grid(lines * line, WORKGROUP)
    defines = storage_defines(call.weight.dtype)
    return Copy(memory, Dispatch("conv/pack_weight", grid, push, constants, defines))


def filter_sums(sums: Scratch, out: TensorSpec, splits: int, vectors: int) -> Dispatch:
    """Return what adds parts of a gradient of filters into the result of the op.

    Parameters
    ----------
    sums : Scratch, shape (parts, rows, taps, channels), in what sums are kept in
    out : TensorSpec, shape (rows, channels, kernel_h, kernel_w)
    splits : int
    vectors : int
        Of channels in `sums`, as many as in the images.
    """
    rows, channels, *kernel = out.shape
    taps, pitch = math.prod(kernel), vectors * VECTOR_SIZE // out.dtype.itemsize
    row_magic, row_shift = divisor(taps * pitch)
    pitch_magic, pitch_shift = divisor(pitch)
    push: dict[str, Argument] = {
        "sums": sums, "out_": "out", "parts": splits, "rows": rows, "taps": taps,
        "pitch": pitch, "channels": channels,
        "row_magic": row_magic, "row_shift": row_shift,
        "pitch_magic": pitch_magic, "pitch_shift": pitch_shift,
    }  # fmt: skip
    sharers = min(MOST_SHARERS, 1 << (splits.bit_length() - 1))
    grid = linear_grid(rows * taps * pitch, WORKGROUP // sharers)
    constants = {"LOCAL_X": WORKGROUP, "SHARERS": sharers}
    return Dispatch(
        "conv/wgrad_reduce", grid, push, constants, storage_defines(out.dtype)
    )
