"""Fourier transforms of rows: the kernel's lengths, and all others by them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.device import Device, GpuDevice, on_device_removed
from ...base.dtype import COMPLEX, complex64
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.fft import fft_dispatches, longest_row, radices_of, split_length
from ..elementwise.binary import mul
from ..elementwise.complex_numbers import conj
from ..movement.rearrange import pad
from ..movement.slice import narrow
from ..view import reshape, transpose

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=COMPLEX, device_dtypes=(complex64,))
def _fft_rows(x: Tensor, table: Tensor, inverse: bool, scale: float) -> Tensor:
    """Return the transforms of rows (rows, n) times `scale`; `table` is `roots(n)`."""


@_fft_rows.spec
def _fft_rows_spec(
    x: TensorSpec, table: TensorSpec, inverse: bool, scale: float
) -> TensorSpec:
    return x


@_fft_rows.kernel
def _fft_rows_kernel(
    gpu: DeviceInfo, x: StridedSpec, table: StridedSpec, inverse: bool, scale: float
) -> list[Dispatch]:
    return fft_dispatches(gpu, x, inverse, scale)


@_fft_rows.vjp
def _fft_rows_vjp(
    grad: Tensor, table: Tensor, inverse: bool, scale: float
) -> tuple[Tensor, None]:
    return _fft_rows(grad, table, not inverse, scale), None


@_fft_rows.reference
def _fft_rows_reference(
    x: np.ndarray, table: np.ndarray, inverse: bool, scale: float
) -> np.ndarray:
    made = np.fft.ifft(x, norm="forward") if inverse else np.fft.fft(x)
    return (made * scale).astype(x.dtype)


@functools.lru_cache(maxsize=64)
def _constant(
    like: type[Tensor], device: Device, generation: int, kind: str, n: int, size: int
) -> Tensor:
    values = {"roots": _roots, "twiddles": _twiddles, "chirp": _chirp}
    values["filter"] = _filter
    return like.from_host(values[kind](n, size), device, complex64)


on_device_removed(_constant.cache_clear)


def _roots(n: int, size: int) -> np.ndarray:
    return np.exp(-2j * np.pi / n * np.arange(size))


def _twiddles(n: int, size: int) -> np.ndarray:
    """Return the factors between the steps of lengths `size` and n / `size`."""
    places = np.outer(np.arange(size), np.arange(n // size))
    return np.exp(-2j * np.pi / n * places)


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
        if kind == "roots" and size == n:
            return host  # which the reference does not read
        values = {"roots": _roots, "twiddles": _twiddles}[kind](n, size)
        return type(x).from_host(values, device, x.dtype)
    like: Any = x.results
    made: Tensor = _constant(like, device, device.generation, kind, n, size)
    return made


def fft_rows(x: Tensor, inverse: bool, scale: float) -> Tensor:
    """Return the transforms of the rows of a complex matrix, times `scale`.

    On a device a row of a length with factors up to 13 is transformed in shared memory,
    or in steps if it is long; another is a convolution of such a length.

    Sources: Bailey, "FFTs in External or Hierarchical Memory", 1990; Bluestein, "A
    Linear Filtering Approach to the Computation of Discrete Fourier Transform", 1970.
    """
    rows, n = x.shape
    device = x.device
    if not isinstance(device, GpuDevice) or not rows:
        return _fft_rows(x, constant(x, "roots", n, n), inverse, scale)
    longest = longest_row(device.gpu.info)
    if radices_of(n) is not None and n <= longest:
        return _fft_rows(x, constant(x, "roots", n, n), inverse, scale)
    split = split_length(n, longest)
    if split is None:
        return _by_convolution(x, inverse, scale)
    return _in_steps(x, split, inverse, scale)


def _in_steps(x: Tensor, sizes: tuple[int, int], inverse: bool, scale: float) -> Tensor:
    """Transform rows as matrices: their columns, factors, their rows."""
    rows, n = x.shape
    one, two = sizes
    columns = transpose(reshape(x, (rows, one, two)), 1, 2)
    made = fft_rows(reshape(columns, (rows * two, one)), inverse, 1.0)
    factors = constant(x, "twiddles", n, two)
    factors = conj(factors) if inverse else factors
    turned = transpose(mul(reshape(made, (rows, two, one)), factors), 1, 2)
    made = fft_rows(reshape(turned, (rows * one, two)), inverse, scale)
    return reshape(transpose(reshape(made, (rows, one, two)), 1, 2), (rows, n))


def _by_convolution(x: Tensor, inverse: bool, scale: float) -> Tensor:
    """Transform rows of any length by a convolution with a chirp."""
    if inverse:
        return conj(_by_convolution(conj(x), False, scale))
    n = x.shape[1]
    size = 1 << (2 * n - 2).bit_length()
    chirp, response = constant(x, "chirp", n), constant(x, "filter", n, size)
    wide = fft_rows(pad(mul(x, chirp), (0, size - n)), False, 1.0)
    made = fft_rows(mul(wide, response), True, scale / size)
    return mul(narrow(made, 1, 0, n), chirp)
