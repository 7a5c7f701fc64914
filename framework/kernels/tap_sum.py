"""Launch parameters of weighted sums of elements by index: tap sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..base.dtype import float64
from ..base.shape import ceil_div
from ..ir.kernel_call import Argument, Dispatch, StridedSpec, divisor, fold_grid
from .gpu_model import model_of
from .linear import linear_dispatch, linear_workgroup
from .reduce import WORKGROUP
from .shader_types import storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..base.shape import Shape

CHANNELS = 8
"""Channels for which an invocation reads its indices and weights once."""

CELLS = 8192
"""Words of images that a workgroup holds, in 32 KiB."""

MOST_PLANES = 4
"""Most images that it does: each has its sums in registers."""

GROUPS_EACH = 4
"""Workgroups for each multiprocessor, below which places are divided among several."""


class HeldPlanes(NamedTuple):
    """Images that a workgroup holds in shared memory, and the places that it sums.

    Attributes
    ----------
    planes : int
        Words of channels: of one channel, or of two of 2 bytes.
    groups : int
        Workgroups for all channels.
    parts : int
        Workgroups for all places.
    """

    planes: int
    groups: int
    parts: int


def held_planes(
    gpu: DeviceInfo, x: StridedSpec, taps: int, places: int
) -> HeldPlanes | None:
    """Return what workgroups hold of (batch, channels, size); None if that is slower.

    It is where images are no larger than what is read of them, and workgroups enough.
    """
    batch, channels, size = x.shape
    has_room = gpu.max_shared_memory >= 4 * CELLS
    if not gpu.target.hides_latency or not has_room or x.dtype is float64:
        return None
    if not 0 < size <= min(CELLS, taps * places) or not batch * channels:
        return None
    words = ceil_div(channels * min(x.dtype.itemsize, 4), 4)
    planes = min(CELLS // size, MOST_PLANES, words)
    groups, least = ceil_div(words, planes), model_of(gpu).multiprocessors
    most = max(1, taps * places // size)
    parts = min(most, ceil_div(GROUPS_EACH * least, batch * groups))
    if batch * groups * parts < least:
        return None
    return HeldPlanes(planes, groups, ceil_div(places, ceil_div(places, parts)))


def tap_sum_dispatch(gpu: DeviceInfo, x: StridedSpec, index: StridedSpec) -> Dispatch:
    """Return the dispatch of the sums of (batch, channels, size) by their taps."""
    batch, channels, size = x.shape
    taps, places = index.shape[1:]
    push: dict[str, Argument] = {"x": "x", "indices": "index", "weights": "weights"}
    push |= {"out_": "out", "channels": channels, "size": size, "places": places}
    defines = storage_defines(x.dtype)
    held = held_planes(gpu, x, taps, places)
    if held is None:
        push["count"] = count = batch * ceil_div(channels, CHANNELS) * places
        constants = {"TAPS": taps, "CHANNELS": CHANNELS}
        given = push, constants, defines, linear_workgroup(gpu)
        return linear_dispatch("index/tap_sum", count, *given)
    push |= {"batches": batch, "groups": held.groups, "parts": held.parts}
    push["part"] = ceil_div(places, held.parts)
    for k, by in enumerate((held.parts, held.groups)):
        push[f"magic[{k}]"], push[f"shift[{k}]"] = divisor(by)
    cells = 1 << (held.planes * size - 1).bit_length()
    constants = {"LOCAL_X": WORKGROUP, "TAPS": taps, "PLANES": held.planes}
    constants["CELLS"] = max(WORKGROUP, cells)
    grid = fold_grid(batch * held.groups * held.parts)
    return Dispatch("index/tap_sum_shared", grid, push, constants, defines)


def scattered_planes(gpu: DeviceInfo, shape: Shape) -> int | None:
    """Return the images that a workgroup adds up, of (batch, channels, size).

    None if it holds none, or there are too few.
    """
    batch, channels, size = shape
    has_room = gpu.max_shared_memory >= 4 * CELLS
    if not gpu.target.hides_latency or not has_room or not 0 < size <= CELLS:
        return None
    least = model_of(gpu).multiprocessors
    enough = batch * channels // (GROUPS_EACH * least)
    planes = max(1, min(CELLS // size, MOST_PLANES, enough))
    return planes if batch * ceil_div(channels, planes) >= least else None


def tap_scatter_dispatch(
    gpu: DeviceInfo, slope: StridedSpec, index: StridedSpec, size: int
) -> Dispatch:
    """Return the dispatch of the gradient of tap sums by their `size` elements."""
    batch, channels, places = slope.shape
    planes = scattered_planes(gpu, (batch, channels, size)) or 1
    groups = ceil_div(channels, planes)
    push: dict[str, Argument] = {"slope": "slope", "indices": "index", "out_": "out"}
    push |= {"weights": "weights", "batches": batch, "channels": channels}
    push |= {"size": size, "places": places, "groups": groups}
    push["magic"], push["shift"] = divisor(max(1, groups))
    cells = 1 << (planes * size - 1).bit_length()
    constants = {"LOCAL_X": WORKGROUP, "TAPS": index.shape[1], "PLANES": planes}
    constants["CELLS"] = max(WORKGROUP, cells)
    grid, defines = fold_grid(batch * groups), storage_defines(slope.dtype)
    return Dispatch("index/tap_scatter", grid, push, constants, defines)
