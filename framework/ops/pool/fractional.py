"""Fractional max pooling: the largest elements of windows that random draws place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, float32, float64, int32
from ...base.index_checks import UNCHECKED
from ...base.shape import Shape, TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.pool import fractional_max_pool_dispatch
from ..elementwise.cast import cast
from ..indexing.gather import segment_sum
from ..view import reshape
from .max_pool2d import _best

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(
    dtypes={"x": FLOAT, "samples": (float32, float64)},
    outputs=("out", "indices"),
    typed="x",
)
def _fractional_max_pool(
    x: Tensor, samples: Tensor, kernel: Shape, parts: Shape, draws: Shape
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window, and its position in its volume.

    `x` is (volumes, *sizes), of two sizes or three, `samples` (volumes, sizes): that
    of a dimension is its number in `draws`. `parts` says how many windows there are.
    """


@_fractional_max_pool.spec
def _fractional_max_pool_spec(
    x: TensorSpec, samples: TensorSpec, kernel: Shape, parts: Shape, draws: Shape
) -> tuple[TensorSpec, TensorSpec]:
    shape = (x.shape[0], *parts)
    return TensorSpec(shape, x.dtype), TensorSpec(shape, int32)


@_fractional_max_pool.kernel
def _fractional_max_pool_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    samples: StridedSpec,
    kernel: Shape,
    parts: Shape,
    draws: Shape,
) -> Dispatch:
    return fractional_max_pool_dispatch(gpu, x, samples.dtype, kernel, parts, draws)


@_fractional_max_pool.vjp
def _fractional_max_pool_vjp(
    grad: Tensor, indices: Tensor, x_spec: TensorSpec
) -> tuple[Tensor, None]:
    volumes, *sizes = x_spec.shape
    each = volumes, math.prod(indices.layout.shape[1:]), 1
    whole, places = math.prod(sizes), reshape(indices, each)
    total = segment_sum(places, reshape(grad, each), whole, UNCHECKED, False)
    return reshape(total, x_spec.shape), None


@_fractional_max_pool.reference
def _fractional_max_pool_reference(
    x: np.ndarray, samples: np.ndarray, kernel: Shape, parts: Shape, draws: Shape
) -> tuple[np.ndarray, np.ndarray]:
    volumes, *sizes = x.shape
    entries: np.ndarray = np.zeros((), np.int32)
    for dim, (size, taps, count) in enumerate(zip(sizes, kernel, parts)):
        first = _first(samples[:, draws[dim], None], size - taps, count)
        # As (volumes, parts, taps), to be broadcast over the other dimensions.
        shape = [volumes] + [1] * (2 * len(sizes))
        shape[1 + dim], shape[1 + len(sizes) + dim] = count, taps
        rows = first[..., None] + np.arange(taps, dtype=np.int32)
        entries = entries * size + rows.reshape(shape)
    entries = entries.reshape(volumes, math.prod(parts) * math.prod(kernel))
    windows = (volumes, math.prod(parts), math.prod(kernel))
    flat = x.reshape(volumes, math.prod(sizes))
    values = np.take_along_axis(flat, entries, 1).reshape(windows)
    out, best = _best(values, np.array(True))
    places = np.take_along_axis(entries.reshape(windows), best[..., None], -1)
    return out.reshape(volumes, *parts), places.reshape(volumes, *parts)


def _first(draw: np.ndarray, last: int, parts: int) -> np.ndarray:
    """Return where windows begin, as int32 (volumes, parts); the last one at `last`."""
    if parts == 1:
        return np.full((len(draw), 1), last, np.int32)
    apart = draw.dtype.type(last / (parts - 1))
    numbers = np.arange(parts, dtype=draw.dtype)
    first = ((numbers + draw) * apart).astype(np.int32)
    first -= (draw * apart).astype(np.int32)
    first[:, -1] = last
    return first.clip(0, last)


def fractional_max_pool(
    x: Tensor, samples: Tensor, kernel: Shape, parts: Shape, draws: Shape
) -> tuple[Tensor, Tensor]:
    """Return the largest element of each random window, and its position.

    Parameters
    ----------
    x : Tensor, float, shape (volumes, height, width) or (volumes, depth, height, width)
    samples : Tensor, float, shape (volumes, 2) or (volumes, 3)
        Draws from [0, 1) for where windows begin.
    kernel, parts : tuple of int
        Size of the windows, and how many there are.
    draws : tuple of int
        Which sample each dimension takes.
    """
    exact = samples.dtype in (float32, float64)
    given = samples if exact else cast(samples, float32)
    found: tuple[Tensor, Tensor] = _fractional_max_pool(x, given, kernel, parts, draws)
    return found
