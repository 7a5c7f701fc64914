"""Taps of a grid's places in images: the elements of each sample, and their weights.

As `nn.functional.grid_sample` has them, whose gradient by the grid is of operations on
tensors: this one has none.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, int32
from ...base.shape import Shape, TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Argument, Dispatch, StridedSpec, divisor
from ...kernels.linear import linear_dispatch, linear_workgroup, words_of
from ...kernels.shader_types import statistic_dtype, storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
"""In the order of the shader's numbers."""

_WIDTHS = {"bilinear": 2, "nearest": 1, "bicubic": 4}


@primitive(dtypes={"grid": FLOAT}, outputs=("index", "weights"), typed="grid")
def grid_taps(
    grid: Tensor, size: Shape, mode: str, padding_mode: str, aligned: bool
) -> tuple[Tensor, Tensor]:
    """Return the elements (batch, taps, places) that places name, and their weights.

    Parameters
    ----------
    grid : Tensor, shape (batch, places, dims), float
        The last dimension of images first; -1 and 1 are their edges.
    size : (height, width) or (depth, height, width)
        Of images, which have elements.
    mode : str
        One of `MODES`.
    padding_mode : str
        One of `PADDINGS`.
    aligned : bool
        Whether edges are the middles of the outermost elements, not their ends.

    Returns
    -------
    Tensor, int32, Tensor
        A negative element is none. Weights of 2-byte floats are of float32.
    """


@grid_taps.spec
def grid_taps_spec(
    grid: TensorSpec, size: Shape, mode: str, **_: object
) -> tuple[TensorSpec, TensorSpec]:
    batch, places, _dims = grid.shape
    shape = batch, _WIDTHS[mode] ** len(size), places
    return TensorSpec(shape, int32), TensorSpec(shape, statistic_dtype(grid.dtype))


@grid_taps.kernel
def grid_taps_kernel(
    gpu: DeviceInfo,
    grid: StridedSpec,
    size: Shape,
    mode: str,
    padding_mode: str,
    aligned: bool,
) -> Dispatch:
    batch, places, dims = grid.shape
    for each in (grid, *grid_taps_spec(grid, size, mode)):
        words_of("grid_taps", each)
    count = batch * places
    push: dict[str, Argument] = {"grid": "grid", "index": "index", "weights": "weights"}
    push |= {"count": count, "places": places}
    push |= {f"size[{k}]": each for k, each in enumerate((*size, 1)[:3])}
    push["magic"], push["shift"] = divisor(max(1, places))
    constants = {"DIMS": dims, "MODE": MODES.index(mode), "ALIGNED": int(aligned)}
    constants["PADDING"] = PADDINGS.index(padding_mode)
    given = push, constants, storage_defines(grid.dtype), linear_workgroup(gpu)
    return linear_dispatch("index/grid_taps", count, *given)


def _reflected(place: np.ndarray, size: int, aligned: bool) -> np.ndarray:
    low, span = (0.0, size - 1) if aligned else (-0.5, size)
    if not span:
        return np.zeros_like(place)
    far = np.abs(place - low)
    flips = np.floor(far / span)
    rest = far - flips * span
    return np.where(flips % 2 > 0.5, span - rest, rest) + low


def _moved_inside(
    place: np.ndarray, size: int, padding_mode: str, aligned: bool
) -> np.ndarray:
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        place = _reflected(place, size, aligned)
    return np.clip(np.where(np.isnan(place), 0, place), 0, size - 1)


def _cubic_weights(part: np.ndarray) -> list[np.ndarray]:
    def near(t: np.ndarray) -> np.ndarray:
        return (t * 1.25 - 2.25) * t * t + 1

    def far(t: np.ndarray) -> np.ndarray:
        return ((t * -0.75 + 3.75) * t - 6) * t + 3

    rest = 1 - part
    return [far(part + 1), near(part), near(rest), far(rest + 1)]


def _taps_along(
    place: np.ndarray, mode: str, move: Callable[[np.ndarray], np.ndarray]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return whole places along a dimension and their weights."""
    if mode == "bicubic":
        first = np.floor(place)
        weights = _cubic_weights(place - first)
        return [(move(first + (k - 1)), share) for k, share in enumerate(weights)]
    place = move(place)
    if mode == "nearest":
        return [(np.round(place), np.ones_like(place))]
    first = np.floor(place)
    return [(first, 1 - (place - first)), (first + 1, place - first)]


@grid_taps.reference
def grid_taps_reference(
    grid: np.ndarray, size: Shape, mode: str, padding_mode: str, aligned: bool
) -> tuple[np.ndarray, np.ndarray]:
    wide = np.dtype("float64" if grid.dtype == np.float64 else "float32")

    def taps(dim: int, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
        at = np.add(grid[..., len(size) - 1 - dim], 1, dtype=wide)
        place = at * ((count - 1) / 2) if aligned else (at * count - 1) * 0.5
        move = functools.partial(
            _moved_inside, size=count, padding_mode=padding_mode, aligned=aligned
        )
        return _taps_along(place, mode, move)

    with np.errstate(invalid="ignore"):
        along = [taps(dim, count) for dim, count in enumerate(size)]
        named, weights = zip(
            *(_joined(size, each, padding_mode) for each in itertools.product(*along))
        )
    return np.stack(named, 1).astype(np.int32), np.stack(weights, 1).astype(wide)


def _joined(
    size: Shape, taps: tuple[tuple[np.ndarray, np.ndarray], ...], padding_mode: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the elements (batch, places) of one tap of each dimension, and weights."""
    element, weight = np.zeros((), np.int64), np.ones((), taps[0][1].dtype)
    inside = np.ones((), bool)
    for (place, share), count in zip(taps, size):
        inside = inside & (place >= 0) & (place <= count - 1)
        bounded = np.clip(np.where(np.isnan(place), 0, place), 0, count - 1)
        element = element * count + bounded.astype(np.int64)
        weight = weight * share
    if padding_mode == "zeros":
        element = np.where(inside, element, -1)
    return element, weight
