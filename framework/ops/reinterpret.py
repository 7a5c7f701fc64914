"""Elements of a device taken for another dtype, bit by bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..base.dtype import STORED, DType, decode, encode
from ..base.shape import Shape, TensorSpec
from ..dispatch.declare import primitive
from ..ir.kernel_call import Dispatch, StridedSpec
from ..kernels.row_copy import whole_copy

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor


@primitive(dtypes=STORED)
def bits_as(x: Tensor, given: DType, dtype: DType, shape: Shape) -> Tensor:
    """Return the bits of `x`, whose dtype is `given`, as elements of another one.

    There is no gradient.

    Parameters
    ----------
    x : Tensor
    given, dtype : DType
        Of `x`, and of the result.
    shape : tuple of int
        Of the result, which has as many bytes as `x`.
    """


@bits_as.spec
def bits_as_spec(x: TensorSpec, given: DType, dtype: DType, shape: Shape) -> TensorSpec:
    return TensorSpec(shape, dtype)


@bits_as.kernel
def bits_as_kernel(
    gpu: DeviceInfo, x: StridedSpec, given: DType, dtype: DType, shape: Shape
) -> Dispatch:
    return whole_copy(gpu, "view", x, "x", "out")


@bits_as.reference
def bits_as_reference(
    x: np.ndarray, given: DType, dtype: DType, shape: Shape
) -> np.ndarray:
    stored = np.ascontiguousarray(encode(x, given)).reshape(-1)
    return decode(stored.view(dtype.storage), dtype).reshape(shape)
