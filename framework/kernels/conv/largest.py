"""Largest magnitudes of images, channels and filters, by which they are scaled.

Float32 is scaled to float16 for tensor cores: see `glsl/lib/float16_scale.glsl`. A
convolution and its gradient by the images add up the channels and taps of one image,
so that images and filters each have a scale. The gradient by the filters adds up all
images, so that channels have one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ...base.shape import ceil_div
from ...ir.kernel_call import Dispatch, Scratch, divisor, fold_grid
from ..gpu_model import model_of

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from .problem import ConvCall
    from .window_grid import WindowGrid

WORKGROUP = 256
"""Workgroup size of the kernel."""

MOST_SLICES = 64
"""Most slices of a group, all of which packing reads for each element."""

LEAST_SLICE = 4096
"""Least elements of a slice: four loads of each invocation, and four times that."""


class Largest(NamedTuple):
    """Largest magnitudes (groups, slices), and the dispatch that finds them.

    Attributes
    ----------
    memory : Scratch
    groups, slices : int
    dispatch : Dispatch
    """

    memory: Scratch
    groups: int
    slices: int
    dispatch: Dispatch


class _Groups(NamedTuple):
    """Groups of elements: runs of contiguous ones, at equal distances."""

    number: int
    step: int
    elements: int
    run: int
    run_step: int
    batch: int = 1
    batch_step: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes and distances, in elements."""
        return self.step, self.elements, self.run, self.run_step, self.batch_step


def of_images(gpu: DeviceInfo, name: str, windows: WindowGrid) -> Largest:
    """Return the largest magnitudes of images, or of volumes."""
    number = windows.images // windows.planes
    size = windows.channels * _channel(windows)
    return _largest(gpu, name, _Groups(number, size, size, size, 0))


def of_channels(gpu: DeviceInfo, name: str, windows: WindowGrid) -> Largest:
    """Return the largest magnitudes of channels in all images."""
    number = windows.images // windows.planes
    run = _channel(windows)
    groups = _Groups(windows.channels, run, number * run, run, windows.channels * run)
    return _largest(gpu, name, groups)


def of_filters(call: ConvCall, *, for_input: bool) -> Largest:
    """Return the largest magnitudes of filters by output channel.

    With `for_input` they are by input channel, of all groups.
    """
    out_channels, in_count, *taps = call.weight.shape
    run, convolutions = math.prod(taps), call.how.groups
    if not for_input:
        size = in_count * run
        return _largest(call.gpu, "weight", _Groups(out_channels, size, size, size, 0))
    filters = out_channels // convolutions
    groups = _Groups(
        in_count, run, filters * run, run, in_count * run,
        convolutions, filters * in_count * run,
    )  # fmt: skip
    return _largest(call.gpu, "weight", groups)


def _channel(windows: WindowGrid) -> int:
    """Return the elements of a channel of an image or volume."""
    return windows.planes * math.prod(windows.size)


def _largest(gpu: DeviceInfo, name: str, groups: _Groups) -> Largest:
    filling = model_of(gpu).reduction_groups // (groups.number * groups.batch)
    most = min(MOST_SLICES, ceil_div(groups.elements, LEAST_SLICE))
    slices = max(1, min(filling, most))
    number = groups.number * groups.batch
    memory = Scratch(f"largest of {name}", 4 * number * slices)
    wide = not any(each % 4 for each in groups.sizes)
    unit = 4 if wide else 1
    magic, shift = divisor(groups.run // unit)
    dispatch = Dispatch(
        "conv/largest",
        fold_grid(groups.number * slices, groups.batch),
        {
            "x": name, "largest": memory, "groups": groups.number,
            "elements": groups.elements // unit, "run": groups.run // unit,
            "run_stride": groups.run_step // unit,
            "group_stride": groups.step // unit,
            "batch_stride": groups.batch_step // unit,
            "run_magic": magic, "run_shift": shift,
        },
        {
            "LOCAL_X": WORKGROUP, "SLICES": slices,
            "RUNS": int(groups.run < groups.elements),
        },
        {"WIDE_LOADS": "1"} if wide else {},
    )  # fmt: skip
    return Largest(memory, number, slices, dispatch)
