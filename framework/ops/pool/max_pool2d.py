"""Max pooling over images, in NCHW order: by windows, and by parts (adaptive).

Part i of n covers the elements from floor(i size / n) to before ceil((i + 1) size / n).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, int32
from ...base.shape import TensorSpec, ceil_div
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.conv.window import Pair, Window
from ...kernels.pool import max_pool2d_dispatch, max_pool2d_grad_dispatch
from ..indexing.scatter import gather
from ..view import reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=FLOAT, outputs=("out", "indices"), typed="x")
def _max_pool2d(x: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window, and its position in the plane."""


@_max_pool2d.spec
def _max_pool2d_spec(x: TensorSpec, window: Window) -> tuple[TensorSpec, TensorSpec]:
    shape = (*x.shape[:2], *window.output(*x.shape[2:]))
    return TensorSpec(shape, x.dtype), TensorSpec(shape, int32)


@_max_pool2d.kernel
def _max_pool2d_kernel(gpu: DeviceInfo, x: StridedSpec, window: Window) -> Dispatch:
    height, width = x.shape[2:]
    return max_pool2d_dispatch(gpu, x, window.output(height, width), window)


@_max_pool2d.vjp
def _max_pool2d_vjp(
    grad: Tensor, indices: Tensor, x_spec: TensorSpec, window: Window
) -> Tensor:
    height, width = x_spec.shape[2:]
    return _max_pool2d_input_vjp(grad, indices, (height, width), window)


@_max_pool2d.reference
def _max_pool2d_reference(
    x: np.ndarray, window: Window
) -> tuple[np.ndarray, np.ndarray]:
    patches = window.patches(x, -np.inf)
    flat = patches.reshape(*patches.shape[:4], math.prod(window.kernel))
    inside = window.patches(np.ones_like(x), 0).reshape(flat.shape) == 1
    out, best = _best(flat, inside)
    tap_row, tap_column = np.divmod(best, window.kernel[1])
    row = np.arange(out.shape[2])[:, None] * window.stride[0] - window.padding[0]
    column = np.arange(out.shape[3]) * window.stride[1] - window.padding[1]
    rows = row + tap_row * window.dilation[0]
    columns = column + tap_column * window.dilation[1]
    return out, rows * x.shape[3] + columns


def _best(flat: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the greatest of the last dimension, where `inside`, and its position.

    The first of equals, but the last NaN, as PyTorch chooses.
    """
    invalid = np.isnan(flat)
    first = np.argmax(inside & (flat == flat.max(axis=-1, keepdims=True)), axis=-1)
    last = flat.shape[-1] - 1 - np.argmax(invalid[..., ::-1], axis=-1)
    best = np.where(invalid.any(axis=-1), last, first)
    return np.take_along_axis(flat, best[..., None], -1)[..., 0], best


@primitive(dtypes=FLOAT, outputs=("out", "indices"), typed="x")
def _adaptive_max_pool2d(x: Tensor, size: Pair) -> tuple[Tensor, Tensor]:
    """Return the largest element of each part, and its position in the plane."""


@_adaptive_max_pool2d.spec
def _adaptive_max_pool2d_spec(
    x: TensorSpec, size: Pair
) -> tuple[TensorSpec, TensorSpec]:
    shape = (*x.shape[:2], *size)
    return TensorSpec(shape, x.dtype), TensorSpec(shape, int32)


@_adaptive_max_pool2d.kernel
def _adaptive_max_pool2d_kernel(
    gpu: DeviceInfo, x: StridedSpec, size: Pair
) -> Dispatch:
    return max_pool2d_dispatch(gpu, x, size, None)


@_adaptive_max_pool2d.vjp
def _adaptive_max_pool2d_vjp(
    grad: Tensor, indices: Tensor, x_spec: TensorSpec
) -> Tensor:
    height, width = x_spec.shape[2:]
    return _max_pool2d_input_vjp(grad, indices, (height, width), None)


@_adaptive_max_pool2d.reference
def _adaptive_max_pool2d_reference(
    x: np.ndarray, size: Pair
) -> tuple[np.ndarray, np.ndarray]:
    out = np.empty((*x.shape[:2], *size), x.dtype)
    indices = np.empty(out.shape, np.int32)
    height, width = x.shape[2:]
    for i, j in np.ndindex(size):
        top, left = i * height // size[0], j * width // size[1]
        bottom = ceil_div((i + 1) * height, size[0])
        right = ceil_div((j + 1) * width, size[1])
        part = x[:, :, top:bottom, left:right]
        flat = part.reshape(*x.shape[:2], (bottom - top) * (right - left))
        out[..., i, j], best = _best(flat, np.array(True))
        row, column = np.divmod(best, right - left)
        indices[..., i, j] = (top + row) * width + left + column
    return out, indices


@primitive(dtypes={"grad_out": FLOAT, "indices": (int32,)}, typed="grad_out")
def _max_pool2d_input_vjp(
    grad_out: Tensor, indices: Tensor, size: Pair, window: Window | None
) -> Tensor:
    """Return the gradient of the pooled images: each element's share of `grad_out`.

    `window` is None for parts.
    """


@_max_pool2d_input_vjp.spec
def _max_pool2d_input_vjp_spec(
    grad_out: TensorSpec, size: Pair, **_: object
) -> TensorSpec:
    return TensorSpec((*grad_out.shape[:2], *size), grad_out.dtype)


@_max_pool2d_input_vjp.kernel
def _max_pool2d_input_vjp_kernel(
    gpu: DeviceInfo,
    grad_out: StridedSpec,
    indices: StridedSpec,
    size: Pair,
    window: Window | None,
) -> Dispatch:
    return max_pool2d_grad_dispatch(gpu, grad_out, size, window)


@_max_pool2d_input_vjp.vjp
def _max_pool2d_input_vjp_vjp(grad: Tensor, indices: Tensor) -> tuple[Tensor, None]:
    planes = reshape(
        grad, (*grad.layout.shape[:2], grad.layout.shape[2] * grad.layout.shape[3])
    )
    places = reshape(
        indices, (*planes.shape[:2], indices.layout.shape[2] * indices.layout.shape[3])
    )
    return reshape(gather(planes, 2, places), indices.layout.shape), None


@_max_pool2d_input_vjp.reference
def _max_pool2d_input_vjp_reference(
    grad_out: np.ndarray, indices: np.ndarray, size: Pair, window: Window | None
) -> np.ndarray:
    planes = grad_out.shape[0] * grad_out.shape[1]
    count = grad_out.shape[2] * grad_out.shape[3]
    out = np.zeros((planes, size[0] * size[1]), grad_out.dtype)
    places = np.arange(planes)[:, None], indices.reshape(planes, count)
    np.add.at(out, places, grad_out.reshape(planes, count))
    return out
