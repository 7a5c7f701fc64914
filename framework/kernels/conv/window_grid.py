"""Grids of windows over images and over the depth of volumes, of an implicit GEMM."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...base.shape import ceil_div
from .problem import ConvCall
from .window import Pair

COLUMNS_TOGETHER = 1024
"""Least columns of planes of one depth, which are more than a tile has."""


class DepthGrid(NamedTuple):
    """Grid of windows along the depth of volumes.

    Attributes
    ----------
    before : int
        Planes of zeros in front of a volume; a negative value crops it.
    padded : int
        Planes of a padded, or cropped, volume.
    grid : int
        Windows.
    step, taps, gap : int
        Stride, planes of a window, and dilation.
    first : int
        Padded plane at which the first window begins.
    """

    before: int
    padded: int
    grid: int
    step: int = 1
    taps: int = 1
    gap: int = 1
    first: int = 0

    @property
    def front(self) -> int:
        """Planes of zeros that the first window has in front of a volume."""
        return self.before - self.first


class DepthTaps(NamedTuple):
    """Planes of filters in a line of packed ones.

    Attributes
    ----------
    planes : int
    first, step : int
        Every `step`-th from the `first`.
    outermost : bool
        Whether a line has all taps of a plane, then those of the next; if not, all
        planes of a tap.
    """

    planes: int
    first: int = 0
    step: int = 1
    outermost: bool = False


class WindowGrid(NamedTuple):
    """Grid of windows over images: output pixels and filter taps.

    Attributes
    ----------
    images, channels : int
    size : (int, int)
        Image size.
    before : (int, int)
        Padding at the top and at the left; a negative value crops the image.
    grid : (int, int)
        Output pixels.
    step : (int, int)
        Stride.
    taps, gap : (int, int)
        Filter size and dilation.
    planes : int
        Planes of a volume, each of which is an image.
    depth : DepthGrid or None
        Windows along depth, if there are any.
    """

    images: int
    channels: int
    size: Pair
    before: Pair
    grid: Pair
    step: Pair = (1, 1)
    taps: Pair = (1, 1)
    gap: Pair = (1, 1)
    planes: int = 1
    depth: DepthGrid | None = None

    @property
    def deep(self) -> int:
        """Planes of a window."""
        return 1 if self.depth is None else self.depth.taps

    @property
    def padded(self) -> Pair:
        """Size of an image padded, or cropped, to the extent of all windows."""
        high, wide = (
            (grid - 1) * step + (taps - 1) * gap + 1
            for grid, step, taps, gap in zip(self.grid, self.step, self.taps, self.gap)
        )
        return high, wide

    @property
    def pixels(self) -> int:
        """Pixels of all padded images."""
        images = self.images
        if self.depth is not None:
            images = images // self.planes * self.depth.padded
        return images * math.prod(self.padded)

    @property
    def number(self) -> int:
        """Output pixels of all images."""
        images = self.images
        if self.depth is not None:
            images = images // self.planes * self.depth.grid
        return images * math.prod(self.grid)

    def constants(self, channel_vectors: int) -> dict[str, int]:
        """Return the specialization constants of `conv/igemm_addressing.glsl`."""
        high, wide = self.padded
        image = high * wide * channel_vectors
        return {
            **self._depth_constants(image),
            "PLANE": math.prod(self.grid),
            "ACROSS": self.grid[1],
            "IMAGE": image,
            "LINE": self.step[0] * wide * channel_vectors,
            "PLACE": self.step[1] * channel_vectors,
            "CHANNEL_VECTORS": channel_vectors,
            "TAPS": math.prod(self.taps),
            "TAPS_ACROSS": self.taps[1],
            "TAP_LINE": self.gap[0] * wide * channel_vectors,
            "TAP": self.gap[1] * channel_vectors,
        }

    def tap_planes(self) -> tuple[int, int]:
        """Return the taps along depth of a volume's results, and those in the volume.

        All taps of all windows, at a pixel.
        """
        depth = self.depth
        if depth is None:
            return 1, 1
        inside = sum(
            0 <= at * depth.step + tap * depth.gap - depth.front < self.planes
            for at in range(depth.grid)
            for tap in range(depth.taps)
        )
        return depth.grid * depth.taps, inside

    def first_vector(self, channel_vectors: int) -> int:
        """Return the packed vector at which the first window along depth begins."""
        planes = 0 if self.depth is None else self.depth.first
        return planes * math.prod(self.padded) * channel_vectors

    def _depth_constants(self, image: int) -> dict[str, int]:
        """Return those of windows along depth; `image` is an image in vectors."""
        depth = self.depth
        if depth is None:
            return {}
        return {
            "DEEP": depth.grid,
            "VOLUME": depth.padded * image,
            "WINDOW_PLANE": depth.step * image,
            "TAP_PLANE": depth.gap * image,
        }


def phase_grid(call: ConvCall) -> WindowGrid | None:
    """Return the window grid over `grad` that all stride phases share.

    None where stride and dilation together give phases different windows.
    """
    window, found = call.window, []
    for k in range(2):
        step, gap, pad = window.stride[k], window.dilation[k], window.padding[k]
        if step > 1 and gap > 1:
            return None
        taps = ceil_div(window.kernel[k], step)
        first, last = pad // step, (call.size[k] - 1 + pad) // step
        found.append(((taps - 1) * gap - first, last - first + 1, taps))
    before, grid, taps_of = zip(*found)
    images, channels = call.out.shape[:2]
    return WindowGrid(
        images,
        channels,
        call.output_size,
        before,
        grid,
        taps=taps_of,
        gap=window.dilation,
        planes=call.result_planes,
    )


def depth_phases(call: ConvCall) -> list[tuple[DepthGrid, DepthTaps]]:
    """Return the windows along the depth of `grad` of each stride phase, and its taps.

    There are none where stride and dilation together give phases different windows, or
    a phase has no tap.
    """
    depth = call.how.depth
    assert depth is not None, "there are windows along depth"
    taps, step, pad, gap = (pair[0] for pair in depth[:4])
    if (step > 1 and gap > 1) or taps < step:
        return []
    found = []
    for start in range(min(step, call.planes)):
        tap = (start + pad) % step
        count = ceil_div(taps - tap, step)
        before = (count - 1) * gap - (start + pad) // step
        grid = ceil_div(call.planes - start, step)
        found.append((before, grid, DepthTaps(count, tap, step)))
    front = max(before for before, _, _ in found)
    ends = [
        front - before + grid + (deep.planes - 1) * gap for before, grid, deep in found
    ]
    return [
        (DepthGrid(front, max(ends), grid, 1, deep.planes, gap, front - before), deep)
        for before, grid, deep in found
    ]


def window_grid(call: ConvCall) -> WindowGrid:
    """Return the windows of a convolution over its images, or volumes."""
    window = call.window
    return WindowGrid(
        call.x.shape[0],
        call.x.shape[1],
        call.size,
        window.padding,
        call.output_size,
        window.stride,
        window.kernel,
        window.dilation,
        call.planes,
        _depth_grid(call),
    )


def _depth_grid(call: ConvCall) -> DepthGrid | None:
    depth = call.how.depth
    if depth is None:
        return None
    grid, step = call.result_planes, depth.stride[0]
    padded = (grid - 1) * step + depth.reach[0]
    return DepthGrid(
        depth.padding[0], padded, grid, step, depth.kernel[0], depth.dilation[0]
    )


def volumes_together(windows: WindowGrid) -> int:
    """Return of how many volumes planes of one depth are side by side.

    They are several tiles, few of which have planes of two depths, and as few volumes
    as that takes, which stay in the cache.
    """
    volumes = windows.images // windows.planes
    wanted = ceil_div(COLUMNS_TOGETHER, math.prod(windows.grid))
    return next((n for n in range(wanted, volumes) if volumes % n == 0), volumes)
