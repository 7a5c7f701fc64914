"""Pooling over volumes, plane by plane and then along depth.

The largest of a window is the largest of its planes' largest, and the first of equals
is the same too; means are taken along one dimension after the other.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...base.dtype import FLOAT, int32
from ...base.errors import ShapeError
from ...base.shape import Shape, TensorSpec
from ...base.validation import as_ints
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.conv.window import Window
from ...kernels.pool import max_pool3d_dispatch
from ..conv.conv3d import Triple, check_volumes, triple
from ..elementwise.binary import floor_divide
from ..elementwise.cast import cast
from ..images import check_fit
from ..indexing.gather import store_rows
from ..indexing.scatter import gather
from ..reduce.common import in_storage
from ..source import fill_like
from ..view import reshape
from .avg_pool import divisor, is_one_part
from .filter_weights import Averages, Rule, Shares
from .integer_average import integer_averages, is_integer
from .max_pool import largest, largest_of_parts, with_places
from .max_pool2d import _max_pool2d_reference
from .resample import resampled

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

Size = int | tuple[int | None, ...] | None


def _windows(
    name: str,
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None,
    padding: int | Shape,
    dilation: int | Shape,
    ceil_mode: bool,
    integers: bool = False,
) -> tuple[Window, Window]:
    """Return the windows along depth, as the height of images, and over planes."""
    check_volumes(name, x, integers=integers)
    kernel = triple(f"{name}: kernel_size", kernel_size, 1)
    steps = kernel if stride is None else triple(f"{name}: stride", stride, 1)
    around = triple(f"{name}: padding", padding, 0)
    gaps = triple(f"{name}: dilation", dilation, 1)
    if any(2 * pad > size for pad, size in zip(around, kernel)):
        raise ShapeError(
            f"{name}: padding is {around}; it must be at most half of the kernel"
            f" {kernel}"
        )
    deep = Window((kernel[0], 1), (steps[0], 1), (around[0], 0), (gaps[0], 1))
    flat = Window(
        (kernel[1], kernel[2]),
        (steps[1], steps[2]),
        (around[1], around[2]),
        (gaps[1], gaps[2]),
    )
    depth, height, width = x.layout.shape[-3:]
    if ceil_mode:
        deep, flat = deep.rounded_up(depth, 1), flat.rounded_up(height, width)
    check_fit(name, reshape(x, (-1, 1, height, width)), flat)
    check_fit(name, reshape(x, (1, -1, depth, 1)), deep)
    return deep, flat


@shown_as("AvgPool3DBackward0", "x")
@replayable
def avg_pool3d(
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None = None,
    padding: int | Shape = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the mean of each window of volumes; see `avg_pool2d`.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float.
    kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        As in `avg_pool2d`, of three dimensions.

    Returns
    -------
    Tensor, shape (batch, channels, out_d, out_h, out_w) or without batch
    """
    name = "avg_pool3d"
    whole = is_integer(x)
    given = (kernel_size, stride, padding, 1, ceil_mode)
    deep, flat = _windows(name, x, *given, integers=whole)
    divide_by, factor = divisor(name, count_include_pad, divisor_override)
    size = x.layout.shape[-3:]
    out = (deep.output(size[0], 1)[0], *flat.output(size[1], size[2]))
    sides = [
        (window.kernel[k], window.stride[k], window.padding[k])
        for window, k in ((deep, 0), (flat, 0), (flat, 1))
    ]
    each = [Averages(size[k], out[k], *sides[k], divide_by) for k in range(3)]
    if whole:
        return integer_averages(x, each, divisor_override)
    first = len(x.layout.shape) - 3
    rules: dict[int, Rule] = dict(enumerate(each, first))
    means = resampled(name, x, rules)
    return means if factor is None else means * factor


def _sizes(name: str, wanted: Size, x: Tensor) -> Triple:
    """Return the wanted (depth, height, width); None keeps that of `x`."""
    check_volumes(name, x)
    given = wanted if isinstance(wanted, tuple | list) else (wanted,) * 3
    filled = as_ints(
        f"{name}: output_size",
        [old if new is None else new for old, new in zip(x.layout.shape[-3:], given)],
        "an int, None, or a sequence of these",
    )
    if len(given) != 3 or min(filled) < 1:
        raise ShapeError(
            f"{name}: output_size is {wanted}; it must be one number or (depth,"
            " height, width), each at least 1"
        )
    return filled[0], filled[1], filled[2]


def _node(x: Tensor, output_size: object) -> str:
    one = is_one_part(output_size)
    return "MeanBackward1" if one else "AdaptiveAvgPool3DBackward0"


@shown_as(_node, "x")
@replayable
def adaptive_avg_pool3d(x: Tensor, output_size: Size) -> Tensor:
    """Return means over parts that divide volumes evenly; see `adaptive_avg_pool2d`.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float.
    output_size : int or (int, int, int)
        Parts along each dimension; None keeps the size.

    Returns
    -------
    Tensor, shape (batch, channels, *output_size) or without batch
    """
    wanted = _sizes("adaptive_avg_pool3d", output_size, x)
    rules: dict[int, Rule] = {
        len(x.layout.shape) - 3 + k: Shares(
            x.layout.shape[len(x.layout.shape) - 3 + k], wanted[k]
        )
        for k in range(3)
    }
    return resampled("adaptive_avg_pool3d", x, rules)


@shown_as("MaxPool3DWithIndicesBackward0", "x")
@replayable
def max_pool3d(
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None = None,
    padding: int | Shape = 0,
    dilation: int | Shape = 1,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the largest element of each window of volumes; see `max_pool2d`.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float, or signed integers or uint8.
    kernel_size, stride, padding, dilation, ceil_mode
        As in `max_pool2d`, of three dimensions.

    Returns
    -------
    Tensor, shape (batch, channels, out_d, out_h, out_w) or without batch
    """
    return max_pool3d_with_indices(
        x, kernel_size, stride, padding, dilation, ceil_mode
    )[0]


@shown_as("MaxPool3DWithIndicesBackward0", "x")
@replayable
def max_pool3d_with_indices(
    x: Tensor,
    kernel_size: int | Shape,
    stride: int | Shape | None = None,
    padding: int | Shape = 0,
    dilation: int | Shape = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return what `max_pool3d` does, and where each element was.

    Parameters
    ----------
    x, kernel_size, stride, padding, dilation, ceil_mode
        As in `max_pool3d`.

    Returns
    -------
    tuple of Tensor
        The elements, and their row-major positions in the volume.
    """
    deep, flat = _windows(
        "max_pool3d", x, kernel_size, stride, padding, dilation, ceil_mode, True
    )
    depth, height, width = x.layout.shape[-3:]
    volumes = reshape(x, (-1, depth, height, width))
    if _pools_at_once(volumes, deep, flat):
        shape = (*x.layout.shape[:-3], deep.output(depth, 1)[0])
        shape += flat.output(height, width)
        out, places = _max_pool3d(volumes, deep, flat)
        return with_places((reshape(out, shape), reshape(places, shape)))
    planes = largest(volumes, flat)
    size = planes[0].shape[2:]
    rows = reshape(planes[0], (-1, 1, depth, size[0] * size[1]))
    return with_places(_joined(x, planes[1], size, largest(rows, deep)))


MOST_TAPS = 512
"""Elements of a window that one kernel compares; more are compared plane by plane."""


def _pools_at_once(x: Tensor, deep: Window, flat: Window) -> bool:
    """Return whether one kernel compares all of a window.

    With gradients windows are apart, so that each element has that of one result.
    """
    if not x.is_gpu or x.dtype not in FLOAT or in_storage(x) is not x or not x.numel():
        return False
    overlaps = any(
        step < reach
        for window in (deep, flat)
        for step, reach in zip(window.stride, window.reach)
    )
    taps = math.prod((*deep.kernel, *flat.kernel))
    return taps <= MOST_TAPS and not (overlaps and x.needs_grad)


@primitive(dtypes=FLOAT, outputs=("out", "indices"), typed="x")
def _max_pool3d(x: Tensor, deep: Window, flat: Window) -> tuple[Tensor, Tensor]:
    """Return the largest of each window of (volumes, depth, height, width), and where.

    Positions are those in the volume. For gradients windows must be apart.
    """


@_max_pool3d.spec
def _max_pool3d_spec(
    x: TensorSpec, deep: Window, flat: Window
) -> tuple[TensorSpec, TensorSpec]:
    volumes, depth, height, width = x.shape
    shape = (volumes, deep.output(depth, 1)[0], *flat.output(height, width))
    return TensorSpec(shape, x.dtype), TensorSpec(shape, int32)


@_max_pool3d.kernel
def _max_pool3d_kernel(
    gpu: DeviceInfo, x: StridedSpec, deep: Window, flat: Window
) -> Dispatch:
    return max_pool3d_dispatch(gpu, x, deep, flat)


@_max_pool3d.vjp
def _max_pool3d_vjp(grad: Tensor, indices: Tensor, x_spec: TensorSpec) -> Tensor:
    volumes = x_spec.shape[0]
    zeros = fill_like(grad, (volumes, math.prod(x_spec.shape[1:]), 1), 0, x_spec.dtype)
    index, source = (reshape(each, (volumes, -1, 1)) for each in (indices, grad))
    return reshape(store_rows(zeros, index, source), x_spec.shape)


@_max_pool3d.reference
def _max_pool3d_reference(
    x: np.ndarray, deep: Window, flat: Window
) -> tuple[np.ndarray, np.ndarray]:
    planes, places = _max_pool2d_reference(x, flat)
    (volumes, depth), size = x.shape[:2], planes.shape[2:]
    count = size[0] * size[1]
    rows = planes.reshape(volumes, 1, depth, count)
    out, chosen = _max_pool2d_reference(rows, deep)
    shape = volumes, out.shape[2] * count
    entries = chosen.reshape(shape)
    inner = np.take_along_axis(places.reshape(volumes, depth * count), entries, 1)
    found = entries // max(1, count) * (x.shape[2] * x.shape[3]) + inner
    whole = volumes, out.shape[2], *size
    return out.reshape(whole), found.reshape(whole)


def _joined(
    x: Tensor, places: Tensor, size: Shape, best: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return results and positions, from those in planes and of planes."""
    out, chosen = best
    depth = x.layout.shape[-3]
    deep, count = out.shape[2:]
    shape = (*x.layout.shape[:-3], deep, *size)
    flat = reshape(places, (out.shape[0], depth * count))
    entries = reshape(chosen, (out.shape[0], deep * count))
    inner = gather(flat, 1, entries)
    plane = cast(floor_divide(entries, count), int32) * (
        x.layout.shape[-2] * x.layout.shape[-1]
    )
    return reshape(out, shape), reshape(plane + inner, shape)


@shown_as("AdaptiveMaxPool3DBackward0", "x")
@replayable
def adaptive_max_pool3d(x: Tensor, output_size: Size) -> Tensor:
    """Return the largest element of each part of volumes; see `adaptive_max_pool2d`.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float.
    output_size : int or (int, int, int)
        Parts along each dimension; None keeps the size.

    Returns
    -------
    Tensor, shape (batch, channels, *output_size) or without batch
    """
    return adaptive_max_pool3d_with_indices(x, output_size)[0]


@shown_as("AdaptiveMaxPool3DBackward0", "x")
@replayable
def adaptive_max_pool3d_with_indices(
    x: Tensor, output_size: Size
) -> tuple[Tensor, Tensor]:
    """Return what `adaptive_max_pool3d` does, and where each element was.

    Returns
    -------
    tuple of Tensor
        The elements, and their row-major positions in the volume.
    """
    name = "adaptive_max_pool3d"
    deep, *size = _sizes(name, output_size, x)
    depth, height, width = x.layout.shape[-3:]
    planes = largest_of_parts(
        name, reshape(x, (-1, depth, height, width)), (size[0], size[1])
    )
    rows = reshape(planes[0], (-1, 1, depth, size[0] * size[1]))
    best = largest_of_parts(name, rows, (deep, size[0] * size[1]))
    return with_places(_joined(x, planes[1], tuple(size), best))
