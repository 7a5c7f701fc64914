"""Copies of views into row-major order, transposed ones through shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...base.device import GpuDevice
from ...base.dtype import STORED
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...dispatch.op import register_copy
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.row_copy import copies_layout, layout_dispatches
from ...kernels.transpose import planes_of, reads_lines, transpose_dispatch
from ..elementwise.unary import copy
from ..reduce.common import in_storage

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=STORED, strided=True, typed="x")
def _transposed_copy(x: Tensor) -> Tensor:
    """Return the elements of a view, transposed or of rows, in row-major order."""


@_transposed_copy.spec
def _transposed_copy_spec(x: TensorSpec) -> TensorSpec:
    return x


@_transposed_copy.kernel
def _transposed_copy_kernel(
    gpu: DeviceInfo, x: StridedSpec
) -> Dispatch | list[Dispatch]:
    itemsize = x.dtype.itemsize
    if copies_layout(gpu, x.layout, itemsize):
        return layout_dispatches(gpu, x.layout, itemsize, "x", "out")
    return transpose_dispatch(gpu, x)


_transposed_copy.elementwise_form = copy


@_transposed_copy.vjp
def _transposed_copy_vjp(grad: Tensor) -> Tensor:
    return grad


@_transposed_copy.reference
def _transposed_copy_reference(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x)


def row_major(x: Tensor) -> Tensor:
    """Return a copy of the elements in row-major order."""
    device = x.device
    if not isinstance(device, GpuDevice):
        return copy(x)
    if copies_layout(device.gpu.info, x.layout, x.dtype.itemsize) or transposes(x):
        return _transposed_copy(x)
    return copy(x)


def transposes(x: Tensor, flipped: Sequence[int] = ()) -> bool:
    """Return whether a view, with dimensions flipped, passes through shared memory."""
    device = x.device
    if not isinstance(device, GpuDevice) or not reads_lines(device.gpu.info):
        return False
    planes = planes_of(x.layout, flipped)
    return planes is not None and planes.is_transposed and in_storage(x) is x


register_copy(row_major)
