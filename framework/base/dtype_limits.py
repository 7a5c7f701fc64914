"""Numeric limits of dtypes, as NumPy and PyTorch have them."""

from __future__ import annotations

import math

import numpy as np

from .dtype import DTypeLike, as_dtype, bfloat16, default_dtype
from .float8 import FORMATS, decode_float8

_BFLOAT16 = {
    "bits": 16,
    "eps": 2.0**-7,
    "max": (2 - 2.0**-7) * 2.0**127,
    "tiny": 2.0**-126,
    "smallest_subnormal": 2.0**-133,
}


def _of_float8(name: str) -> dict[str, float]:
    """Return the limits of an 8-bit float."""
    form = FORMATS[name]
    tiny = 2.0 ** (1 - form.bias)
    largest = decode_float8(np.array(form.largest), name)
    return {
        "bits": 8,
        # As PyTorch has it, of both formats without a negative zero.
        "eps": 2.0 ** -(form.mantissa if form.signed_zero else 3),
        "max": float(largest),
        "tiny": tiny,
        "smallest_subnormal": tiny * 2.0**-form.mantissa,
    }


class finfo:  # noqa: N801 - PyTorch's name
    """Limits of a float dtype.

    Parameters
    ----------
    type : DType, str or None
        None means the default dtype.

    Attributes
    ----------
    bits : int
        Size of a number in bits.
    eps : float
        Distance from 1 to the next number.
    max, min : float
        Largest number, and the lowest.
    tiny, smallest_normal : float
        Smallest normal number above 0.
    resolution : float
        Decimal resolution.
    dtype : str
        Name of the dtype.

    Raises
    ------
    TypeError
        If the dtype is neither a float nor a complex one.

    Examples
    --------
    >>> finfo(fw.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: DTypeLike | None = None) -> None:
        dtype = default_dtype() if type is None else as_dtype(type)
        dtype = dtype.to_real()
        if not dtype.is_float:
            raise TypeError(f"finfo: {dtype.name} is no float dtype; use iinfo")
        self.dtype = dtype.name
        if dtype is bfloat16:
            found = _BFLOAT16
        elif dtype.name in FORMATS:
            found = _of_float8(dtype.name)
        else:
            info = np.finfo(dtype.numpy)
            found = {name: getattr(info, name) for name in _BFLOAT16}
        self.bits = int(found["bits"])
        self.eps = float(found["eps"])
        self.max = float(found["max"])
        self.min = -self.max
        self.tiny = self.smallest_normal = float(found["tiny"])
        self.resolution = 10.0 ** math.ceil(math.log10(self.eps))

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g},"
            f" eps={self.eps:g}, smallest_normal={self.tiny:g}, tiny={self.tiny:g},"
            f" dtype={self.dtype})"
        )


class iinfo:  # noqa: N801 - PyTorch's name
    """Limits of an integer dtype.

    Parameters
    ----------
    type : DType or str

    Attributes
    ----------
    bits : int
        Size of a number in bits.
    max, min : int
        Largest number, and the lowest.
    dtype : str
        Name of the dtype.

    Raises
    ------
    TypeError
        If the dtype is not an integer one.

    Examples
    --------
    >>> iinfo(fw.int8).min
    -128
    """

    def __init__(self, type: DTypeLike) -> None:
        dtype = as_dtype(type)
        if dtype.kind not in ("int", "uint"):
            raise TypeError(f"iinfo: {dtype.name} is no integer dtype; use finfo")
        self.dtype = dtype.name
        self.bits = 8 * dtype.itemsize
        self.min, self.max = dtype.limits

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
