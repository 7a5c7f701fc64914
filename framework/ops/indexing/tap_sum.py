"""Weighted sums of elements that indices name: images sampled at any places.

Elements are (batch, channels, size); indices and weights are (batch, taps, places), the
same for all channels. Weights are of the dtype in which products are added up. A
negative index names no element, which counts nothing. Indices are not checked: who
computes them keeps them below the size.

The ops are linear in each operand but the index, and each other's gradients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.determinism import is_deterministic
from ...base.device import GpuDevice
from ...base.dtype import (
    FLOAT,
    as_dtype,
    bfloat16,
    float16,
    float32,
    float64,
    int32,
)
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Argument, Dispatch, StridedSpec
from ...kernels.linear import linear_dispatch, linear_workgroup, words_of
from ...kernels.shader_types import statistic_dtype, storage_defines
from ...kernels.tap_sum import (
    scattered_planes,
    tap_scatter_dispatch,
    tap_sum_dispatch,
)
from ..elementwise.cast import cast
from ..elementwise.compare import clamp_min, ge, where
from ..movement.slice import narrow
from ..reduce.common import as_dtype_of, in_storage
from ..source import fill_like
from ..view import expand, reshape, unsqueeze
from .scatter import scatter_add
from .segment_sum import sum_dtype

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

WEIGHTS = (float32, float64)

NARROW = (float32, float16, bfloat16)
"""Dtypes of images that a workgroup adds up, in float32."""

SCATTERED_TAPS = 4
"""Taps whose shares of a gradient are added at once: each is as large as the result."""


@primitive(dtypes={"x": FLOAT, "index": (int32,), "weights": WEIGHTS}, typed="x")
def _tap_sum(x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sums (batch, channels, places); see `tap_sum`."""


@_tap_sum.spec
def _tap_sum_spec(x: TensorSpec, index: TensorSpec, weights: TensorSpec) -> TensorSpec:
    return TensorSpec((*x.shape[:2], index.shape[2]), x.dtype)


@_tap_sum.kernel
def _tap_sum_kernel(
    gpu: DeviceInfo, x: StridedSpec, index: StridedSpec, weights: StridedSpec
) -> Dispatch:
    for each in (x, index, _tap_sum_spec(x, index, weights)):
        words_of("tap_sum", each)
    return tap_sum_dispatch(gpu, x, index)


@_tap_sum.vjp
def _tap_sum_vjp(
    grad: Tensor,
    x: Tensor,
    index: Tensor,
    weights: Tensor,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, None, Tensor | None]:
    grad_x = scattered(grad, index, weights, x.layout.shape[2]) if needs[0] else None
    return grad_x, None, _tap_products(grad, x, index) if needs[2] else None


@_tap_sum.reference
def _tap_sum_reference(
    x: np.ndarray, index: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    wide = sum_dtype(as_dtype(x.dtype)).numpy
    out = np.zeros((*x.shape[:2], index.shape[2]), wide)
    for values, named, shares in zip(_taken(x, index), _taps(index), _taps(weights)):
        np.add(out, values * shares, out=out, where=named >= 0)
    return out.astype(x.dtype)


def _taps(values: np.ndarray) -> np.ndarray:
    """Return (taps, batch, 1, places)."""
    return np.moveaxis(values, 1, 0)[:, :, None]


def _taken(x: np.ndarray, index: np.ndarray) -> list[np.ndarray]:
    """Return the elements (batch, channels, places) of each tap, added up as they are.

    Where an index names none it is any.
    """
    wide = x.astype(sum_dtype(as_dtype(x.dtype)).numpy, copy=False)
    return [np.take_along_axis(wide, np.maximum(named, 0), 2) for named in _taps(index)]


@primitive(dtypes={"slope": FLOAT, "x": FLOAT, "index": (int32,)}, typed="x")
def _tap_products(slope: Tensor, x: Tensor, index: Tensor) -> Tensor:
    """Return sums over channels (batch, taps, places) of `slope` times named elements.

    `slope` is (batch, channels, places).
    """


@_tap_products.spec
def _tap_products_spec(
    slope: TensorSpec, x: TensorSpec, index: TensorSpec
) -> TensorSpec:
    return TensorSpec(index.shape, statistic_dtype(x.dtype))


@_tap_products.kernel
def _tap_products_kernel(
    gpu: DeviceInfo, slope: StridedSpec, x: StridedSpec, index: StridedSpec
) -> Dispatch:
    batch, channels, size = x.shape
    taps, places = index.shape[1:]
    for each in (x, index, slope):
        words_of("tap_products", each)
    count = batch * places
    push: dict[str, Argument] = {"x": "x", "slope": "slope", "indices": "index"}
    push |= {"out_": "out", "count": count}
    push |= {"channels": channels, "size": size, "places": places}
    constants = {"TAPS": taps}
    defines, workgroup = storage_defines(x.dtype), linear_workgroup(gpu)
    return linear_dispatch(
        "index/tap_products", count, push, constants, defines, workgroup
    )


@_tap_products.vjp
def _tap_products_vjp(
    grad: Tensor,
    slope: Tensor,
    x: Tensor,
    index: Tensor,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, None]:
    grad_slope = _tap_sum(x, index, grad) if needs[0] else None
    size = x.layout.shape[2]
    return grad_slope, scattered(slope, index, grad, size) if needs[1] else None, None


@_tap_products.reference
def _tap_products_reference(
    slope: np.ndarray, x: np.ndarray, index: np.ndarray
) -> np.ndarray:
    wide = sum_dtype(as_dtype(x.dtype)).numpy
    slopes, out = slope.astype(wide, copy=False), np.zeros(index.shape, wide)
    for tap, values in enumerate(_taken(x, index)):
        named = index[:, None, tap] >= 0
        out[:, tap] = np.where(named, slopes * values, 0).sum(1)
    return out


@primitive(
    dtypes={"slope": FLOAT, "index": (int32,), "weights": WEIGHTS},
    device_dtypes={"slope": NARROW, "index": (int32,), "weights": (float32,)},
    typed="slope",
)
def _tap_scatter(slope: Tensor, index: Tensor, weights: Tensor, size: int) -> Tensor:
    """Return (batch, channels, size): `slope` by its weights where indices name it.

    Of images that a workgroup holds.
    """


@_tap_scatter.spec
def _tap_scatter_spec(slope: TensorSpec, size: int, **_: object) -> TensorSpec:
    return TensorSpec((*slope.shape[:2], size), slope.dtype)


@_tap_scatter.kernel
def _tap_scatter_kernel(
    gpu: DeviceInfo,
    slope: StridedSpec,
    index: StridedSpec,
    weights: StridedSpec,
    size: int,
) -> Dispatch:
    for each in (slope, index, _tap_scatter_spec(slope, size)):
        words_of("tap_scatter", each)
    return tap_scatter_dispatch(gpu, slope, index, size)


@_tap_scatter.vjp
def _tap_scatter_vjp(
    grad: Tensor,
    slope: Tensor,
    index: Tensor,
    weights: Tensor,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, None, Tensor | None]:
    grad_slope = _tap_sum(grad, index, weights) if needs[0] else None
    return grad_slope, None, _tap_products(slope, grad, index) if needs[2] else None


@_tap_scatter.reference
def _tap_scatter_reference(
    slope: np.ndarray, index: np.ndarray, weights: np.ndarray, size: int
) -> np.ndarray:
    images, channels, _ = slope.shape
    out = np.zeros((images, size, channels), weights.dtype)
    batch, tap, place = np.nonzero(index >= 0)
    shares = slope[batch, :, place].astype(weights.dtype)
    shares *= weights[batch, tap, place, None]
    np.add.at(out, (batch, index[batch, tap, place]), shares)
    return np.ascontiguousarray(np.moveaxis(out, 1, 2)).astype(slope.dtype)


def _holds_images(grad: Tensor, size: int) -> bool:
    """Return whether workgroups add up the images of a gradient, in any order."""
    device = grad.device
    if not isinstance(device, GpuDevice) or grad.dtype not in NARROW:
        return False
    if in_storage(grad) is not grad or is_deterministic():
        return False
    shape = (*grad.layout.shape[:2], size)
    return scattered_planes(device.gpu.info, shape) is not None


def scattered(grad: Tensor, index: Tensor, weights: Tensor, size: int) -> Tensor:
    """Return (batch, channels, size): `grad` by its weights where indices name it."""
    if _holds_images(grad, size):
        return _tap_scatter(grad, index, weights, size)
    batch, channels, places = grad.layout.shape
    total = fill_like(grad, (batch, channels, size), 0, grad.dtype)
    for start in range(0, index.layout.shape[1], SCATTERED_TAPS):
        taps = min(SCATTERED_TAPS, index.layout.shape[1] - start)
        named = narrow(index, 1, start, taps)
        shares = unsqueeze(narrow(weights, 1, start, taps), 1) * unsqueeze(grad, 2)
        shares = where(unsqueeze(ge(named, 0), 1), cast(shares, grad.dtype), 0.0)
        where_to = reshape(clamp_min(named, 0), (batch, 1, taps * places))
        total = scatter_add(
            total,
            2,
            expand(where_to, (batch, channels, taps * places)),
            reshape(shares, (batch, channels, taps * places)),
        )
    return total


def tap_sum(x: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Return weighted sums of the elements that indices name.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, size), float
    index : Tensor, shape (batch, taps, places), int32
        Elements of each channel, below `size`, which is at least 1; a negative one
        names none.
    weights : Tensor, shape (batch, taps, places), float

    Returns
    -------
    Tensor, shape (batch, channels, places)
        2-byte floats are added up in float32.
    """
    shares = as_dtype_of(weights, statistic_dtype(x.dtype))
    out = _tap_sum(in_storage(x), index, shares)
    return as_dtype_of(out, x.dtype)
