"""Discrete Fourier transforms along dimensions, of complex and real numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...autograd.tape import show_as, shown_node
from ...base.dtype import bfloat16, default_dtype, float16
from ...base.errors import DTypeError, ShapeError
from ...base.shape import normalize_dim
from ...base.validation import as_int, as_int_or_ints
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...dispatch.replayable import replayable
from ..elementwise.binary import mul
from ..elementwise.cast import cast
from ..movement.rearrange import pad, roll
from ..movement.slice import narrow
from ..view import movedim
from .half import half_transform, real_numbers
from .rows import along

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

Dims = int | Sequence[int] | None

_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward"}
"""Normalisation of the transform the other way."""


def _scale(name: str, norm: str | None, n: int, inverse: bool) -> float:
    """Return the factor of a transform of `n` numbers."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ShapeError(
            f'{name}: norm is {norm!r}; it must be "backward", "ortho", "forward" or'
            " None"
        )
    if norm == "ortho":
        return 1.0 / math.sqrt(n)
    return 1.0 / n if inverse is (norm != "forward") else 1.0


def _accepted(name: str, x: Tensor) -> Tensor:
    """Return a tensor as floats or complex numbers; integers in the default dtype."""
    if x.dtype in (float16, bfloat16):
        raise DTypeError(
            f"{name}: the tensor is {x.dtype.name}; it must be float32, float64 or"
            " complex, or of integers; call x.float() first"
        )
    return x if x.dtype.is_differentiable else cast(x, default_dtype())


def _as_complex(name: str, x: Tensor) -> Tensor:
    return _complex_of(_accepted(name, x))


def _complex_of(x: Tensor) -> Tensor:
    return x if x.dtype.is_complex else cast(x, x.dtype.to_complex())


def _as_real(name: str, x: Tensor) -> Tensor:
    if x.dtype.is_complex:
        raise DTypeError(
            f"{name}: the tensor is {x.dtype.name}; it must be real; use fft for"
            " complex numbers"
        )
    return _accepted(name, x)


def _length(name: str, n: int) -> int:
    if n < 1:
        raise ShapeError(f"{name}: {n} numbers are asked for; there must be at least 1")
    return n


def resized(x: Tensor, dim: int, size: int) -> Tensor:
    """Return a tensor cut off, or padded with zeros, to a size of a dimension."""
    now = x.shape[dim]
    if now > size:
        return narrow(x, dim, 0, size)
    widths = (0, 0) * (x.ndim - 1 - dim) + (0, size - now)
    return pad(x, widths) if now < size else x


@replayable
def _complex_1d(
    name: str, x: Tensor, n: int | None, dim: int, norm: str | None, inverse: bool
) -> Tensor:
    x = _accepted(name, x)
    at = normalize_dim(name, dim, x.ndim)
    size = _length(name, x.shape[at] if n is None else as_int(f"{name}: n", n))
    x, scale = resized(x, at, size), _scale(name, norm, size, inverse)
    made = along(x, at, inverse, scale)
    if x.dtype.is_complex or not inverse:
        show_as(made, _node(x), x)
    return made


def _node(input: Tensor, n: object = None, *_: object, **options: object) -> str:
    """Return PyTorch's name of the node of a transform that changes no length."""
    if (n, options.get("n"), options.get("s")) != (None, None, None):
        return ""
    return "FftC2CBackward0" if input.dtype.is_complex else "FftR2CBackward0"


def _complex_node(input: Tensor, *sizes: object, **options: object) -> str:
    """Return the name where real numbers are made complex first, "" for those."""
    return _node(input, *sizes, **options) if input.dtype.is_complex else ""


def _real_node(input: Tensor, n: object = None, *_: object, **options: object) -> str:
    """Return the name where the result is real."""
    return "FftC2RBackward0" if _complex_node(input, n, **options) else ""


@autocast_float32_on_host
def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
) -> Tensor:
    """Return the discrete Fourier transform along a dimension.

    Parameters
    ----------
    input : Tensor
        Complex, float32 or float64; integers are taken in the default dtype.
    n : int or None
        Length: the numbers are cut off there, or followed by zeros.
    dim : int, default -1
    norm : {"backward", "ortho", "forward"} or None
        Which way is divided by the length; None means "backward": the inverse.
        "ortho" divides both by its root.

    Returns
    -------
    Tensor, complex
        Number k is the sum of x[j] exp(-2 pi i j k / n).

    Raises
    ------
    ShapeError
        If the length is below 1, or there is no such dimension.
    DTypeError
        If `input` is float16 or bfloat16.
    """
    return _complex_1d("fft", input, n, dim, norm, False)


@autocast_float32_on_host
def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
) -> Tensor:
    """Return the inverse discrete Fourier transform along a dimension.

    Parameters
    ----------
    input, n, dim, norm
        As in `fft`, and its errors.

    Returns
    -------
    Tensor, complex
        Number j is the sum of x[k] exp(2 pi i j k / n), by n with None and "backward".
    """
    return _complex_1d("ifft", input, n, dim, norm, True)


@autocast_float32_on_host
def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
) -> Tensor:
    """Return the first half of the Fourier transform of real numbers along a dimension.

    Parameters
    ----------
    input : Tensor, float32 or float64
        Integers are taken in the default dtype.
    n, dim, norm
        As in `fft`.

    Returns
    -------
    Tensor, complex
        The first n // 2 + 1 numbers; the others are their conjugates.

    Raises
    ------
    ShapeError
        If the length is below 1, or there is no such dimension.
    DTypeError
        If `input` is float16 or bfloat16 or complex.
    """
    return _real_1d("rfft", input, n, dim, norm, False)


@replayable
def _real_1d(
    name: str,
    input: Tensor,
    n: int | None,
    dim: int,
    norm: str | None,
    conjugated: bool,
) -> Tensor:
    x = _as_real(name, input)
    at = normalize_dim(name, dim, x.ndim)
    size = _length(name, x.shape[at] if n is None else as_int(f"{name}: n", n))
    scale = _scale(name, norm, size, False)
    x = resized(x, at, size)
    made = half_transform(movedim(x, at, -1), size, scale, conjugated)
    made = movedim(made, -1, at)
    if not conjugated:
        show_as(made, "FftR2CBackward0", x)
    return made


@autocast_float32_on_host
def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
) -> Tensor:
    """Return the real numbers whose transform begins as given; see `rfft`.

    Parameters
    ----------
    input : Tensor
        The first n // 2 + 1 numbers; the imaginary part of the first one, and of the
        last one if `n` is even, does not count.
    n : int or None
        How many real numbers; None means 2 (m - 1) for m given.
    dim, norm
        As in `fft`.
    """
    return _half_inverse("irfft", input, n, dim, norm)


@replayable
def _half_inverse(
    name: str,
    input: Tensor,
    n: int | None,
    dim: int,
    norm: str | None,
    conjugated: bool = False,
) -> Tensor:
    x = _as_complex(name, input)
    at = normalize_dim(name, dim, x.ndim)
    size = 2 * (x.shape[at] - 1) if n is None else as_int(f"{name}: n", n)
    size = _length(name, size)
    scale = _scale(name, norm, size, True)
    x = resized(x, at, size // 2 + 1)
    made = real_numbers(movedim(x, at, -1), size, scale, conjugated)
    made = movedim(made, -1, at)
    show_as(made, "FftC2RBackward0", x)
    return made


@autocast_float32_on_host
def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
) -> Tensor:
    """Return the real Fourier transform of numbers whose other half are conjugates.

    Parameters
    ----------
    input : Tensor
        The first n // 2 + 1 numbers.
    n : int or None
        The number of results; None means 2 (m - 1) for m numbers given.
    dim, norm
        As in `fft`, and its errors.

    Returns
    -------
    Tensor, float
    """
    swapped = _SWAPPED.get(norm, norm)
    return _half_inverse("hfft", input, n, dim, swapped, True)


@autocast_float32_on_host
def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None
) -> Tensor:
    """Return the first half of the inverse Fourier transform of real numbers.

    Parameters
    ----------
    input, n, dim, norm
        As in `rfft`, and its errors.

    Returns
    -------
    Tensor, complex
        The first n // 2 + 1 numbers; the others are their conjugates.
    """
    return _real_1d("ihfft", input, n, dim, _SWAPPED.get(norm, norm), True)


def _sizes(
    name: str, x: Tensor, s: Dims, dim: Dims, *, halves: bool = False
) -> tuple[list[int], list[int]]:
    """Return dimensions and lengths; with `halves` the last one is of real numbers."""
    if dim is None:
        count = x.ndim if s is None else len(_listed(f"{name}: s", s))
        if count > x.ndim:
            raise ShapeError(
                f"{name}: s has {count} sizes; the tensor has {x.ndim} dimensions"
            )
        dims = list(range(x.ndim - count, x.ndim))
    else:
        given = _listed(f"{name}: dim", dim)
        dims = [normalize_dim(name, each, x.ndim) for each in given]
    if len(set(dims)) != len(dims):
        raise ShapeError(f"{name}: dim is {dim}; each may be given once")
    sizes = [-1] * len(dims) if s is None else _listed(f"{name}: s", s)
    if len(sizes) != len(dims):
        raise ShapeError(
            f"{name}: s has {len(sizes)} sizes and dim {len(dims)}; they must be as"
            " many"
        )
    whole = [x.shape[at] if n == -1 else n for n, at in zip(sizes, dims)]
    if halves and dims and sizes[-1] == -1:
        whole[-1] = 2 * (x.shape[dims[-1]] - 1)
    return dims, [_length(name, n) for n in whole]


def _listed(name: str, value: int | Sequence[int]) -> list[int]:
    found = as_int_or_ints(name, value)
    return [found] if isinstance(found, int) else list(found)


def _all_resized(x: Tensor, dims: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Return `x` cut off or padded with zeros along dimensions."""
    for at, size in zip(dims, sizes):
        x = resized(x, at, size)
    return x


def _resized_for_complex(
    x: Tensor, dims: Sequence[int], sizes: Sequence[int]
) -> Tensor:
    """Return `_all_resized` of what a complex transform reads.

    Real numbers that are on the tape are made complex before, as in PyTorch's graph.
    """
    changes = any(x.shape[at] != size for at, size in zip(dims, sizes))
    known = _complex_of(x) if changes and x.requires_grad else x
    return _all_resized(known, dims, sizes)


def _several(x: Tensor, dims: Sequence[int], scale: float, inverse: bool) -> Tensor:
    """Transform numbers along dimensions; the first one takes the factor."""
    for at in dims:
        x, scale = along(x, at, inverse, scale), 1.0
    return x


@replayable
def _complex_nd(
    name: str, x: Tensor, s: Dims, dim: Dims, norm: str | None, inverse: bool
) -> Tensor:
    x = _accepted(name, x)
    dims, sizes = _sizes(name, x, s, dim)
    scale = _scale(name, norm, math.prod(sizes), inverse)
    x = _resized_for_complex(x, dims, sizes)
    if not dims:
        return mul(_complex_of(x), scale)
    found = _several(x, dims, scale, inverse)
    _show_complex(found, "FftC2CBackward0", x)
    return found


def _show_complex(result: Tensor, name: str, x: Tensor) -> None:
    """Let the graph show a node of numbers that PyTorch makes complex before."""
    copied: Any = x if x.dtype.is_complex else shown_node("ToCopyBackward0", x)
    show_as(result, name, copied)


@autocast_float32_on_host
def fftn(
    input: Tensor, s: Dims = None, dim: Dims = None, norm: str | None = None
) -> Tensor:
    """Return the discrete Fourier transform along several dimensions.

    Parameters
    ----------
    input : Tensor
        Complex, float32 or float64; integers are taken in the default dtype.
    s : int, sequence of int or None
        Lengths along the dimensions: the numbers are cut off there, or followed by
        zeros. -1 and None keep the size.
    dim : int, sequence of int or None
        None means as many of the last dimensions as `s` has lengths, or all.
    norm : {"backward", "ortho", "forward"} or None
        As in `fft`, by the number of elements.

    Returns
    -------
    Tensor, complex

    Raises
    ------
    ShapeError
        If a length is below 1, a dimension is given twice, or `s` and `dim` differ in
        number.
    DTypeError
        If `input` is float16 or bfloat16.
    """
    return _complex_nd("fftn", input, s, dim, norm, False)


@autocast_float32_on_host
def ifftn(
    input: Tensor, s: Dims = None, dim: Dims = None, norm: str | None = None
) -> Tensor:
    """Return the inverse discrete Fourier transform along several dimensions.

    Parameters
    ----------
    input, s, dim, norm
        As in `fftn`, and its errors.

    Returns
    -------
    Tensor, complex
    """
    return _complex_nd("ifftn", input, s, dim, norm, True)


@autocast_float32_on_host
def rfftn(
    input: Tensor, s: Dims = None, dim: Dims = None, norm: str | None = None
) -> Tensor:
    """Return the first half of the Fourier transform of real numbers, along dimensions.

    Parameters
    ----------
    input : Tensor, float32 or float64
        Integers are taken in the default dtype.
    s, dim, norm
        As in `fftn`, and its errors.

    Returns
    -------
    Tensor, complex
        Halved, to n // 2 + 1 numbers, along the last of `dim`.
    """
    return _real_nd("rfftn", input, s, dim, norm)


@replayable
def _real_nd(
    name: str,
    input: Tensor,
    s: Dims,
    dim: Dims,
    norm: str | None,
    conjugated: bool = False,
) -> Tensor:
    x = _as_real(name, input)
    dims, sizes = _sizes(name, x, s, dim)
    if not dims:
        raise ShapeError(f"{name}: there is no dimension; there must be at least one")
    scale = _scale(name, norm, math.prod(sizes), False)
    x = _all_resized(x, dims, sizes)
    last = movedim(x, dims[-1], -1)
    made = half_transform(last, sizes[-1], scale, conjugated)
    found = _several(movedim(made, -1, dims[-1]), dims[:-1], 1.0, conjugated)
    if not conjugated:
        show_as(found, "FftR2CBackward0", x)
    return found


@autocast_float32_on_host
def irfftn(
    input: Tensor, s: Dims = None, dim: Dims = None, norm: str | None = None
) -> Tensor:
    """Return the real numbers whose transform along dimensions is given by half.

    Parameters
    ----------
    input : Tensor
        As `rfftn` gives it.
    s, dim, norm
        As in `fftn`, and its errors; but of the last of `dim`, -1 and None mean 2 (m -
        1) real numbers for m given.

    Returns
    -------
    Tensor, float
    """
    return _half_nd("irfftn", input, s, dim, norm)


@replayable
def _half_nd(
    name: str,
    input: Tensor,
    s: Dims,
    dim: Dims,
    norm: str | None,
    conjugated: bool = False,
) -> Tensor:
    x = _accepted(name, input)
    dims, sizes = _sizes(name, x, s, dim, halves=True)
    if not dims:
        raise ShapeError(f"{name}: there is no dimension; there must be at least one")
    scale = _scale(name, norm, math.prod(sizes), True)
    x = _resized_for_complex(x, dims, [*sizes[:-1], sizes[-1] // 2 + 1])
    half = _complex_of(_several(x, dims[:-1], 1.0, not conjugated))
    half = movedim(half, dims[-1], -1)
    found = movedim(real_numbers(half, sizes[-1], scale, conjugated), -1, dims[-1])
    _show_complex(found, "FftC2RBackward0", x)
    return found


def hfftn(
    input: Tensor, s: Dims = None, dim: Dims = None, norm: str | None = None
) -> Tensor:
    """Return the real Fourier transform of numbers given by half, along dimensions.

    Parameters
    ----------
    input, s, dim, norm
        As in `irfftn`, and its errors.

    Returns
    -------
    Tensor, float
    """
    return _half_nd("hfftn", input, s, dim, _SWAPPED.get(norm, norm), True)


def ihfftn(
    input: Tensor, s: Dims = None, dim: Dims = None, norm: str | None = None
) -> Tensor:
    """Return the first half of the inverse transform of real numbers, along dimensions.

    Parameters
    ----------
    input, s, dim, norm
        As in `rfftn`, and its errors.

    Returns
    -------
    Tensor, complex
        Halved, to n // 2 + 1 numbers, along the last of `dim`.
    """
    return _real_nd("ihfftn", input, s, dim, _SWAPPED.get(norm, norm), True)


@autocast_float32_on_host
def fft2(
    input: Tensor, s: Dims = None, dim: Dims = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return the discrete Fourier transform, in two dimensions.

    Parameters
    ----------
    input, s, norm
        As in `fftn`, and its errors.
    dim : int, sequence of int or None, default (-2, -1)
    """
    return _complex_nd("fft2", input, s, dim, norm, False)


@autocast_float32_on_host
def ifft2(
    input: Tensor, s: Dims = None, dim: Dims = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return the inverse discrete Fourier transform, in two dimensions.

    Parameters
    ----------
    input, s, norm
        As in `ifftn`, and its errors.
    dim : int, sequence of int or None, default (-2, -1)
    """
    return _complex_nd("ifft2", input, s, dim, norm, True)


@autocast_float32_on_host
def rfft2(
    input: Tensor, s: Dims = None, dim: Dims = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return half of the Fourier transform of real numbers, in two dimensions.

    Parameters
    ----------
    input, s, norm
        As in `rfftn`, and its errors.
    dim : int, sequence of int or None, default (-2, -1)
    """
    return _real_nd("rfft2", input, s, dim, norm)


@autocast_float32_on_host
def irfft2(
    input: Tensor, s: Dims = None, dim: Dims = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return the real numbers whose transform is given by half, in two dimensions.

    Parameters
    ----------
    input, s, norm
        As in `irfftn`, and its errors.
    dim : int, sequence of int or None, default (-2, -1)
    """
    return _half_nd("irfft2", input, s, dim, norm)


def hfft2(
    input: Tensor, s: Dims = None, dim: Dims = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return the real Fourier transform of numbers given by half, in two dimensions.

    Parameters
    ----------
    input, s, norm
        As in `hfftn`, and its errors.
    dim : int, sequence of int or None, default (-2, -1)
    """
    return _half_nd("hfft2", input, s, dim, _SWAPPED.get(norm, norm), True)


def ihfft2(
    input: Tensor, s: Dims = None, dim: Dims = (-2, -1), norm: str | None = None
) -> Tensor:
    """Return half of the inverse Fourier transform of real numbers, in two dimensions.

    Parameters
    ----------
    input, s, norm
        As in `ihfftn`, and its errors.
    dim : int, sequence of int or None, default (-2, -1)
    """
    return _real_nd("ihfft2", input, s, dim, _SWAPPED.get(norm, norm), True)


def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Return the numbers rolled so that frequency 0 is in the middle.

    Parameters
    ----------
    input : Tensor
    dim : int, sequence of int or None
        Along which dimensions; None means all.
    """
    return _shifted(input, dim, 0)


def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Return the numbers rolled so that frequency 0 is first; undoes `fftshift`.

    Parameters
    ----------
    input : Tensor
    dim : int, sequence of int or None
        Along which dimensions; None means all.
    """
    return _shifted(input, dim, 1)


def _shifted(x: Tensor, dim: Dims, up: int) -> Tensor:
    given = range(x.ndim) if dim is None else _listed("fftshift: dim", dim)
    dims = [normalize_dim("fftshift", each, x.ndim) for each in given]
    return roll(x, tuple((x.shape[at] + up) // 2 for at in dims), tuple(dims))
