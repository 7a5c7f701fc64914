"""Cross products of vectors of three elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.tape import shown_as
from ...base.dtype import NUMERIC
from ...base.errors import ShapeError
from ...base.shape import TensorSpec, broadcast_shapes, normalize_dim
from ...dispatch.declare import primitive
from ...dispatch.replayable import replayable
from ...ir.kernel_call import Argument, Dispatch, StridedSpec, divisor
from ...kernels.linear import linear_dispatch
from ...kernels.reduce import need_countable
from ...kernels.shader_types import storage_defines
from ..elementwise.binary import mul, sub
from ..elementwise.cast import need_one_dtype
from ..movement.concat import stack
from ..movement.slice import select
from ..reduce.common import in_storage
from ..view import expand, reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@shown_as("LinalgCrossBackward0", "input", "other")
@replayable
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Return the cross product of vectors of three elements.

    Parameters
    ----------
    input, other : Tensor
        Of shapes that broadcast.
    dim : int or None
        Dimension of the vectors; None means the first of size 3.

    Raises
    ------
    ShapeError
        If there is no dimension of size 3.
    """
    need_one_dtype("cross", input=input, other=other)
    if input.ndim != other.ndim:
        raise ShapeError(
            f"cross: input is {tuple(input.shape)}, other {tuple(other.shape)}; they"
            " must have as many dimensions"
        )
    shape = broadcast_shapes("cross", input.layout.shape, other.layout.shape)
    if dim is None:
        if 3 not in shape:
            raise ShapeError(f"cross: shape is {shape}; it must have a size 3")
        dim = shape.index(3)
    at = normalize_dim("cross", dim, len(shape))
    if shape[at] != 3:
        raise ShapeError(
            f"cross: dimension {at} of shape {shape} has size {shape[at]}; it must be 3"
        )
    a, b = expand(input, shape), expand(other, shape)
    if a.dtype in NUMERIC and in_storage(a) is a:
        sizes = math.prod(shape[:at]), 3, math.prod(shape[at + 1 :])
        return reshape(_cross_product(reshape(a, sizes), reshape(b, sizes)), shape)
    parts = [[select(each, at, k) for k in range(3)] for each in (a, b)]
    return stack(
        [
            sub(
                mul(parts[0][k - 2], parts[1][k - 1]),
                mul(parts[0][k - 1], parts[1][k - 2]),
            )
            for k in range(3)
        ],
        at,
    )


@primitive(dtypes=NUMERIC)
def _cross_product(a: Tensor, b: Tensor) -> Tensor:
    """Return the cross products of vectors along the middle of (outer, 3, inner)."""


@_cross_product.spec
def _cross_product_spec(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    return a


@_cross_product.kernel
def _cross_product_kernel(gpu: DeviceInfo, a: StridedSpec, b: StridedSpec) -> Dispatch:
    need_countable("cross", a)
    outer, _, inner = a.shape
    magic, shift = divisor(max(1, inner))
    push: dict[str, Argument] = {"a": "a", "b": "b", "out_": "out", "inner": inner}
    push |= {"count": outer * inner}
    push |= {"divide_inner[0]": magic, "divide_inner[1]": shift}
    defines = storage_defines(a.dtype)
    return linear_dispatch("linalg/cross", outer * inner, push, defines=defines)


@_cross_product.vjp
def _cross_product_vjp(
    grad: Tensor, a: Tensor, b: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    grad_a = _cross_product(b, grad) if needs[0] else None
    return grad_a, _cross_product(grad, a) if needs[1] else None


@_cross_product.reference
def _cross_product_reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    x, y = (np.moveaxis(each, 1, 0) for each in (a, b))
    with np.errstate(all="ignore"):
        parts = [x[k - 2] * y[k - 1] - x[k - 1] * y[k - 2] for k in range(3)]
    return np.stack(parts, 1)
