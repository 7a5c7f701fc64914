"""Max pooling over images, in NCHW order: the kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, int32
from ...base.shape import Shape, TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec, linear_grid
from ...kernels.conv.window import Pair, Window
from ...kernels.reduce import WORKGROUP
from ...kernels.shader_types import storage_defines
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
    out = window.output(*x.shape[2:])
    push: dict[str, int | str] = {
        "x": "x",
        "out_": "out",
        "indices": "indices",
        **_sizes(x.shape, out),
    }
    grid = linear_grid(x.shape[0] * x.shape[1] * out[0] * out[1], WORKGROUP)
    defines = storage_defines(x.dtype)
    return Dispatch("pool/max_pool2d", grid, push, _constants(window), defines)


def _sizes(x: Shape, out: Pair) -> dict[str, int]:
    names = ("planes", "in_height", "in_width", "out_height", "out_width")
    return dict(zip(names, (x[0] * x[1], *x[2:], *out)))


def _constants(window: Window) -> dict[str, int]:
    return {"LOCAL_X": WORKGROUP, **window.constants()}


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
    # The first of equals, but the last NaN, as PyTorch chooses.
    invalid = np.isnan(flat)
    first = np.argmax(inside & (flat == flat.max(axis=-1, keepdims=True)), axis=-1)
    last = flat.shape[-1] - 1 - np.argmax(invalid[..., ::-1], axis=-1)
    chosen = np.where(invalid.any(axis=-1), last, first)
    out = np.take_along_axis(flat, chosen[..., None], -1)[..., 0]
    tap_row, tap_column = np.divmod(chosen, window.kernel[1])
    row = np.arange(out.shape[2])[:, None] * window.stride[0] - window.padding[0]
    column = np.arange(out.shape[3]) * window.stride[1] - window.padding[1]
    rows = row + tap_row * window.dilation[0]
    columns = column + tap_column * window.dilation[1]
    return out, rows * x.shape[3] + columns


@primitive(dtypes={"grad_out": FLOAT, "indices": (int32,)}, typed="grad_out")
def _max_pool2d_input_vjp(
    grad_out: Tensor, indices: Tensor, size: Pair, window: Window
) -> Tensor:
    """Return the gradient of the pooled images: each element's share of `grad_out`."""


@_max_pool2d_input_vjp.spec
def _max_pool2d_input_vjp_spec(
    grad_out: TensorSpec, indices: TensorSpec, size: Pair, window: Window
) -> TensorSpec:
    return TensorSpec((*grad_out.shape[:2], *size), grad_out.dtype)


@_max_pool2d_input_vjp.kernel
def _max_pool2d_input_vjp_kernel(
    gpu: DeviceInfo,
    grad_out: StridedSpec,
    indices: StridedSpec,
    size: Pair,
    window: Window,
) -> Dispatch:
    planes, (height, width) = grad_out.shape[:2], grad_out.shape[2:]
    push: dict[str, int | str] = {
        "grad": "grad_out", "indices": "indices", "out_": "out",
        **_sizes((*planes, *size), (height, width)),
    }  # fmt: skip
    grid = linear_grid(planes[0] * planes[1] * size[0] * size[1], WORKGROUP)
    defines = storage_defines(grad_out.dtype)
    return Dispatch("pool/max_pool2d_vjp", grid, push, _constants(window), defines)


@_max_pool2d_input_vjp.vjp
def _max_pool2d_input_vjp_vjp(grad: Tensor, indices: Tensor) -> tuple[Tensor, None]:
    return chosen(grad, indices), None


def chosen(x: Tensor, indices: Tensor) -> Tensor:
    """Return the elements of planes at flat positions in each plane."""
    planes = reshape(x, (*x.shape[:2], x.shape[2] * x.shape[3]))
    places = reshape(indices, (*planes.shape[:2], indices.shape[2] * indices.shape[3]))
    return reshape(gather(planes, 2, places), indices.shape)


@_max_pool2d_input_vjp.reference
def _max_pool2d_input_vjp_reference(
    grad_out: np.ndarray, indices: np.ndarray, size: Pair, window: Window
) -> np.ndarray:
    return added_at(grad_out, indices, size)


def added_at(grad_out: np.ndarray, indices: np.ndarray, size: Pair) -> np.ndarray:
    """Return planes with each gradient added at its flat position."""
    planes = grad_out.shape[0] * grad_out.shape[1]
    count = grad_out.shape[2] * grad_out.shape[3]
    out = np.zeros((planes, size[0] * size[1]), grad_out.dtype)
    places = np.arange(planes)[:, None], indices.reshape(planes, count)
    np.add.at(out, places, grad_out.reshape(planes, count))
    return out
