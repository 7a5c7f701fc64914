"""PyTorch's old constructors: `Tensor(2, 3)`, `LongTensor([1, 2])`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..base.device import CPU, META, Device, GpuDevice, find_device
from ..base.dtype import DType, DTypeLike, as_dtype, default_dtype
from ..base.errors import ShapeError
from ..base.shape import Layout, Shape, Size, interned
from ..base.size_limits import check_value
from ..base.validation import as_ints, sizes_of
from ..eager.base_tensor import TensorCore
from ..eager.host_data import host_array
from ..ir.lazy_graph import Array, Value
from ..scheduler.scheduler import with_memory_retry


def legacy_data(
    kind: type[Any], data: tuple[Any, ...], dtype: DTypeLike | None, device: Any
) -> Any:
    """Return a tensor of sizes, or of data; see `Tensor`."""
    wanted = default_dtype() if dtype is None else as_dtype(dtype)
    place = CPU if device is None else find_device(device)
    name = kind.__name__
    sizes = data[0] if len(data) == 1 and isinstance(data[0], Size) else data
    if all(isinstance(each, int | np.integer) for each in sizes):
        shape = sizes_of(name, tuple(sizes)) if data else (0,)
        return uninitialized(kind, name, shape, None, wanted, place)
    given = data[0]
    if len(data) > 1 or isinstance(given, float | np.floating):
        listed = ", ".join(type(each).__name__ for each in data)
        raise TypeError(
            f"{name}: data are of types ({listed}); give sizes, or one sequence, array"
            " or tensor"
        )
    with no_grad():  # for tensors in a sequence, which NumPy reads
        array, found = host_array(given, wanted)
    return kind.from_host(array, place, found)


def uninitialized(
    kind: type[TensorCore],
    name: str,
    shape: Shape,
    stride: Any,
    dtype: DType,
    device: Device,
) -> Any:
    """Return a tensor whose elements are whatever the memory holds.

    `stride` None means row-major order.
    """
    layout = Layout.contiguous(shape)
    count = math.prod(shape)
    if stride is not None:
        strides = as_ints(f"{name}: stride", stride)
        if len(strides) != len(shape) or min(strides, default=0) < 0:
            raise ShapeError(
                f"{name}: size is {shape}, stride {strides}; there must be as many"
                " strides as sizes, none below 0"
            )
        layout = interned(Layout(shape, strides))
        last = sum((size - 1) * step for size, step in zip(shape, strides))
        count = last + 1 if count else 0
    buffer: object = None
    if isinstance(device, GpuDevice):
        check_value(name, (count,), dtype, device)
        buffer = with_memory_retry(device, device.gpu.allocate, count * dtype.itemsize)
    elif device is not META:
        buffer = np.empty(count, dtype.storage)
    return kind.make(Array(Value(count, dtype, buffer=buffer)), layout, device)
