"""Transpose copies: transposed views into row-major order, through shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.device import GpuDevice
from ...base.dtype import STORED
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.transpose import planes_of, reads_lines, transpose_dispatch
from ..elementwise.unary import copy
from ..reduce.common import in_storage

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=STORED, strided=True, typed="x")
def _transposed_copy(x: Tensor) -> Tensor:
    """Return a transposed view's elements in row-major order."""


@_transposed_copy.spec
def _transposed_copy_spec(x: TensorSpec) -> TensorSpec:
    return x


@_transposed_copy.kernel
def _transposed_copy_kernel(gpu: DeviceInfo, x: StridedSpec) -> Dispatch:
    return transpose_dispatch(gpu, x)


@_transposed_copy.vjp
def _transposed_copy_vjp(grad: Tensor) -> Tensor:
    return grad


@_transposed_copy.reference
def _transposed_copy_reference(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x)


def row_major(x: Tensor) -> Tensor:
    """Return a copy of the elements in row-major order."""
    device = x.device
    if not isinstance(device, GpuDevice) or not reads_lines(device.gpu.info):
        return copy(x)
    planes = planes_of(x.layout)
    if planes is None or not planes.is_transposed or in_storage(x) is not x:
        return copy(x)
    return _transposed_copy(x)
