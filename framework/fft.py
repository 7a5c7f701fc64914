"""Discrete Fourier transforms, under PyTorch's names.

On a Vulkan device they are kernels of complex64, of any length; on the host NumPy's.
"""

from __future__ import annotations

from typing import Any

from . import ops
from .base.dtype import DTypeLike, as_dtype, default_dtype
from .base.errors import DTypeError, ShapeError
from .base.validation import as_int
from .dispatch.keywords import takes_keywords as _taking
from .ops.fourier import transforms as _functions
from .tensor.factories import DeviceLike, anchor, finished, place_of

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

fft = _taking(_functions.fft)
fft2 = _taking(_functions.fft2)
fftn = _taking(_functions.fftn)
fftshift = _taking(_functions.fftshift)
hfft = _taking(_functions.hfft)
hfft2 = _taking(_functions.hfft2)
hfftn = _taking(_functions.hfftn)
ifft = _taking(_functions.ifft)
ifft2 = _taking(_functions.ifft2)
ifftn = _taking(_functions.ifftn)
ifftshift = _taking(_functions.ifftshift)
ihfft = _taking(_functions.ihfft)
ihfft2 = _taking(_functions.ihfft2)
ihfftn = _taking(_functions.ihfftn)
irfft = _taking(_functions.irfft)
irfft2 = _taking(_functions.irfft2)
irfftn = _taking(_functions.irfftn)
rfft = _taking(_functions.rfft)
rfft2 = _taking(_functions.rfft2)
rfftn = _taking(_functions.rfftn)


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: DTypeLike | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Any:
    """Return the frequencies of the results of `fft`.

    They are 0, 1, ... up to (n - 1) // 2, then -(n // 2), ... -1, over n d.

    Parameters
    ----------
    n : int
        Number of samples, at least 1.
    d : float, default 1
        Distance of samples.
    out, layout, device, requires_grad
        As in `full`.
    dtype : DType, str or None
        A float one; None means the default float dtype.

    Returns
    -------
    Tensor, shape (n,)

    Raises
    ------
    ShapeError
        If `n` is below 1.
    DTypeError
        If `dtype` is no float dtype.
    """
    count = _count("fftfreq", n)
    made = _numbers("fftfreq", count, count, d, dtype, device)
    made = ops.where(made < (count + 1) // 2, made, made - count) / (count * d)
    return finished("fftfreq", made, requires_grad, out, layout)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: DTypeLike | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Any:
    """Return the frequencies of the results of `rfft`: 0 to n // 2, over n d.

    Parameters
    ----------
    n : int
        Number of samples, at least 1.
    d : float, default 1
        Distance of samples.
    out, layout, device, requires_grad
        As in `full`.
    dtype : DType, str or None
        A float one; None means the default float dtype.

    Returns
    -------
    Tensor, shape (n // 2 + 1,)

    Raises
    ------
    ShapeError
        If `n` is below 1.
    DTypeError
        If `dtype` is no float dtype.
    """
    count = _count("rfftfreq", n)
    made = _numbers("rfftfreq", count // 2 + 1, count, d, dtype, device) / (count * d)
    return finished("rfftfreq", made, requires_grad, out, layout)


def _count(name: str, n: int) -> int:
    count = as_int(f"{name}: n", n)
    if count < 1:
        raise ShapeError(f"{name}: n is {count}; it must be at least 1")
    return count


def _numbers(
    name: str, size: int, n: int, d: float, dtype: DTypeLike | None, device: DeviceLike
) -> Any:
    """Return 0, 1, ... as floats."""
    kind = default_dtype() if dtype is None else as_dtype(dtype)
    if not kind.is_float:
        raise DTypeError(f"{name}: dtype is {kind.name}; it must be a float dtype")
    return ops.arange_like(anchor(place_of(device)), (size,), 0, 1, kind)


def __dir__() -> list[str]:
    return sorted(__all__)
