"""Winograd's minimal filtering: convolutions of small filters as batched GEMMs.

A tile of m results of a line and a filter of r taps are transformed into m + r - 1
numbers each, whose products are transformed into the results: F(m, r). In two
dimensions both directions are transformed, and 3 by 3 taps of 4 by 4 results take 36
multiplications in place of 144. For each of these points there is a GEMM of filters and
images, with channels as K; groups are further GEMMs of a point. The gradient by the
images (dgrad) is a convolution with filters turned around; the gradient by the filters
(wgrad) is the adjoint, with tiles as K.

With a dilation d results that are d apart read pixels that are d apart: a tile is of
these, and tiles that begin with neighbouring results are neighbours.

6 to 9 taps of a line are cut into segments of 3 or 5, the last one filled up with
zeros. Each has windows of its own, so many pixels further on, and their products add
up: K has the channels of each segment.

As many tiles as fit the scratch memory are a piece; pieces run one after the other.

An error is relative to the largest sum of a tile, so a pixel or a tap that exceeds its
neighbours has errors around it. Root mean squares relative to the results, in NumPy
against float64, all sums in order:

===================== ========== =========== ============
of normal numbers     8 channels 64 channels 512 channels
===================== ========== =========== ============
sums of 3 by 3 taps       1.6e-7      4.4e-7       1.2e-6
F(4x4, 3x3)               4.5e-7      7.8e-7       1.9e-6
sums of 5 by 5 taps       2.6e-7      7.1e-7       2.0e-6
F(2x2, 5x5)               5.3e-7      9.0e-7       2.1e-6
F(4x4, 5x5)               1.8e-6      3.2e-6       7.7e-6
===================== ========== =========== ============

Those of F(4x4, 5x5) were up to 8.2 times those of the sums with 8 channels, 5.3 with 64
and 4.8 with 512: of numbers that are normal, positive, around 100 with filters that sum
to zero, or of which a hundredth is 1000 times as large. The largest difference was
1.5e-5 of the largest sum of magnitudes in its tile, of the sums 1.8e-6. Those of 7 by 7
taps in segments of 3 by 3 were up to 2.8 times those of the sums, 2.2e-6 with 64 normal
channels; in segments of 5 by 5 they would be 9.8 times, and 6.5e-6. The points:
`glsl/conv/winograd.glsl`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ...base.dtype import float32
from ...base.shape import Layout, TensorSpec, ceil_div
from ...ir.kernel_call import (
    Argument,
    BufferOffset,
    Dispatch,
    Scratch,
    StridedSpec,
    divisor,
    linear_grid,
    with_memory,
)
from ..gemm.candidates import gemm_dispatches
from ..gemm.cost_model import microseconds as modelled
from ..gemm.cost_model import tile_configs
from ..gemm.tiles import SCALED_FLOAT16, SIMT, GemmSize
from ..gpu_model import model_of
from .implicit_gemm import FILTERS, IMAGES, MOST_ELEMENTS, nchw_microseconds
from .problem import ConvCall, volume_constants
from .window import Pair

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

TAKEN: bool | None = None
"""Whether convolutions are computed so where they can be; None: where it is quicker."""

PLANE_TILES, LINE_TILES = {3: 4, 5: 4}, {3: 4, 5: 4}
"""Results of a tile by taps, m of F(m, r): in each of two directions, and in one alone
where the other has one tap."""

PLANE_SEGMENTS = {6: 3, 7: 3, 8: 3, 9: 3}
LINE_SEGMENTS = {6: 3, 7: 5, 8: 5, 9: 5}
"""Taps of a segment by those of a line, likewise. In planes 4 segments of 5 by 5 taps
have a fifth less products than 9 of 3 by 3, and three times their errors."""

LARGE_LINE_TILES = {3: 8, 5: 8}
"""Those in one direction where float32 may be scaled to float16, which has larger
errors: they take fewer products, and have up to 12 times the errors of plain sums."""

MOST_BYTES = 256 << 20
"""Most scratch memory of the operands and results of a piece."""

LEAST_TILES = 256
"""Tiles of a piece below which its GEMM would not fill a device."""

MOST_SUMMED = 1024
"""Most tiles that one sum of a software device takes, for the error: its GEMM has no
split-K."""

MOST_REACH = 1 << 28
"""Longest window, so that places of all points of a tile are 32-bit numbers."""

LINE = 32
"""Elements of a line in memory that begins with a cache line."""

WORKGROUP = 128
"""Workgroup size of the transforms."""


class _Frame(NamedTuple):
    """Tiles of results, and what is known of them at the device.

    Attributes
    ----------
    call : ConvCall
    images, results : TensorSpec
        What is transformed into products, and what these become.
    before : (int, int)
        Padding at the top and at the left; a negative value crops the images.
    tile : (int, int)
        Results of a tile, which are `dilation` apart.
    taps : (int, int)
        Those of a segment of the filter.
    most : int
        Most tiles of a piece, beside what memory there is.
    """

    call: ConvCall
    images: TensorSpec
    results: TensorSpec
    before: Pair
    tile: Pair
    taps: Pair
    most: int = MOST_ELEMENTS

    @property
    def points(self) -> int:
        """Products of a tile."""
        return math.prod(m + r - 1 for m, r in zip(self.tile, self.taps))

    @property
    def segments(self) -> int:
        """Segments of the filter."""
        sides = zip(self.call.window.kernel, self.taps)
        return math.prod(ceil_div(taps, own) for taps, own in sides)

    @property
    def dilation(self) -> Pair:
        """Distance of taps; 1 in a direction of one tap."""
        high, wide = self.call.window.kernel
        down, across = self.call.window.dilation
        return down if high > 1 else 1, across if wide > 1 else 1

    @property
    def grid(self) -> Pair:
        """Lines of tiles of an image, and tiles of a line."""
        sides = zip(self.results.shape[2:], self.tile, self.dilation)
        high, wide = (_tiles(*side) for side in sides)
        return high, wide

    @property
    def tiles(self) -> int:
        return self.images.shape[0] * math.prod(self.grid)

    @property
    def rows(self) -> int:
        """Channels of the results."""
        return self.results.shape[1]

    @property
    def channels(self) -> int:
        """Channels of the images."""
        return self.images.shape[1]

    @property
    def groups(self) -> int:
        return self.call.how.groups

    @property
    def products(self) -> int:
        """Batch of the GEMM: groups of each point."""
        return self.points * self.groups

    @property
    def own_channels(self) -> int:
        """Channels of a group of the images."""
        return self.channels // self.groups

    @property
    def own_depth(self) -> int:
        """Those, as whole vectors."""
        return _whole(self.own_channels)

    @property
    def depth(self) -> int:
        """Those of all segments: K of the GEMM."""
        return self.segments * self.own_depth

    @property
    def lines(self) -> int:
        """Lines of tiles that images are transformed into, of all groups."""
        return self.groups * self.depth

    @property
    def pieces(self) -> list[range]:
        """Tiles of each piece."""
        per_tile = 4 * self.points * (self.lines + self.rows)
        most = min(self.most, max(LEAST_TILES, MOST_BYTES // per_tile))
        count = ceil_div(self.tiles, most)
        most = ceil_div(self.tiles, count)
        return [
            range(first, min(first + most, self.tiles))
            for first in range(0, self.tiles, most)
        ]

    def constants(self) -> dict[str, int]:
        """Return the specialization constants of `conv/winograd.glsl`."""
        names = ("TAPS_DOWN", "TAPS_ACROSS", "TILE_DOWN", "TILE_ACROSS")
        return {"LOCAL_X": WORKGROUP, **dict(zip(names, (*self.taps, *self.tile)))}

    def segment_constants(self) -> dict[str, int]:
        """Return the further ones of `conv/winograd_segments.glsl`."""
        names = ("FILTER_DOWN", "FILTER_ACROSS")
        kernel = self.call.window.kernel
        return dict(zip(names, kernel)) if self.segments > 1 else {}

    def tile_constants(self) -> dict[str, int]:
        """Return the further ones of `conv/winograd_tiles.glsl`."""
        names = ("DILATION_DOWN", "DILATION_ACROSS")
        apart = {name: d for name, d in zip(names, self.dilation) if d > 1}
        return apart | volume_constants(self.call.planes)

    def fields(self, piece: range, size: Pair) -> dict[str, Argument]:
        """Return the arguments of `conv/winograd_tiles.glsl`; `size` is of a plane."""
        plane, across = math.prod(self.grid), self.grid[1]
        names = ("plane_magic", "plane_shift", "across_magic", "across_shift")
        return {
            "first": piece.start, "tiles": len(piece), "pitch": _line(len(piece)),
            "height": size[0], "width": size[1], "plane": plane, "across": across,
            **dict(zip(names, (*divisor(plane), *divisor(across)))),
        }  # fmt: skip


def _tiles(size: int, tile: int, dilation: int) -> int:
    """Return the tiles of a line of results, which are `dilation` apart in a tile."""
    whole, rest = divmod(size, tile * dilation)
    return whole * dilation + min(rest, dilation)


def _whole(count: int) -> int:
    """Return a number of elements, as whole vectors."""
    return ceil_div(count, 4) * 4


def _line(tiles: int) -> int:
    """Return the elements of a line of tiles in memory."""
    return _whole(tiles) if tiles < LINE else ceil_div(tiles, LINE) * LINE


def _cut(call: ConvCall) -> tuple[Pair, Pair] | None:
    """Return a tile and the taps of a segment, or None where there are none."""
    window = call.window
    if window.stride != (1, 1) or max(window.reach) > MOST_REACH:
        return None
    high, wide = window.kernel
    both = min(high, wide) > 1
    lines = LARGE_LINE_TILES if call.how.mode == SCALED_FLOAT16 else LINE_TILES
    known = PLANE_TILES if both else lines
    cuts = PLANE_SEGMENTS if both else LINE_SEGMENTS
    down, across = (cuts.get(taps, taps) for taps in (high, wide))
    known = {1: 1, **known}
    if (down, across) == (1, 1) or down not in known or across not in known:
        return None
    return (known[down], known[across]), (down, across)


def _framed(
    call: ConvCall, images: TensorSpec, results: TensorSpec, before: Pair
) -> _Frame | None:
    """Return the frame of a convolution, or None where it is for other kernels."""
    cut = _cut(call)
    sizes = [images.numel, results.numel, call.weight.numel]
    groups = call.how.groups
    if groups > 1 and images.shape[1] // groups % 4:
        return None  # lines of a group follow those of the one before
    if TAKEN is False or cut is None or images.dtype is not float32:
        return None
    if 0 in sizes or max(sizes) >= MOST_ELEMENTS:
        return None
    frame = _Frame(call, images, results, before, *cut)
    least = LEAST_TILES * (frame.lines + frame.rows)
    most = max(least, frame.rows * frame.depth)
    return frame if 4 * frame.points * most <= MOST_BYTES else None


def _forward_frame(call: ConvCall) -> _Frame | None:
    return _framed(call, call.x, call.out, call.window.padding)


def _input_frame(call: ConvCall) -> _Frame | None:
    (top, left), (high, wide) = call.window.padding, call.window.reach
    return _framed(call, call.out, call.x, (high - 1 - top, wide - 1 - left))


def _weight_frame(call: ConvCall) -> _Frame | None:
    frame = _framed(call, call.x, call.out, call.window.padding)
    if frame is None:
        return None
    if not call.gpu.target.hides_latency:
        frame = frame._replace(most=MOST_SUMMED)
    parts = len(frame.pieces) * frame.points * frame.rows
    parts *= frame.segments * frame.own_channels
    return frame if 4 * parts <= MOST_BYTES else None


FRAMES = {
    "forward": _forward_frame,
    "input_vjp": _input_frame,
    "weight_vjp": _weight_frame,
}
"""Tiles by pass."""


def microseconds(call: ConvCall, name: str) -> float:
    """Return the modelled time of a pass; infinite where other kernels are quicker.

    Parameters
    ----------
    call : ConvCall
    name : str
        "forward", "input_vjp" or "weight_vjp".
    """
    frame = FRAMES[name](call)
    if frame is None or TAKEN:
        return math.inf if frame is None else 0.0
    gpu, model = call.gpu, model_of(call.gpu)
    taps, pieces, points = math.prod(call.window.kernel), frame.pieces, frame.points
    groups, channels = frame.groups, frame.own_channels
    rows, depth = frame.rows // groups, frame.depth
    pixels, pitch = frame.results.numel // frame.rows, _line(len(pieces[0]))
    if name == "weight_vjp":
        columns, kind = frame.segments * channels, FILTERS
        sizes = GemmSize(rows, columns, pitch, frame.products)
        direct = GemmSize(rows, channels * taps, pixels, groups)
    else:
        sizes, kind = GemmSize(rows, pitch, depth, frame.products), IMAGES
        direct = GemmSize(rows, pixels, channels * taps, groups)
    product = _product_microseconds(gpu, sizes, kind)
    moved = len(pieces) * points * (frame.lines + frame.rows) * pitch
    moved += (len(pieces) if kind == FILTERS else 1) * points * frame.rows * depth
    moved += frame.images.numel + frame.results.numel + call.weight.numel
    time = 4 * moved / model.winograd_bytes_per_microsecond
    time += len(pieces) * (product + model.winograd_microseconds)
    return time if time < nchw_microseconds(gpu, direct, kind) else math.inf


def _product_microseconds(gpu: DeviceInfo, sizes: GemmSize, kind: int) -> float:
    """Return the modelled time of a GEMM for each point; infinite where it is small."""
    model = model_of(gpu)
    if not gpu.target.fast_shared_memory:
        m, n, k, points = sizes
        return points * nchw_microseconds(gpu, GemmSize(m, n, k), kind)
    costs = model.gemm[SIMT]
    m, n, k, _ = sizes
    config = next(iter(tile_configs(gpu, SIMT, sizes)), None)
    if config is None or min(m, n) <= costs.min_side or m * n * k < costs.smallest:
        return math.inf
    return modelled(model, config, SIMT, sizes)


def forward(call: ConvCall) -> list[Dispatch] | None:
    """Return the dispatches of a convolution, or None where it is for other kernels."""
    frame = _forward_frame(call)
    if frame is None:
        return None
    strides = call.weight.shape[1], 1
    return _convolved(frame, "x", strides, turned=False)


def input_vjp(call: ConvCall) -> list[Dispatch] | None:
    """Return the dispatches of the gradient by the images (dgrad), or None."""
    frame = _input_frame(call)
    if frame is None:
        return None
    strides = 1, call.weight.shape[1]
    return _convolved(frame, "grad_out", strides, turned=True)


def weight_vjp(call: ConvCall) -> list[Dispatch] | None:
    """Return the dispatches of the gradient by the filters (wgrad), or None."""
    frame = _weight_frame(call)
    if frame is None:
        return None
    points, rows, groups, pieces = frame.points, frame.rows, frame.groups, frame.pieces
    channels = frame.own_channels
    columns = frame.segments * channels
    pitch = _line(len(pieces[0]))
    windows = Scratch("images", 4 * frame.products * columns * pitch)
    grads = Scratch("gradients", 4 * points * rows * pitch)
    size = 4 * points * rows * columns
    products = Scratch("products", size * len(pieces))
    # Tiles of the gradient of results are no windows: none is padded, none overlap.
    results = frame._replace(images=call.out, before=(0, 0))
    found = []
    for number, piece in enumerate(pieces):
        pitch = _line(len(piece))
        found.append(_images(frame, "x", windows, piece, channels))
        found.append(_images(results, "grad_out", grads, piece, rows, evaluated=True))
        left = _contiguous((frame.products, rows // groups, pitch))
        shape = frame.products, pitch, columns
        layout = Layout(shape, (columns * pitch, 1, pitch))
        right = StridedSpec(shape, float32, layout)
        each = gemm_dispatches(call.gpu, left, right, SIMT, float32)
        out = BufferOffset(products, size * number)
        found += with_memory(each, {"a": grads, "b": windows, "out": out})
    return [*found, _weights(frame, products, rows * columns)]


def _weights(frame: _Frame, products: Scratch, segments: int) -> Dispatch:
    """Return the transform of products into segments of filters, and their sum."""
    magic, shift = divisor(frame.own_channels)
    push: dict[str, Argument] = {
        "products": products, "out_": "out", "segments": segments,
        "parts": len(frame.pieces), "channels": frame.own_channels,
        "channels_magic": magic, "channels_shift": shift,
    }  # fmt: skip
    grid = linear_grid(segments, WORKGROUP)
    constants = {**frame.constants(), **frame.segment_constants()}
    return Dispatch("conv/winograd_wgrad", grid, push, constants)


def _convolved(
    frame: _Frame, source: str, strides: Pair, *, turned: bool
) -> list[Dispatch]:
    """Return the dispatches of a convolution of the images that the op calls `source`.

    `strides` are those of rows and channels among the filters.
    """
    gpu, points, rows = frame.call.gpu, frame.points, frame.rows
    depth, pieces = frame.depth, frame.pieces
    pitch = _line(len(pieces[0]))
    filters = Scratch("filters", 4 * points * rows * depth)
    images = Scratch("images", 4 * points * frame.lines * pitch)
    products = Scratch("products", 4 * points * rows * pitch)
    found = [_filters(frame, filters, strides, turned)]
    left = _contiguous((frame.products, rows // frame.groups, depth))
    for piece in pieces:
        found.append(_images(frame, source, images, piece, frame.own_depth))
        right = _contiguous((frame.products, depth, _line(len(piece))))
        each = gemm_dispatches(gpu, left, right, SIMT, float32)
        memory = {"a": filters, "b": images, "out": products}
        found += with_memory(each, memory)
        found.append(_output(frame, products, piece, frame.call.bias))
    return found


def _contiguous(shape: tuple[int, ...]) -> StridedSpec:
    return StridedSpec(shape, float32, Layout.contiguous(shape))


def _filters(frame: _Frame, out: Scratch, strides: Pair, turned: bool) -> Dispatch:
    """Return the transform of the filters, the op's `weight`."""
    taps = math.prod(frame.call.window.kernel)
    magic, shift = divisor(frame.depth)
    own_magic, own_shift = divisor(frame.own_depth)
    own_rows = frame.rows // frame.groups
    push: dict[str, Argument] = {
        "weight": "weight", "out_": out, "rows": frame.rows, "depth": frame.depth,
        "channels": frame.own_channels, "own_rows": own_rows,
        "row_stride": strides[0] * taps, "channel_stride": strides[1] * taps,
        "group_stride": own_rows * frame.own_channels * taps,
        "depth_magic": magic, "depth_shift": shift, "own_depth": frame.own_depth,
        "own_magic": own_magic, "own_shift": own_shift,
    }  # fmt: skip
    constants = {**frame.constants(), **frame.segment_constants()}
    constants["TURNED"] = int(turned)
    grid = linear_grid(frame.rows * frame.depth, WORKGROUP)
    return Dispatch("conv/winograd_filters", grid, push, constants)


def _images(
    frame: _Frame,
    source: str,
    out: Scratch,
    piece: range,
    own_depth: int,
    *,
    evaluated: bool = False,
) -> Dispatch:
    """Return the transform of the windows of a piece's tiles.

    `own_depth` are lines of a group's segment. With `evaluated` it is that of the tiles
    themselves, the transpose of `_output`, and they are all lines.
    """
    pitch = _line(len(piece))
    depth = own_depth if evaluated else frame.groups * frame.segments * own_depth
    own_magic, own_shift = divisor(own_depth)
    top, left = (each % (1 << 32) for each in frame.before)
    magic, shift = divisor(pitch)
    high, wide = frame.images.shape[2:]
    push: dict[str, Argument] = {
        "x": source, "out_": out, "depth": depth, "channels": frame.channels,
        "top": top, "left": left, "pitch_magic": magic, "pitch_shift": shift,
        "own_depth": own_depth, "own_magic": own_magic, "own_shift": own_shift,
        **frame.fields(piece, (high, wide)),
    }  # fmt: skip
    grid = linear_grid(depth * pitch, WORKGROUP)
    constants = {**frame.constants(), **frame.tile_constants()}
    constants |= {"EVALUATED": 1} if evaluated else frame.segment_constants()
    return Dispatch("conv/winograd_images", grid, push, constants)


def _output(frame: _Frame, products: Scratch, piece: range, bias: bool) -> Dispatch:
    """Return the transform of a piece's products into results."""
    high, wide = frame.results.shape[2:]
    magic, shift = divisor(len(piece))
    # Without a bias its address is not read; any will do.
    push: dict[str, Argument] = {
        "products": products, "bias": "bias" if bias else products, "out_": "out",
        "rows": frame.rows, "tiles_magic": magic, "tiles_shift": shift,
        **frame.fields(piece, (high, wide)),
    }  # fmt: skip
    # SwiftShader crashes at an epilogue in a branch; software devices fuse none.
    fuses = frame.call.gpu.target.hides_latency
    side_by_side = frame.dilation[1] == 1 and frame.tile[1] % 4 == 0
    whole = fuses and wide % 4 == 0 and side_by_side
    kernel = "conv/winograd_output" if whole else "conv/winograd_output_ragged"
    constants = {**frame.constants(), **frame.tile_constants(), "HAS_BIAS": int(bias)}
    grid = linear_grid(frame.rows * len(piece), WORKGROUP)
    return Dispatch(kernel, grid, push, constants)
