"""Short-time Fourier transforms, and their inverses by overlap-add."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...base.dtype import int32
from ...base.errors import DomainError, DTypeError, ShapeError
from ...base.validation import as_int
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...dispatch.replayable import replayable
from ..elementwise.binary import add, div, mul
from ..elementwise.complex_numbers import pairs_of
from ..elementwise.unary import abs, square
from ..indexing.scatter import index_add
from ..indexing.scatter import unfold as windows_of
from ..movement.rearrange import pad
from ..movement.slice import narrow
from ..reduce.minmax import amin
from ..source import arange_like, fill_like
from ..view import expand, flatten, reshape, transpose
from .transforms import fft, ifft, irfft, resized, rfft

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

LEAST_ENVELOPE = 1e-11
"""Sum of squared windows below which there is nothing to divide by."""


def _framing(
    name: str,
    x: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
) -> tuple[int, int, Tensor]:
    """Return the length of frames, the step between them, and the window of a frame."""
    size = as_int(f"{name}: n_fft", n_fft)
    hop = size // 4 if hop_length is None else as_int(f"{name}: hop_length", hop_length)
    width = size if win_length is None else as_int(f"{name}: win_length", win_length)
    if size < 1 or hop < 1 or not 0 < width <= size:
        raise ShapeError(
            f"{name}: n_fft is {size}, hop_length {hop}, win_length {width}; all must"
            " be at least 1, and win_length at most n_fft"
        )
    if window is None:
        window = fill_like(x, (width,), 1, x.dtype.to_real())
    if tuple(window.shape) != (width,):
        raise ShapeError(
            f"{name}: window is {tuple(window.shape)}; it must be ({width},)"
        )
    left = (size - width) // 2
    return size, hop, pad(window, (left, size - width - left))


@autocast_float32_on_host
@replayable
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Return the short-time Fourier transform: that of windows along a signal.

    Parameters
    ----------
    input : Tensor, shape (time,) or (batch, time)
        Real or complex.
    n_fft : int
        Length of a transform.
    hop_length : int or None
        From one window to the next; None means n_fft // 4.
    win_length : int or None
        Length of the window, in the middle of a transform's numbers; None means n_fft.
    window : Tensor, shape (win_length,), or None
        None means ones.
    center : bool, default True
        Whether windows are around their places: the signal is padded at both ends.
    pad_mode : str, default "reflect"
        How; see `nn.functional.pad`.
    normalized : bool, default False
        Whether to divide by the root of n_fft.
    onesided : bool or None
        Whether to return half a transform; None means so for real numbers.
    return_complex : bool
        False returns real and imaginary parts in a last dimension. It must be given for
        a real signal.
    align_to_window : bool or None
        True is not supported.

    Returns
    -------
    Tensor, shape (frequencies, windows) or (batch, frequencies, windows)

    Raises
    ------
    ShapeError
        If lengths do not fit.
    ValueError
        If `return_complex` is not given for a real signal.
    """
    if align_to_window:
        raise NotImplementedError("stft: align_to_window is True; it is not supported")
    real = not input.dtype.is_complex and (
        window is None or not window.dtype.is_complex
    )
    if return_complex is None:
        if real:
            raise ValueError(
                "stft: return_complex is not given for a real signal; give True"
            )
        return_complex = True
    if not isinstance(return_complex, bool | int):
        raise TypeError(
            f"stft: return_complex is {return_complex!r}; it must be a bool"
        )
    if input.ndim not in (1, 2):
        raise ShapeError(
            f"stft: the signal is {tuple(input.shape)}; it must be (time,) or (batch,"
            " time)"
        )
    if onesided and not real:
        raise DTypeError("stft: onesided is True; it must be False for complex numbers")
    size, hop, weights = _framing("stft", input, n_fft, hop_length, win_length, window)
    x = input if input.ndim == 2 else reshape(input, (1, -1))
    if center:
        x = pad(x, (size // 2, size // 2), pad_mode)
    if x.shape[1] < size:
        raise ShapeError(
            f"stft: the signal has {x.shape[1]} numbers; n_fft = {size} must not be"
            " more"
        )
    frames = mul(windows_of(x, 1, size, hop), weights)
    norm = "ortho" if normalized else None
    half = real if onesided is None else onesided
    made = transpose((rfft if half else fft)(frames, norm=norm), 1, 2)
    made = made if input.ndim == 2 else reshape(made, tuple(made.shape[1:]))
    return made if return_complex else pairs_of(made)


@replayable
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Return the signal of a short-time Fourier transform, by overlap-add.

    Parameters
    ----------
    input : Tensor, shape (frequencies, windows) or (batch, frequencies, windows)
        Complex.
    n_fft, hop_length, win_length, window, center, normalized, onesided
        As in `stft`.
    length : int or None
        Of the signal, cut off or followed by zeros; None means what windows tell.
    return_complex : bool, default False
        Whether the signal is complex.

    Returns
    -------
    Tensor, shape (time,) or (batch, time)

    Raises
    ------
    DTypeError
        If `input` is not complex.
    ShapeError
        If sizes do not fit.
    DomainError
        If windows leave a gap. On a device a gap is NaN or an infinity.
    """
    if not input.dtype.is_complex:
        raise DTypeError(
            f"istft: the transform is {input.dtype.name}; it must be complex; see"
            " view_as_complex"
        )
    if input.ndim not in (2, 3) or 0 in input.shape:
        raise ShapeError(
            f"istft: the transform is {tuple(input.shape)}; it must be (frequencies,"
            " windows) or (batch, frequencies, windows), and not empty"
        )
    size, hop, weights = _framing("istft", input, n_fft, hop_length, win_length, window)
    if hop > (n_fft if win_length is None else win_length):
        raise ShapeError(f"istft: hop_length is {hop}; it must be at most win_length")
    x = input if input.ndim == 3 else reshape(input, (1, *input.shape))
    whole = x.shape[1] == size and size > 1
    half = (not return_complex and not whole) if onesided is None else onesided
    bins = size // 2 + 1 if half else size
    if x.shape[1] != bins or (half and return_complex):
        raise ShapeError(
            f"istft: there are {x.shape[1]} frequencies; for n_fft = {size} and"
            f" onesided {half} there must be {bins}, and onesided be False for complex"
            " signals"
        )
    norm = "ortho" if normalized else None
    frames = transpose(x, 1, 2)
    if return_complex:
        parts = ifft(frames, norm=norm)
    else:
        # The upper half is taken to be the lower one's conjugate, as in PyTorch.
        parts = irfft(narrow(frames, 2, 0, size // 2 + 1), size, norm=norm)
    signal = _overlapped(mul(parts, weights), hop)
    count = x.shape[2]
    squares = expand(square(weights), (1, count, size))
    envelope = _overlapped(squares, hop)
    full = size + hop * (count - 1)
    start = size // 2 if center else 0
    end = full - size // 2 if center else full
    if length is not None:
        end = start + as_int("istft: length", length)
    stop = min(end, full)
    signal = narrow(signal, 1, start, stop - start)
    envelope = narrow(envelope, 1, start, stop - start)
    if input.is_cpu and envelope.numel():
        least = float(amin(abs(envelope.detach())).item())
        if not least > LEAST_ENVELOPE:
            raise DomainError(
                f"istft: windows leave a gap: the least sum of their squares is"
                f" {least}; it must be above 1e-11; give another window or a"
                " smaller hop_length"
            )
    made = resized(div(signal, envelope), 1, end - start)
    return made if input.ndim == 3 else reshape(made, (math.prod(made.shape),))


def _overlapped(frames: Tensor, hop: int) -> Tensor:
    """Return the sums (batch, time) of frames (batch, count, size) `hop` apart."""
    batch, count, size = frames.shape
    starts = arange_like(frames, (count, 1), 0, hop, int32)
    places = flatten(add(starts, arange_like(frames, (size,), 0, 1, int32)))
    zeros = fill_like(frames, (batch, size + hop * (count - 1)), 0, frames.dtype)
    return index_add(zeros, 1, places, reshape(frames, (batch, count * size)))
