"""Regular tensors: sequences of numbers, and matrices of ones and zeros."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..base.device import Device, GpuDevice
from ..base.dtype import (
    DType,
    DTypeLike,
    as_dtype,
    bool_,
    default_dtype,
    float32,
    float64,
    int32,
    int64,
)
from ..base.errors import ShapeError
from ..base.philox import wrapped
from ..base.validation import as_int, as_number, sizes_of
from ..dispatch.scalar import rounded
from .factories import DeviceLike, anchor, finished, place_of
from .tensor import Tensor


def arange(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return the numbers from `start` (0 if only one is given) up to before `end`.

    Parameters
    ----------
    start, end, step : float
        The last number is before `end` by at most `step`.
    dtype : DType, str or None
        None means that of `out`, without one int64 if all three are integers and
        otherwise the default float dtype.
        int64 cuts all three towards zero first, smaller integers once the ends have
        said how many there are, as PyTorch does.
    device, requires_grad, out, layout, pin_memory
        As in `full`.

    Raises
    ------
    ShapeError
        If `step` is 0 or leads away from `end`.
    """
    first, last = (0, start) if end is None else (start, end)
    first, last = as_number("arange: start", first), as_number("arange: end", last)
    step = as_number("arange: step", step)
    if dtype is None and isinstance(out, Tensor):
        dtype = out.dtype
    numbers = (first, last, step)
    whole = all(isinstance(each, int | np.integer) for each in numbers)
    if not whole and dtype is not None and as_dtype(dtype) is int64:
        first, last, step = numbers = (int(first), int(last), int(step))
        whole = True
    if step == 0 or (last - first) * step < 0:
        raise ShapeError(
            f"arange: from {first} to {last} in steps of {step}; the step must lead"
            " from start to end"
        )
    count = math.ceil((last - first) / step)
    kind = as_dtype(dtype) if dtype is not None else int64 if whole else default_dtype()
    place = place_of(device)
    if not whole and kind.kind in ("int", "uint"):
        # The ends say how many, as floats; the numbers are whole.
        made = _ramp(place, count, int(first), int(step), kind)
    elif not whole and kind.kind != "float":
        made = arange(*numbers, device=place).to(kind)
    elif _computes(place, kind):
        made = _ramp(place, count, first, step, kind)
    else:
        made = Tensor.from_data(first + step * np.arange(count), kind, place)
    return finished("arange", made, requires_grad, out, layout)


def range(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    out: Tensor | None = None,
    layout: Any = None,
) -> Tensor:
    """Return the numbers from `start` up to `end`, included; use `arange` instead.

    Parameters
    ----------
    start, end, step : float
        `range(end)` starts at 0.
    dtype : DType, str or None
        None means the default float dtype, also of integers.
    device, requires_grad, out, layout
        As in `full`.

    Raises
    ------
    ShapeError
        If `step` is 0 or leads away from `end`.
    """
    first, last = (0, start) if end is None else (start, end)
    first, last = as_number("range: start", first), as_number("range: end", last)
    step = as_number("range: step", step)
    if step == 0 or (last - first) * step < 0:
        raise ShapeError(
            f"range: from {first} to {last} in steps of {step}; the step must lead"
            " from start to end"
        )
    kind = default_dtype() if dtype is None else as_dtype(dtype)
    count = math.floor((last - first) / step) + 1
    made = Tensor.from_data(first + step * np.arange(count), kind, place_of(device))
    return finished("range", made, requires_grad, out, layout)


def _ramp(
    device: Device, count: int, start: float, step: float, dtype: DType
) -> Tensor:
    """Return numbers in steps; integers are computed signed, and wrap."""
    compute = dtype
    if not dtype.is_float:
        compute = int64 if dtype.itemsize == 8 else int32
        bits = 8 * compute.itemsize
        # Not `int` of one, as a symbolic number would become a plain one.
        start = wrapped(start if isinstance(start, int) else int(start), bits)
        step = wrapped(int(step), bits)
    made: Tensor = ops.arange_like(anchor(device), (count,), start, step, compute)
    return made.to(dtype)


def _end(where: str, value: float) -> float:
    """Return a number that a sequence starts or ends with."""
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeError(
            f"{where} is a tensor of shape {tuple(value.shape)}; it must be a number,"
            " or a tensor without dimensions"
        )
    return as_number(where, value)


def linspace(
    start: float,
    end: float,
    steps: int,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return numbers at equal distances from `start` to `end`, both included.

    Parameters
    ----------
    start, end : number, or Tensor without dimensions
    steps : int
        How many; one is `start`.
    dtype : DType, str or None
        None means the default float dtype. An integer one cuts both ends, and then the
        numbers, towards zero.
    device, requires_grad, out, layout, pin_memory
        As in `full`.

    Raises
    ------
    ShapeError
        If `steps` is below 0, or an end has dimensions.
    """
    kind = default_dtype() if dtype is None else as_dtype(dtype)
    steps = as_int("linspace: steps", steps)
    if steps < 0:
        raise ShapeError(f"linspace: steps is {steps}; it must be at least 0")
    start, end = _end("linspace: start", start), _end("linspace: end", end)
    like = anchor(place_of(device))
    if not kind.is_float and not kind.is_complex:
        made = _whole_line(like, int(start), int(end), steps)
    elif kind.itemsize == 2:
        made = _line_of_small_floats(like, steps, start, end, kind)
    else:
        compute, last = kind if kind.is_float else float32, max(steps - 1, 1)
        real = compute.arithmetic.type
        apart = float((real(end) - real(start)) / real(last)) if steps > 1 else 0.0
        made = ops.linspace_like(like, (steps,), start, end, apart, last, compute)
    return finished("linspace", made.to(kind), requires_grad, out, layout)


EXACT = 1 << 53
"""Up to it float64 has all integers."""


def _whole_line(like: Tensor, start: int, end: int, steps: int) -> Tensor:
    """Return integers at equal distances, cut from float64 as PyTorch's are.

    Without a rounding of products, which devices of another kind may have in `fma`.
    """
    device = like.device
    if isinstance(device, GpuDevice) and max(abs(start), abs(end)) <= EXACT:
        info = device.gpu.info
        if info.shader_float64 and info.target.fuses_multiply_add:
            last = max(steps - 1, 1)
            apart = float(end - start) / last
            line: Tensor = ops.linspace_like(
                like, (steps,), start, end, apart, last, float64
            )
            return line.to(int64)
    return Tensor.from_host(_whole_line_on_host(start, end, steps), device, int64)


def _whole_line_on_host(start: int, end: int, steps: int) -> np.ndarray:
    i, last = np.arange(steps), steps - 1
    # Wider than float64, as the product of fma is.
    apart = np.longdouble(float(end - start) / max(last, 1))
    line = np.where(i < max(steps // 2, 1), start + apart * i, end - apart * (last - i))
    whole: np.ndarray = line.astype(np.float64).astype(np.int64)
    return whole


def _line_of_small_floats(
    like: Tensor, steps: int, start: float, end: float, dtype: DType
) -> Tensor:
    """Return 2-byte floats at equal distances, rounded after each operation."""
    single, last = np.float32, max(steps - 1, 1)
    with np.errstate(all="ignore"):
        low, high, count = (
            rounded(float(single(x)), dtype) for x in (start, end, last)
        )
        span = rounded(float(single(high) - single(low)), dtype)
        apart = rounded(float(single(span) / single(count)), dtype)
    # From the nearer end, so below 0 in the upper half, whose last one is -0.
    place = ops.linspace_like(like, (steps,), 0.0, -0.0, 1.0, last, float32)
    off = (place.to(dtype).float() * apart).to(dtype).float()
    none = math.copysign(0.0, low) if low == 0 else 0.0
    base: Tensor = ops.linspace_like(like, (steps,), low, high, none, last, float32)
    made: Tensor = base + off
    return made


def logspace(
    start: float,
    end: float,
    steps: int,
    base: float = 10.0,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return `base` raised to exponents at equal distances from `start` to `end`.

    Parameters
    ----------
    start, end : number, or Tensor without dimensions
        First and last exponent.
    steps : int
        How many.
    base : float, default 10
    dtype : DType, str or None
        None means the default float dtype. An integer one cuts both exponents, and then
        the powers, towards zero.
    device, requires_grad, out, layout, pin_memory
        As in `full`.

    Raises
    ------
    ShapeError
        If `steps` is below 0, or an end has dimensions.
    """
    kind = default_dtype() if dtype is None else as_dtype(dtype)
    start, end = _end("logspace: start", start), _end("logspace: end", end)
    if not kind.is_float and not kind.is_complex:
        start, end = int(start), int(end)
    # Rounded once, as powers are far more sensitive than their exponents.
    exact = float32 if kind.is_float and kind.itemsize < 4 else kind
    exponents = linspace(start, end, steps, exact if kind.is_float else None, device)
    made = ops.pow(base, exponents).to(kind)
    return finished("logspace", made, requires_grad, out, layout)


def eye(
    n: int,
    m: int | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    *,
    out: Tensor | None = None,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return a matrix with ones on the diagonal and zeros elsewhere.

    Parameters
    ----------
    n : int
        Number of rows.
    m : int or None
        Number of columns; None means `n`.
    dtype : DType, str or None
        None means the default float dtype.
    device, requires_grad, out, layout, pin_memory
        As in `full`.

    Raises
    ------
    ShapeError
        If a size is below 0.
    """
    made = _band("eye", n, n if m is None else m, 0, 0, dtype, device)
    return finished("eye", made, requires_grad, out, layout)


def tri(
    n: int,
    m: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return a matrix with ones on and below a diagonal, as in NumPy.

    Parameters
    ----------
    n : int
        Number of rows.
    m : int or None
        Number of columns; None means `n`.
    k : int, default 0
        Which diagonal: above the main one if positive, below it if negative.
    dtype : DType, str or None
        None means the default float dtype.
    device : Device, str or None
        None means the default device.
    """
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
    like = anchor(place_of(device))
    down, across = sizes
    mask = ops.band_like(like, sizes, down, across, low, high, bool_)
    return mask.to(default_dtype() if dtype is None else as_dtype(dtype))


def _computes(device: Device, dtype: DType) -> bool:
    """Return whether shaders of the device have the dtype's arithmetic."""
    if not isinstance(device, GpuDevice) or dtype.feature is None:
        return True
    return bool(getattr(device.gpu.info, dtype.feature))
