"""Fourier transforms of rows: the kernel's lengths, and all others by them."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.device import Device, GpuDevice, on_device_removed
from ...base.dtype import COMPLEX, complex64, float32, float64
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.fft import (
    LEAST_BESIDE,
    Reals,
    compiles_rows,
    convolution_dispatches,
    convolution_size,
    fft_dispatches,
    odd_rfft_dispatches,
    real_fft_dispatches,
    table_size,
    takes_columns,
    takes_convolutions,
    takes_reals,
)
from ..elementwise.binary import mul
from ..elementwise.cast import cast
from ..elementwise.complex_numbers import _real_part, conj
from ..movement.rearrange import pad
from ..movement.slice import narrow
from ..shape_constant import reported
from ..view import movedim, reshape

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=(float32, float64, *COMPLEX), device_dtypes=(float32, complex64))
def _fft_rows(
    x: Tensor, table: Tensor, inverse: bool, scale: float, real: bool
) -> Tensor:
    """Return the transforms of rows (rows, n) times `scale`, or of (outer, n, inner).

    `table` is that of `_table`; `real` says whether `x` is.
    """


@_fft_rows.spec
def _fft_rows_spec(
    x: TensorSpec, table: TensorSpec, inverse: bool, scale: float, real: bool
) -> TensorSpec:
    return TensorSpec(x.shape, x.dtype.to_complex())


@_fft_rows.kernel
def _fft_rows_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    table: StridedSpec,
    inverse: bool,
    scale: float,
    real: bool,
) -> list[Dispatch]:
    return fft_dispatches(gpu, x, inverse, scale)


@_fft_rows.vjp
def _fft_rows_vjp(
    grad: Tensor, table: Tensor, inverse: bool, scale: float, real: bool
) -> tuple[Tensor, None]:
    found = _fft_rows(grad, table, not inverse, scale, False)
    return _real_part(found) if real else found, None


@_fft_rows.reference
def _fft_rows_reference(
    x: np.ndarray, table: np.ndarray, inverse: bool, scale: float, real: bool
) -> np.ndarray:
    made = np.fft.ifft(x, norm="forward") if inverse else np.fft.fft(x)
    return (made * scale).astype(np.result_type(x, np.complex64))


@primitive(dtypes=(float32, float64, *COMPLEX), device_dtypes=(float32, complex64))
def _fft_real(
    x: Tensor,
    table: Tensor,
    halves: Tensor,
    back: bool,
    conjugated: bool,
    scale: float,
    inner: float,
) -> Tensor:
    """Return half the transforms of rows (rows, 2 n) of real numbers, times `scale`.

    Or `back`, the real numbers of (rows, n + 1). Of the numbers of half a transform,
    all but the first and the last are times `inner`, and all are conjugated if
    `conjugated`. The tables are that of `fft_rows` and the first n + 1 of `roots(2 n)`.
    """


@_fft_real.spec
def _fft_real_spec(
    x: TensorSpec,
    table: TensorSpec,
    halves: TensorSpec,
    back: bool,
    conjugated: bool,
    scale: float,
    inner: float,
) -> TensorSpec:
    rows, size = x.shape
    if back:
        return TensorSpec((rows, 2 * (size - 1)), x.dtype.to_real())
    return TensorSpec((rows, size // 2 + 1), x.dtype.to_complex())


@_fft_real.kernel
def _fft_real_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    table: StridedSpec,
    halves: StridedSpec,
    back: bool,
    conjugated: bool,
    scale: float,
    inner: float,
) -> list[Dispatch]:
    n = x.shape[1] - 1 if back else x.shape[1] // 2
    return real_fft_dispatches(gpu, x, n, back, conjugated, scale, inner)


@_fft_real.vjp
def _fft_real_vjp(
    grad: Tensor,
    table: Tensor,
    halves: Tensor,
    back: bool,
    conjugated: bool,
    scale: float,
    inner: float,
) -> tuple[Tensor, None, None]:
    # Each way is the adjoint of the other, but that numbers between the first and the
    # last stand for their conjugates, too, on the way back.
    factor = 2 * inner if back else 0.5 * inner
    found = _fft_real(grad, table, halves, not back, conjugated, scale, factor)
    return found, None, None


@_fft_real.reference
def _fft_real_reference(
    x: np.ndarray,
    table: np.ndarray,
    halves: np.ndarray,
    back: bool,
    conjugated: bool,
    scale: float,
    inner: float,
) -> np.ndarray:
    half = x.copy() if back else np.fft.rfft(x) * scale
    half[:, 1:-1] *= inner
    half = half.conj() if conjugated else half
    if not back:
        return half.astype(np.result_type(x, np.complex64))
    made = np.fft.irfft(half, 2 * (x.shape[1] - 1), norm="forward")
    return (made * scale).astype(x.real.dtype)


_TABLE = (float32, float64, *COMPLEX)
"""Dtypes of tables: the host's are empty."""


@functools.lru_cache(maxsize=64)
def _constant(
    like: type[Tensor], device: Device, generation: int, kind: str, n: int, size: int
) -> Tensor:
    values = {"roots": _roots, "chirp": _chirp, "filter": _filter}
    return like.from_host(values[kind](n, size), device, complex64)


on_device_removed(_constant.cache_clear)


def _roots(n: int, size: int) -> np.ndarray:
    return np.exp(-2j * np.pi / n * np.arange(size))


def _chirp(n: int, size: int) -> np.ndarray:
    # Squares modulo 2 n, as large angles would not be exact.
    return np.exp(-1j * np.pi / n * (np.arange(n) ** 2 % (2 * n)))


def _filter(n: int, size: int) -> np.ndarray:
    """Return the transform of the conjugate chirp, which wraps around `size`."""
    chirp = _chirp(n, size).conj()
    wide = np.zeros(size, complex)
    wide[:n] = chirp
    wide[size - n + 1 :] = chirp[:0:-1]
    return np.fft.fft(wide)


def constant(x: Tensor, kind: str, n: int, size: int = 0) -> Tensor:
    """Return a table of factors on the device of `x`, made once."""
    device = x.device
    if not isinstance(device, GpuDevice):
        host: Tensor = type(x).from_host(np.zeros(1), device, x.dtype)
        if kind == "roots" and size in (1, n):
            return host  # which the reference does not read
        return type(x).from_host(_roots(n, size), device, x.dtype)
    like: Any = x.results
    return reported(_constant(like, device, device.generation, kind, n, size))


def _table(x: Tensor, n: int, columns: bool = False) -> Tensor:
    """Return the table that a kernel of rows, or columns, reads."""
    device, size = x.device, n
    if isinstance(device, GpuDevice):
        size = table_size(device.gpu.info, n, columns)
    return constant(x, "roots", size if size > 1 else n, size)


def fft_rows(x: Tensor, inverse: bool, scale: float) -> Tensor:
    """Return the transforms of the rows of a matrix, times `scale`.

    On a device, a row of a length with a prime factor above 31 is a convolution of a
    length without.

    Source: Bluestein, "A Linear Filtering Approach to the Computation of Discrete
    Fourier Transform", 1970.
    """
    rows, n = x.shape
    device, x = x.device, _readable(x, n, False)
    if (
        not rows
        or not isinstance(device, GpuDevice)
        or compiles_rows(device.gpu.info, n)
    ):
        return _fft_rows(x, _table(x, n), inverse, scale, not x.dtype.is_complex)
    return _by_convolution(x, inverse, scale)


def along(x: Tensor, dim: int, inverse: bool, scale: float) -> Tensor:
    """Return the transforms of numbers along a dimension."""
    shape = x.shape
    n, inner = shape[dim], math.prod(shape[dim + 1 :])
    beside = inner >= LEAST_BESIDE and x.numel() > 0 and _takes_columns(x, n)
    x = _readable(x, n, beside)
    if beside:
        columns = reshape(x, (math.prod(shape[:dim]), n, inner))
        real = not x.dtype.is_complex
        made = _fft_rows(columns, _table(x, n, True), inverse, scale, real)
        return reshape(made, tuple(shape))
    last = x if dim == x.ndim - 1 else movedim(x, dim, -1)
    shape = last.shape
    made = fft_rows(reshape(last, (-1 if x.numel() else 0, n)), inverse, scale)
    made = reshape(made, tuple(shape))
    return made if dim == x.ndim - 1 else movedim(made, -1, dim)


def _takes_columns(x: Tensor, n: int) -> bool:
    device = x.device
    if not isinstance(device, GpuDevice) or x.dtype not in (float32, complex64):
        return False
    return takes_columns(device.gpu.info, n)


def _readable(x: Tensor, n: int, columns: bool) -> Tensor:
    """Return numbers as kernels of rows, or columns, read them: mostly complex."""
    device = x.device
    if x.dtype is float32 and isinstance(device, GpuDevice) and x.numel():
        if takes_reals(device.gpu.info, n, columns):
            return x
    real = x.dtype in (float32, float64)
    return cast(x, x.dtype.to_complex()) if real else x


def takes_real_rows(x: Tensor, n: int) -> bool:
    """Return whether kernels transform rows of `n` real numbers to half, and back."""
    kinds = float32, complex64
    device = x.device
    if not isinstance(device, GpuDevice) or x.dtype not in kinds or n % 2:
        return False
    info, half = device.gpu.info, n // 2
    taken = compiles_rows(info, half) or takes_convolutions(
        info, convolution_size(half)
    )
    return taken and x.numel() > 0


def real_rows(x: Tensor, n: int, back: bool, conjugated: bool, scale: float) -> Tensor:
    """Return half the transform of real numbers along the last dimension, or `back`.

    Parameters
    ----------
    x : Tensor, float32 or complex64, shape (..., n) or (..., n // 2 + 1)
    n : int
        How many real numbers; see `takes_real_rows`.
    back, conjugated : bool
        Whether real numbers are asked for; whether halves are conjugated.
    scale : float
    """
    *outer, size = x.shape
    half, device = n // 2, x.device
    halves = constant(x, "roots", n, half + 1)
    rows = reshape(x, (math.prod(outer), size))
    if not isinstance(device, GpuDevice) or compiles_rows(device.gpu.info, half):
        table = _table(x, half)
        made = _fft_real(rows, table, halves, back, conjugated, scale, 1.0)
    else:
        made = _real_by_convolution(rows, halves, half, back, conjugated, scale)
    return reshape(made, (*outer, n if back else n // 2 + 1))


@primitive(dtypes=(float32, float64, *COMPLEX), device_dtypes=(float32, complex64))
def _fft_convolved(
    x: Tensor,
    table: Tensor,
    chirp: Tensor,
    response: Tensor,
    inverse: bool,
    scale: float,
    real: bool,
) -> Tensor:
    """Return the transforms of rows (rows, n) times `scale`, by a convolution.

    The size of the convolution is that of `response`; `table` is of its transforms, and
    `real` says whether `x` is.
    """


@_fft_convolved.spec
def _fft_convolved_spec(
    x: TensorSpec,
    table: TensorSpec,
    chirp: TensorSpec,
    response: TensorSpec,
    inverse: bool,
    scale: float,
    real: bool,
) -> TensorSpec:
    return TensorSpec(x.shape, x.dtype.to_complex())


@_fft_convolved.kernel
def _fft_convolved_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    table: StridedSpec,
    chirp: StridedSpec,
    response: StridedSpec,
    inverse: bool,
    scale: float,
    real: bool,
) -> list[Dispatch]:
    (rows, n), size = x.shape, response.shape[0]
    reals = Reals() if real else None
    return convolution_dispatches(gpu, rows, n, size, inverse, scale, reals=reals)


@_fft_convolved.vjp
def _fft_convolved_vjp(
    grad: Tensor,
    table: Tensor,
    chirp: Tensor,
    response: Tensor,
    inverse: bool,
    scale: float,
    real: bool,
) -> tuple[Tensor, None, None, None]:
    found = _fft_convolved(grad, table, chirp, response, not inverse, scale, False)
    return _real_part(found) if real else found, None, None, None


@_fft_convolved.reference
def _fft_convolved_reference(
    x: np.ndarray,
    table: np.ndarray,
    chirp: np.ndarray,
    response: np.ndarray,
    inverse: bool,
    scale: float,
    real: bool,
) -> np.ndarray:
    return _fft_rows_reference(x, table, inverse, scale, real)


@primitive(dtypes=(float32, float64, *COMPLEX), device_dtypes=(float32, complex64))
def _fft_real_convolved(
    x: Tensor,
    table: Tensor,
    chirp: Tensor,
    response: Tensor,
    halves: Tensor,
    back: bool,
    conjugated: bool,
    scale: float,
    inner: float,
) -> Tensor:
    """Return half the transforms of rows of real numbers, or `back`, by a convolution.

    The numbers are those of `_fft_real`, the tables also those of `_fft_convolved`.
    """


@_fft_real_convolved.spec
def _fft_real_convolved_spec(
    x: TensorSpec,
    table: TensorSpec,
    chirp: TensorSpec,
    response: TensorSpec,
    halves: TensorSpec,
    back: bool,
    conjugated: bool,
    scale: float,
    inner: float,
) -> TensorSpec:
    return _fft_real_spec(x, table, halves, back, conjugated, scale, inner)


@_fft_real_convolved.kernel
def _fft_real_convolved_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    table: StridedSpec,
    chirp: StridedSpec,
    response: StridedSpec,
    halves: StridedSpec,
    back: bool,
    conjugated: bool,
    scale: float,
    inner: float,
) -> list[Dispatch]:
    n, size = chirp.shape[0], response.shape[0]
    return real_fft_dispatches(gpu, x, n, back, conjugated, scale, inner, size)


@_fft_real_convolved.vjp
def _fft_real_convolved_vjp(
    grad: Tensor,
    table: Tensor,
    chirp: Tensor,
    response: Tensor,
    halves: Tensor,
    back: bool,
    conjugated: bool,
    scale: float,
    inner: float,
) -> tuple[Tensor, None, None, None, None]:
    tables = table, chirp, response, halves
    factor = 2 * inner if back else 0.5 * inner
    found = _fft_real_convolved(grad, *tables, not back, conjugated, scale, factor)
    return found, None, None, None, None


@_fft_real_convolved.reference
def _fft_real_convolved_reference(
    x: np.ndarray,
    table: np.ndarray,
    chirp: np.ndarray,
    response: np.ndarray,
    halves: np.ndarray,
    back: bool,
    conjugated: bool,
    scale: float,
    inner: float,
) -> np.ndarray:
    return _fft_real_reference(x, table, halves, back, conjugated, scale, inner)


def _real_by_convolution(
    x: Tensor, halves: Tensor, n: int, back: bool, conjugated: bool, scale: float
) -> Tensor:
    """Transform rows of `2 n` real numbers to half, or back, by a convolution."""
    size = convolution_size(n)
    chirp, response = constant(x, "chirp", n), constant(x, "filter", n, size)
    tables = _table(x, size), chirp, response, halves
    return _fft_real_convolved(x, *tables, back, conjugated, scale, 1.0)


def _by_convolution(x: Tensor, inverse: bool, scale: float) -> Tensor:
    """Transform rows of any length by a convolution with a chirp."""
    n = x.shape[1]
    size = convolution_size(n)
    chirp, response = constant(x, "chirp", n), constant(x, "filter", n, size)
    device = x.device
    if isinstance(device, GpuDevice) and takes_convolutions(device.gpu.info, size):
        table, real = _table(x, size), not x.dtype.is_complex
        return _fft_convolved(x, table, chirp, response, inverse, scale, real)
    if inverse:
        return conj(_by_convolution(conj(x), False, scale))
    wide = fft_rows(pad(mul(x, chirp), (0, size - n)), False, 1.0)
    made = fft_rows(mul(wide, response), True, scale / size)
    return mul(narrow(made, 1, 0, n), chirp)


@primitive(
    dtypes={
        "x": (float32, float64),
        "table": _TABLE,
        "chirp": _TABLE,
        "response": _TABLE,
    },
    device_dtypes={"x": (float32,)},
)
def _fft_odd(
    x: Tensor,
    table: Tensor,
    chirp: Tensor,
    response: Tensor,
    convolved: bool,
    conjugated: bool,
    scale: float,
) -> Tensor:
    """Return half the transforms of real rows (rows, n), n odd, times `scale`.

    They are conjugated if `conjugated`. `convolved` says whether a convolution
    transforms rows; the tables are then those of `_fft_convolved`.
    """


@_fft_odd.spec
def _fft_odd_spec(
    x: TensorSpec,
    table: TensorSpec,
    chirp: TensorSpec,
    response: TensorSpec,
    convolved: bool,
    conjugated: bool,
    scale: float,
) -> TensorSpec:
    rows, n = x.shape
    return TensorSpec((rows, n // 2 + 1), x.dtype.to_complex())


@_fft_odd.kernel
def _fft_odd_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    table: StridedSpec,
    chirp: StridedSpec,
    response: StridedSpec,
    convolved: bool,
    conjugated: bool,
    scale: float,
) -> list[Dispatch]:
    size = response.shape[0] if convolved else None
    return odd_rfft_dispatches(gpu, x, size, conjugated, scale)


@_fft_odd.vjp
def _fft_odd_vjp(
    grad: Tensor, conjugated: bool, scale: float
) -> tuple[Tensor, None, None, None]:
    whole = pad(grad, (0, grad.shape[1] - 1))
    # The real parts of a transform and of the other way's of conjugates are the same.
    return _real_part(fft_rows(whole, not conjugated, scale)), None, None, None


@_fft_odd.reference
def _fft_odd_reference(
    x: np.ndarray,
    table: np.ndarray,
    chirp: np.ndarray,
    response: np.ndarray,
    convolved: bool,
    conjugated: bool,
    scale: float,
) -> np.ndarray:
    made = np.fft.rfft(x) * scale
    made = made.conj() if conjugated else made
    return made.astype(np.result_type(x, np.complex64))


def takes_odd_rows(x: Tensor, n: int) -> bool:
    """Return whether kernels transform two rows of `n` real numbers as one, n odd."""
    device = x.device
    if not isinstance(device, GpuDevice) or x.dtype is not float32 or n % 2 == 0:
        return False
    return x.numel() > n and takes_reals(device.gpu.info, n, False)


def odd_rows(x: Tensor, conjugated: bool, scale: float) -> Tensor:
    """Return half the transform of real numbers along the last dimension.

    Parameters
    ----------
    x : Tensor, shape (..., n)
        See `takes_odd_rows`.
    conjugated : bool
        Whether results are.
    scale : float
    """
    *outer, n = x.shape
    rows = reshape(x, (math.prod(outer), n))
    device = x.device
    if not isinstance(device, GpuDevice) or compiles_rows(device.gpu.info, n):
        table = _table(x, n)
        tables, convolved = (table, table, table), False
    else:
        size = convolution_size(n)
        response = constant(x, "filter", n, size)
        tables, convolved = (_table(x, size), constant(x, "chirp", n), response), True
    made = _fft_odd(rows, *tables, convolved, conjugated, scale)
    return reshape(made, (*outer, n // 2 + 1))
