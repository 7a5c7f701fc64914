"""Adaptive max pooling over images: the kernels.

Part i of n covers the elements from floor(i size / n) to before ceil((i + 1) size / n).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, int32
from ...base.shape import Shape, TensorSpec, ceil_div
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec, check_rounds, linear_grid
from ...kernels.conv.window import Pair
from ...kernels.reduce import WORKGROUP
from ...kernels.shader_types import storage_defines
from .max_pool2d import added_at, chosen

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

MOST_ELEMENTS = 1 << 16
"""Along a dimension: the shader multiplies two such numbers in 32 bits."""


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
    rounds = [ceil_div(old, new) + 1 for old, new in zip(x.shape[2:], size)]
    check_rounds(gpu, "adaptive_max_pool2d", rounds[0] * rounds[1])
    return _dispatch(
        "pool/adaptive_max_pool2d",
        x,
        {"x": "x", "out_": "out", "indices": "indices"},
        (*x.shape, *size),
        x.shape[0] * x.shape[1] * size[0] * size[1],
    )


def _dispatch(
    kernel: str, x: StridedSpec, memory: dict[str, str], sizes: Shape, count: int
) -> Dispatch:
    push: dict[str, int | str] = {**memory, "planes": sizes[0] * sizes[1]}
    names = ("in_height", "in_width", "out_height", "out_width")
    push.update(zip(names, sizes[2:]))
    return Dispatch(
        kernel,
        linear_grid(count, WORKGROUP),
        push,
        {"LOCAL_X": WORKGROUP},
        storage_defines(x.dtype),
    )


@_adaptive_max_pool2d.vjp
def _adaptive_max_pool2d_vjp(
    grad: Tensor, indices: Tensor, x_spec: TensorSpec
) -> Tensor:
    height, width = x_spec.shape[2:]
    return _adaptive_max_pool2d_input_vjp(grad, indices, (height, width))


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
        # The first of equals, but the last NaN, as PyTorch chooses.
        invalid = np.isnan(flat)
        last = flat.shape[-1] - 1 - np.argmax(invalid[..., ::-1], axis=-1)
        best = np.where(invalid.any(axis=-1), last, np.argmax(flat, axis=-1))
        out[..., i, j] = np.take_along_axis(flat, best[..., None], -1)[..., 0]
        row, column = np.divmod(best, right - left)
        indices[..., i, j] = (top + row) * width + left + column
    return out, indices


@primitive(dtypes={"grad_out": FLOAT, "indices": (int32,)}, typed="grad_out")
def _adaptive_max_pool2d_input_vjp(
    grad_out: Tensor, indices: Tensor, size: Pair
) -> Tensor:
    """Return the gradient of the pooled images: each element's share of `grad_out`."""


@_adaptive_max_pool2d_input_vjp.spec
def _adaptive_max_pool2d_input_vjp_spec(
    grad_out: TensorSpec, indices: TensorSpec, size: Pair
) -> TensorSpec:
    return TensorSpec((*grad_out.shape[:2], *size), grad_out.dtype)


@_adaptive_max_pool2d_input_vjp.kernel
def _adaptive_max_pool2d_input_vjp_kernel(
    gpu: DeviceInfo, grad_out: StridedSpec, indices: StridedSpec, size: Pair
) -> Dispatch:
    batch, channels, *out = grad_out.shape
    rounds = [ceil_div(new, old) + 1 for old, new in zip(size, out)]
    check_rounds(gpu, "adaptive_max_pool2d", rounds[0] * rounds[1])
    return _dispatch(
        "pool/adaptive_max_pool2d_vjp",
        grad_out,
        {"grad": "grad_out", "indices": "indices", "out_": "out"},
        (batch, channels, *size, *out),
        batch * channels * size[0] * size[1],
    )


@_adaptive_max_pool2d_input_vjp.vjp
def _adaptive_max_pool2d_input_vjp_vjp(
    grad: Tensor, indices: Tensor
) -> tuple[Tensor, None]:
    return chosen(grad, indices), None


@_adaptive_max_pool2d_input_vjp.reference
def _adaptive_max_pool2d_input_vjp_reference(
    grad_out: np.ndarray, indices: np.ndarray, size: Pair
) -> np.ndarray:
    return added_at(grad_out, indices, size)
