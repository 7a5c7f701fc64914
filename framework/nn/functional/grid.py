"""Spatial transformers: sampling of images at the places of a grid.

Source: Jaderberg et al., arXiv:1506.02025.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence

from ... import ops
from ...autograd.grad_mode import is_grad_enabled
from ...autograd.tape import shown_as
from ...base.dtype import int32
from ...base.errors import ShapeError
from ...base.shape import Layout, Shape
from ...dispatch.autocast_policy import (
    autocast_low_precision,
    autocast_promote_on_device,
)
from ...dispatch.diagnosis import need_flags
from ...dispatch.replayable import replayable
from ...kernels.shader_types import statistic_dtype
from ...ops.indexing.grid_taps import grid_taps
from ...ops.indexing.nearest_samples import nearest_samples
from ...ops.indexing.tap_sum import tap_sum
from ...ops.reduce.common import in_storage
from ...tensor.tensor import Tensor

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


@autocast_low_precision
@replayable
def affine_grid(
    theta: Tensor, size: Sequence[int], align_corners: bool | None = None
) -> Tensor:
    """Return the grid of an affine map, for `grid_sample`.

    Parameters
    ----------
    theta : Tensor, shape (batch, 2, 3) or (batch, 3, 4), float
        From places of the result to those of the image, with a last column of shifts.
    size : (batch, channels, [depth,] height, width)
        Of the result.
    align_corners : bool or None
        Whether -1 and 1 are the middles of the outermost elements, not their ends; None
        is False, with a warning.

    Returns
    -------
    Tensor, shape (batch, [depth,] height, width, 2 or 3)

    Raises
    ------
    ShapeError
        If the shapes do not fit.
    """
    aligned = _aligned("affine_grid", align_corners)
    dims = len(size) - 2
    if dims not in (2, 3) or min(size) < 1:
        raise ShapeError(
            f"affine_grid: size is {tuple(size)}; it must be (batch, channels, height,"
            " width) or (batch, channels, depth, height, width), each at least 1"
        )
    if theta.layout.shape != (size[0], dims, dims + 1) or not theta.dtype.is_float:
        raise ShapeError(
            f"affine_grid: theta is {tuple(theta.shape)}, {theta.dtype.name}; it must"
            " be"
            f" {(size[0], dims, dims + 1)} of a float dtype"
        )
    out: Tensor | None = None
    for dim, count in enumerate(reversed(size[2:])):
        step = 2.0 / (count - 1 if aligned else count) if count > 1 else 0.0
        start = -1.0 if aligned else -1.0 + step / 2
        start = start if count > 1 else 0.0
        places = ops.arange_like(theta.detach(), (count,), start, step, theta.dtype)
        places = ops.reshape(places, (count, *(1,) * (dim + 1)))
        column = ops.reshape(
            ops.narrow(theta, 2, dim, 1), (size[0], *(1,) * dims, dims)
        )
        part = places * column
        out = part if out is None else out + part
    assert out is not None
    return out + ops.reshape(
        ops.narrow(theta, 2, dims, 1), (size[0], *(1,) * dims, dims)
    )


def _aligned(name: str, align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(
            f"{name}: align_corners is None, which means False; give it", stacklevel=3
        )
        return False
    need_flags(name, ("align_corners",), {"align_corners": align_corners})
    return bool(align_corners)


def _node(input: Tensor, *_: object, **__: object) -> str:
    return f"GridSampler{input.ndim - 2}DBackward0"


@autocast_promote_on_device
@shown_as(_node, "input", "grid")
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return images sampled at the places of a grid.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, [depth,] height, width), float
    grid : Tensor, shape (batch, [out_d,] out_h, out_w, 2 or 3), same dtype
        Places (x, y) or (x, y, z); -1 and 1 are the edges of the image.
    mode : str, default "bilinear"
        "bilinear", also for volumes; "nearest"; or "bicubic", for images only.
    padding_mode : str, default "zeros"
        What is beyond the edges: "zeros", the nearest element ("border"), or the image
        mirrored ("reflection").
    align_corners : bool or None
        Whether -1 and 1 are the middles of the outermost elements, not their ends; None
        is False, with a warning.

    Returns
    -------
    Tensor, shape (batch, channels, [out_d,] out_h, out_w)

    Raises
    ------
    ValueError
        If shapes do not fit or there is no such mode.
    """
    aligned = _aligned("grid_sample", align_corners)
    _check(input, grid, mode, padding_mode)
    if mode == "nearest":
        return _nearest(input, grid, padding_mode, aligned)
    differentiated = grid.needs_grad and is_grad_enabled()
    if differentiated or type(grid.layout) is not Layout or not grid.numel():
        return _sampled_by_operations(input, grid, mode, padding_mode, aligned)
    return _sampled(input, grid, mode, padding_mode, aligned)


@replayable
def _sampled(
    input: Tensor, grid: Tensor, mode: str, padding_mode: str, aligned: bool
) -> Tensor:
    batch, channels, *size = input.layout.shape
    out = grid.layout.shape[1:-1]
    places = ops.reshape(in_storage(grid), (batch, math.prod(out), len(size)))
    named, weights = grid_taps(places, tuple(size), mode, padding_mode, aligned)
    pixels = ops.reshape(input, (batch, channels, math.prod(size)))
    return ops.reshape(tap_sum(pixels, named, weights), (batch, channels, *out))


@replayable
def _nearest(input: Tensor, grid: Tensor, padding_mode: str, aligned: bool) -> Tensor:
    batch, channels, *size = input.layout.shape
    out = grid.layout.shape[1:-1]
    places = ops.reshape(in_storage(grid), (batch, math.prod(out), len(size)))
    pixels = ops.reshape(in_storage(input), (batch, channels, math.prod(size)))
    found, *_ = nearest_samples(pixels, places, tuple(size), padding_mode, aligned)
    return ops.reshape(found, (batch, channels, *out))


@replayable
def _sampled_by_operations(
    input: Tensor, grid: Tensor, mode: str, padding_mode: str, aligned: bool
) -> Tensor:
    """Return what `_sampled` does, by operations that have gradients by the grid."""
    dims = len(input.layout.shape) - 2
    batch, channels, *size = input.layout.shape
    out = grid.layout.shape[1:-1]
    # In 2 bytes places would be off by whole elements.
    flat = ops.cast(grid, statistic_dtype(grid.dtype))
    flat = ops.reshape(flat, (batch, math.prod(out), dims))
    # Places in elements along depth, height and width, the last of which comes first.
    places = [
        _unnormalized(_along(flat, dims - 1 - dim), size[dim], aligned)
        for dim in range(dims)
    ]
    if mode != "bicubic":
        places = [
            _moved_inside(place, count, padding_mode, aligned)
            for place, count in zip(places, size)
        ]
    taps = [_taps(place, mode) for place in places]
    pixels = ops.reshape(input, (batch, channels, math.prod(size)))
    named, weights = zip(
        *(
            _tap(tuple(size), chosen, mode, padding_mode, aligned)
            for chosen in itertools.product(*taps)
        )
    )
    index, shares = ops.stack(named, 1), ops.stack(weights, 1)
    return ops.reshape(tap_sum(pixels, index, shares), (batch, channels, *out))


def _check(input: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        modes = tuple(GRID_SAMPLE_INTERPOLATION_MODES)
        raise ValueError(f"grid_sample: mode is {mode!r}; it must be one of {modes}")
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        modes = tuple(GRID_SAMPLE_PADDING_MODES)
        raise ValueError(
            f"grid_sample: padding_mode is {padding_mode!r}; it must be one of {modes}"
        )
    dims = len(input.layout.shape) - 2
    if (
        dims not in (2, 3)
        or len(grid.layout.shape) != len(input.layout.shape)
        or grid.layout.shape[0] != input.layout.shape[0]
        or grid.layout.shape[-1] != dims
        or 0 in input.layout.shape[2:]
    ):
        raise ShapeError(
            f"grid_sample: input is {tuple(input.shape)}, grid {tuple(grid.shape)};"
            " they must be"
            " (batch, channels, height, width) and (batch, h, w, 2), or (batch,"
            " channels, depth, height, width) and (batch, d, h, w, 3)"
        )
    if mode == "bicubic" and dims == 3:
        raise ShapeError("grid_sample: mode 'bicubic' is for 4-D input only")


def _along(flat: Tensor, dim: int) -> Tensor:
    return ops.reshape(ops.narrow(flat, 2, dim, 1), flat.layout.shape[:2])


def _unnormalized(place: Tensor, size: int, aligned: bool) -> Tensor:
    if aligned:
        return (place + 1.0) * ((size - 1) / 2)
    return ((place + 1.0) * float(size) - 1.0) * 0.5


def _moved_inside(place: Tensor, size: int, padding_mode: str, aligned: bool) -> Tensor:
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        place = _reflected(place, size, aligned)
    # Nothing is nowhere in these modes: PyTorch takes NaN for the first element.
    place = ops.where(place == place, place, 0.0)
    return ops.clamp(place, 0.0, float(size - 1))


def _reflected(place: Tensor, size: int, aligned: bool) -> Tensor:
    """Return places mirrored at the middles, or the ends, of the outermost elements."""
    low, span = (0.0, float(size - 1)) if aligned else (-0.5, float(size))
    if span == 0:
        return place * 0.0
    distance = ops.abs(place - low)
    flips = ops.floor(distance / span).detach()
    rest = distance - flips * span
    is_odd = flips - ops.floor(flips * 0.5) * 2.0 > 0.5
    return ops.where(is_odd, span - rest, rest) + low


Tap = tuple[Tensor, Tensor]
"""Whole places, and the weights of what is there."""


def _taps(place: Tensor, mode: str) -> list[Tap]:
    """Return the neighbours of places along one dimension."""
    first = ops.floor(place.detach())
    part = place - first
    if mode == "bilinear":
        return [(first, 1.0 - part), (first + 1.0, part)]
    return [
        (first + float(k - 1), weight) for k, weight in enumerate(_cubic_weights(part))
    ]


def _cubic_weights(part: Tensor) -> list[Tensor]:
    """Return the weights of the elements at -1, 0, 1 and 2; Keys's with a = -3/4."""

    def near(t: Tensor) -> Tensor:
        return (t * 1.25 - 2.25) * t * t + 1.0

    def far(t: Tensor) -> Tensor:
        return ((t * -0.75 + 3.75) * t - 6.0) * t + 3.0

    rest = 1.0 - part
    return [far(part + 1.0), near(part), near(rest), far(rest + 1.0)]


def _tap(
    size: Shape, chosen: tuple[Tap, ...], mode: str, padding_mode: str, aligned: bool
) -> tuple[Tensor, Tensor]:
    """Return (batch, places): one neighbour of each place, and its weight.

    The number of the neighbour is negative where it is outside and counts nothing.
    """
    index: Tensor | None = None
    weight: Tensor | None = None
    inside: Tensor | None = None
    for (place, share), count in zip(chosen, size):
        if mode == "bicubic":
            place = _moved_inside(place, count, padding_mode, aligned)
        if padding_mode == "zeros":
            within = (place >= 0.0) & (place <= float(count - 1))
            inside = within if inside is None else inside & within
        place = ops.clamp(place, 0.0, float(count - 1))
        row = ops.cast(ops.where(place == place, place, 0.0), int32)
        index = row if index is None else index * count + row
        weight = share if weight is None else weight * share
    assert index is not None
    assert weight is not None
    if inside is not None:
        index = ops.where(inside, index, -1)
    return index, weight
