"""Windows of signal processing, and indices of triangles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtype import INTEGER, DTypeLike, as_dtype, float32, int64
from ..base.errors import DTypeError, ShapeError
from ..base.validation import as_int
from .factories import DeviceLike
from .from_data import tensor
from .tensor import Tensor


def _window(
    name: str,
    length: int,
    periodic: bool,
    shape: Callable[[np.ndarray], np.ndarray],
    dtype: DTypeLike | None,
    device: DeviceLike,
    requires_grad: bool,
) -> Tensor:
    """Return a window over places from 0 to 1, the last left out if periodic."""
    length = as_int(f"{name}: window_length", length)
    kind = float32 if dtype is None else as_dtype(dtype)
    if length < 0:
        raise ShapeError(f"{name}: window_length is {length}; it must be at least 0")
    if not kind.is_float:
        raise DTypeError(f"{name}: dtype is {kind.name}; it must be a float dtype")
    if length == 1:
        values = np.ones(1)
    else:
        count = length if periodic else length - 1
        values = shape(np.arange(length) / max(count, 1))
    return tensor(values.astype(kind.numpy), kind, device, requires_grad)


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DTypeLike | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a triangle from 0 over 1 to 0, as a window.

    Parameters
    ----------
    window_length : int
        One gives 1, none no elements.
    periodic : bool, default True
        Whether one place more is made and the last left out, for a Fourier transform;
        otherwise both ends belong to the window.
    dtype : DType, str or None
        A float one; None means float32.
    device, requires_grad
        As in `full`.
    layout, pin_memory
        Without effect.

    Raises
    ------
    ShapeError
        If the length is below 0.
    DTypeError
        If the dtype is not a float one.
    """
    return _window(
        "bartlett_window", window_length, periodic,
        lambda t: 1 - np.abs(2 * t - 1), dtype, device, requires_grad,
    )  # fmt: skip


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DTypeLike | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a window of 0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t), t from 0 to 1.

    Parameters
    ----------
    window_length : int
        One gives 1, none no elements.
    periodic : bool, default True
        Whether one place more is made and the last left out, for a Fourier transform;
        otherwise both ends belong to the window.
    dtype : DType, str or None
        A float one; None means float32.
    device, requires_grad
        As in `full`.
    layout, pin_memory
        Without effect.

    Raises
    ------
    ShapeError
        If the length is below 0.
    DTypeError
        If the dtype is not a float one.
    """
    return _window(
        "blackman_window", window_length, periodic,
        lambda t: 0.42 - 0.5 * np.cos(2 * math.pi * t) + 0.08 * np.cos(4 * math.pi * t),
        dtype, device, requires_grad,
    )  # fmt: skip


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DTypeLike | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a window of alpha - beta cos(2 pi t), t from 0 to 1.

    Parameters
    ----------
    window_length : int
        One gives 1, none no elements.
    periodic : bool, default True
        Whether one place more is made and the last left out, for a Fourier transform;
        otherwise both ends belong to the window.
    alpha, beta : float, default 0.54, 0.46
    dtype : DType, str or None
        A float one; None means float32.
    device, requires_grad
        As in `full`.
    layout, pin_memory
        Without effect.

    Raises
    ------
    ShapeError
        If the length is below 0.
    DTypeError
        If the dtype is not a float one.
    """
    return _window(
        "hamming_window", window_length, periodic,
        lambda t: alpha - beta * np.cos(2 * math.pi * t), dtype, device, requires_grad,
    )  # fmt: skip


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DTypeLike | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a window of (1 - cos(2 pi t)) / 2, t from 0 to 1.

    Parameters
    ----------
    window_length : int
        One gives 1, none no elements.
    periodic : bool, default True
        Whether one place more is made and the last left out, for a Fourier transform;
        otherwise both ends belong to the window.
    dtype : DType, str or None
        A float one; None means float32.
    device, requires_grad
        As in `full`.
    layout, pin_memory
        Without effect.

    Raises
    ------
    ShapeError
        If the length is below 0.
    DTypeError
        If the dtype is not a float one.
    """
    return _window(
        "hann_window", window_length, periodic,
        lambda t: 0.5 - 0.5 * np.cos(2 * math.pi * t), dtype, device, requires_grad,
    )  # fmt: skip


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DTypeLike | None = None,
    layout: Any = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a window of I0(beta sqrt(1 - (2 t - 1)^2)) / I0(beta).

    t goes from 0 to 1; I0 is the modified Bessel function of order 0.

    Parameters
    ----------
    window_length : int
        One gives 1, none no elements.
    periodic : bool, default True
        Whether one place more is made and the last left out, for a Fourier transform;
        otherwise both ends belong to the window.
    beta : float, default 12
        The larger, the narrower.
    dtype : DType, str or None
        A float one; None means float32.
    device, requires_grad
        As in `full`.
    layout, pin_memory
        Without effect.

    Raises
    ------
    ShapeError
        If the length is below 0.
    DTypeError
        If the dtype is not a float one.
    """
    return _window(
        "kaiser_window", window_length, periodic,
        lambda t: np.i0(beta * np.sqrt(np.maximum(1 - (2 * t - 1) ** 2, 0)))
        / np.i0(beta),
        dtype, device, requires_grad,
    )  # fmt: skip


def _triangle(
    name: str, rows: int, columns: int, dtype: DTypeLike | None, device: DeviceLike,
    within: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Tensor:  # fmt: skip
    rows, columns = as_int(f"{name}: row", rows), as_int(f"{name}: col", columns)
    if rows < 0 or columns < 0:
        raise ShapeError(
            f"{name}: row is {rows}, col {columns}; neither may be below 0"
        )
    places = np.nonzero(within(np.arange(rows)[:, None], np.arange(columns)))
    kind = int64 if dtype is None else as_dtype(dtype)
    if kind not in INTEGER:
        raise DTypeError(f"{name}: dtype is {kind.name}; it must be an integer one")
    return tensor(np.stack(places).astype(kind.numpy), kind, device)


def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    layout: Any = None,
) -> Tensor:
    """Return the rows and columns of the elements of a matrix's lower triangle.

    Parameters
    ----------
    row, col : int
        Sizes of the matrix.
    offset : int, default 0
        The triangle is what is on and below this diagonal, above the main one if
        positive.
    dtype : DType, str or None
        None means int64.
    device : Device, str or None
        None means the default device.
    layout : layout or None
        Without effect.

    Returns
    -------
    Tensor, shape (2, count)
        In row-major order.

    Raises
    ------
    ShapeError
        If a size is below 0.
    DTypeError
        If the dtype is not an integer one.
    """
    return _triangle(
        "tril_indices", row, col, dtype, device, lambda i, j: j - i <= offset
    )


def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    layout: Any = None,
) -> Tensor:
    """Return the rows and columns of the elements of a matrix's upper triangle.

    Parameters
    ----------
    row, col : int
        Sizes of the matrix.
    offset : int, default 0
        The triangle is what is on and above this diagonal, above the main one if
        positive.
    dtype : DType, str or None
        None means int64.
    device : Device, str or None
        None means the default device.
    layout : layout or None
        Without effect.

    Returns
    -------
    Tensor, shape (2, count)
        In row-major order.

    Raises
    ------
    ShapeError
        If a size is below 0.
    """
    return _triangle(
        "triu_indices", row, col, dtype, device, lambda i, j: j - i >= offset
    )
