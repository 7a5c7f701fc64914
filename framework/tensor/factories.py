"""Tensor factories: creation functions, run on the device of the result.

Sizes are given as numbers or as one sequence; a dtype and a device may follow them, by
name or, as in NumPy, by position: `zeros(2, 3)`, `zeros((2, 3), "int32")`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import ops
from ..base.device import CPU, Device, GpuDevice
from ..base.device import device as get_device
from ..base.dtype import (
    DTYPES,
    DType,
    DTypeLike,
    as_dtype,
    bool_,
    float32,
    int32,
    int64,
)
from ..base.errors import ShapeError
from ..base.philox import wrapped
from ..base.shape import Layout, Shape
from ..base.size_limits import check_value
from ..base.validation import as_int, as_number, sizes_of
from ..ir.lazy_graph import Array, Value
from ..scheduler.scheduler import with_memory_retry
from .tensor import Tensor

DeviceLike = Device | str | int | None


def tensor(
    data: Any,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor with a copy of `data`; see `Tensor` for the parameters."""
    return Tensor(data, dtype, device, requires_grad)


def from_numpy(array: np.ndarray, device: DeviceLike = None) -> Tensor:
    """Return a tensor with a copy of a NumPy array's elements."""
    return Tensor(array, device=device)


def from_dlpack(source: Any, device: DeviceLike = None) -> Tensor:
    """Return a tensor with a copy of what another library's host tensor holds.

    Parameters
    ----------
    source : object with `__dlpack__`
        In host memory; PyTorch and NumPy have such objects.
    device : Device, str or None, default the host
        Where the copy goes.
    """
    return Tensor(np.from_dlpack(source), device=device)


def full(
    shape: Shape | int,
    fill_value: float,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor with every element `fill_value`.

    `dtype` None means bool, int64 or float32, by the kind of the number.
    """
    kind = _kind_of(fill_value) if dtype is None else as_dtype(dtype)
    sizes = sizes_of("full", shape)
    made: Tensor = ops.fill_like(anchor(_device(device)), sizes, fill_value, kind)
    return made.requires_grad_(requires_grad)


def zeros(
    *size: Any,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of zeros, float32 unless `dtype` says otherwise."""
    shape, kind, place = wanted("zeros", size, dtype, device)
    return full(shape, 0, kind, place, requires_grad)


def ones(
    *size: Any,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of ones, float32 unless `dtype` says otherwise."""
    shape, kind, place = wanted("ones", size, dtype, device)
    return full(shape, 1, kind, place, requires_grad)


def empty(
    *size: Any,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor whose elements are whatever the memory holds."""
    shape, kind, place = wanted("empty", size, dtype, device)
    numel = math.prod(shape)
    buffer: object
    if isinstance(place, GpuDevice):
        check_value("empty", shape, kind, place)
        buffer = with_memory_retry(place, place.gpu.allocate, numel * kind.itemsize)
    else:
        buffer = np.empty(numel, kind.storage)
    array = Array(Value(numel, kind, buffer=buffer))
    made = Tensor.make(array, Layout.contiguous(shape), place)
    return made.requires_grad_(requires_grad)


def zeros_like(
    x: Tensor, dtype: DTypeLike | None = None, device: DeviceLike = None
) -> Tensor:
    """Return zeros in the shape and dtype of `x`, on its device."""
    return full_like(x, 0, dtype, device)


def ones_like(
    x: Tensor, dtype: DTypeLike | None = None, device: DeviceLike = None
) -> Tensor:
    """Return ones in the shape and dtype of `x`, on its device."""
    return full_like(x, 1, dtype, device)


def full_like(
    x: Tensor,
    fill_value: float,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return `fill_value` in the shape and dtype of `x`, on its device."""
    like = x if device is None else anchor(_device(device))
    kind = x.dtype if dtype is None else as_dtype(dtype)
    made: Tensor = ops.fill_like(like, x.shape, fill_value, kind)
    return made


def empty_like(
    x: Tensor, dtype: DTypeLike | None = None, device: DeviceLike = None
) -> Tensor:
    """Return a tensor like `x` whose elements are whatever the memory holds."""
    kind = x.dtype if dtype is None else as_dtype(dtype)
    return empty(x.shape, dtype=kind, device=x.device if device is None else device)


def arange(
    start: float,
    end: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the numbers from `start` (0 if only one is given) up to before `end`.

    Parameters
    ----------
    start, end, step : float
        The last number is before `end` by at most `step`.
    dtype : DType, str or None
        None means int64 if all three are integers, otherwise float32.
    device : Device, str or None, default the host

    Raises
    ------
    ShapeError
        If `step` is 0 or leads away from `end`.
    """
    first, last = (0, start) if end is None else (start, end)
    first, last = as_number("arange: start", first), as_number("arange: end", last)
    step = as_number("arange: step", step)
    if step == 0 or (last - first) * step < 0:
        raise ShapeError(
            f"arange: from {first} to {last} in steps of {step}; the step must lead"
            " from start to end"
        )
    count = math.ceil((last - first) / step)
    numbers = (first, last, step)
    whole = all(isinstance(each, int | np.integer) for each in numbers)
    kind = as_dtype(dtype) if dtype is not None else int64 if whole else float32
    place = _device(device)
    if not whole and kind.kind != "float":
        made = arange(*numbers, device=place).to(kind)
    elif _computes(place, kind):
        made = _ramp(place, count, first, step, kind)
    else:
        made = Tensor(first + step * np.arange(count), kind, place)
    return made.requires_grad_(requires_grad)


def _ramp(
    device: Device, count: int, start: float, step: float, dtype: DType
) -> Tensor:
    """Return numbers in steps; integers are computed signed, and wrap."""
    compute = dtype
    if not dtype.is_float:
        compute = int64 if dtype.itemsize == 8 else int32
        bits = 8 * compute.itemsize
        start, step = wrapped(int(start), bits), wrapped(int(step), bits)
    made: Tensor = ops.arange_like(anchor(device), (count,), start, step, compute)
    return made.to(dtype)


def linspace(
    start: float,
    end: float,
    steps: int,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `steps` numbers at equal distances from `start` to `end`, both included.

    An integer `dtype` cuts both ends, and then them, towards zero; None means float32.
    """
    kind = float32 if dtype is None else as_dtype(dtype)
    steps = as_int("linspace: steps", steps)
    if steps < 0:
        raise ShapeError(f"linspace: steps is {steps}; it must be at least 0")
    start, end = as_number("linspace: start", start), as_number("linspace: end", end)
    compute = kind if kind.is_float else float32
    if not kind.is_float:
        start, end = int(start), int(end)
    apart = (end - start) / (steps - 1) if steps > 1 else 0.0
    last = max(steps - 1, 1)
    like = anchor(_device(device))
    made: Tensor = ops.linspace_like(like, (steps,), start, end, apart, last, compute)
    return made.to(kind).requires_grad_(requires_grad)


def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return `base` raised to `steps` exponents from `start` to `end`."""
    kind = float32 if dtype is None else as_dtype(dtype)
    exponents = linspace(start, end, steps, kind if kind.is_float else None, device)
    return ops.pow(base, exponents).to(kind).requires_grad_(requires_grad)


def eye(
    n: int,
    m: int | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return an (n, m) matrix, m being n if not given, with ones on the diagonal."""
    made = _band("eye", n, n if m is None else m, 0, 0, dtype, device)
    return made.requires_grad_(requires_grad)


def tri(
    n: int,
    m: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return an (n, m) matrix with ones on and below diagonal `k`, as in NumPy."""
    n, k = as_int("tri: n", n), as_int("tri: k", k)
    columns = n if m is None else as_int("tri: m", m)
    return _band("tri", n, columns, -n, max(min(k, columns), -n - 1), dtype, device)


def _band(
    name: str,
    rows: int,
    columns: int,
    low: int,
    high: int,
    dtype: DTypeLike | None,
    device: DeviceLike,
) -> Tensor:
    sizes = sizes_of(name, (rows, columns))
    like = anchor(_device(device))
    mask: Tensor = ops.band_like(
        like, sizes, *map(_at_least_one, sizes), low, high, bool_
    )
    return mask.to(float32 if dtype is None else as_dtype(dtype))


def _at_least_one(size: int) -> int:
    # The shader divides by sizes, also where there are no elements to do it for.
    return max(size, 1)


def _kind_of(value: object) -> DType:
    """Return the dtype of a tensor filled with a number."""
    if isinstance(value, bool | np.bool_):
        return bool_
    return int64 if isinstance(value, int | np.integer) else float32


def _device(device: DeviceLike) -> Device:
    return CPU if device is None else get_device(device)


def _computes(device: Device, dtype: DType) -> bool:
    """Return whether shaders of the device have the dtype's arithmetic."""
    if not isinstance(device, GpuDevice) or dtype.feature is None:
        return True
    return bool(getattr(device.gpu.info, dtype.feature))


def anchor(device: Device) -> Tensor:
    """Return a tensor that says where a new one goes; its element is never read."""
    if not isinstance(device, GpuDevice):
        return Tensor.from_host(np.zeros((), np.float32), device)
    value = Value(1, float32, buffer=device.gpu.allocate(0))
    return Tensor.make(Array(value), Layout.contiguous(()), device)


def wanted(
    name: str,
    size: Sequence[Any],
    dtype: DTypeLike | None,
    device: DeviceLike,
) -> tuple[Shape, DType, Device]:
    """Return shape, dtype and device from sizes that these may follow by position.

    Raises
    ------
    ShapeError
        If a size is below 0.
    """
    rest = list(size)
    sizes: object = ()
    if rest and not isinstance(rest[0], str | DType | Device | type | np.dtype):
        sizes = rest.pop(0)
    if isinstance(sizes, int | np.integer):
        sizes = [sizes]
        while rest and isinstance(rest[0], int | np.integer):
            sizes.append(rest.pop(0))
    for given in rest:
        if given is None:
            continue
        if isinstance(given, Device) or (
            isinstance(given, str) and given not in DTYPES
        ):
            device = given
        else:
            dtype = given
    kind = float32 if dtype is None else as_dtype(dtype)
    return sizes_of(name, sizes), kind, _device(device)
