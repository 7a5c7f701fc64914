"""Filter tables of resampling: the taps of each result along a dimension.

A rule yields `Taps`. Taps of neighbouring results advance monotonically, so the results
that use one element are adjacent too, and the transpose, which is the gradient, has the
same form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...ir.lazy_graph import EXACT_TYPES


class Taps(NamedTuple):
    """Resampling rule: the weighted sums that make up a dimension.

    Attributes
    ----------
    first : numpy.ndarray, shape (out,)
        The first element that each result is made of.
    counts : numpy.ndarray, shape (out,)
        How many elements it is made of.
    weights : numpy.ndarray, shape (out, most)
        Their weights, float64; 0 from there on.
    """

    first: np.ndarray
    counts: np.ndarray
    weights: np.ndarray

    def transposed(self, size: int) -> Taps:
        """Return the taps from the `size` elements back to the results."""
        used = np.arange(self.weights.shape[1]) < self.counts[:, None]
        result, tap = np.nonzero(used)
        element = self.first[result] + tap
        first = np.full(size, len(self.first))
        last = np.full(size, -1)
        np.minimum.at(first, element, result)
        np.maximum.at(last, element, result)
        count = np.maximum(last - first + 1, 0)
        first = np.where(count > 0, first, 0)
        weights = np.zeros((size, max(1, count.max(initial=0))))
        np.add.at(
            weights, (element, result - first[element]), self.weights[result, tap]
        )
        return Taps(first, count, weights)

    def table(self) -> np.ndarray:
        """Return rows of first, count and weights."""
        return np.column_stack([self.first, self.counts, self.weights])


def _clipped(places: np.ndarray, weights: np.ndarray, size: int) -> Taps:
    """Return taps at neighbouring places; those outside move to the nearest element."""
    inside = np.clip(places, 0, size - 1)
    first = inside[:, 0]
    summed = np.zeros(weights.shape)
    rows = np.arange(len(places))[:, None]
    np.add.at(summed, (rows, inside - first[:, None]), weights)
    return Taps(first, inside[:, -1] - first + 1, summed)


def _averaged(first: np.ndarray, end: np.ndarray, divisor: np.ndarray) -> Taps:
    """Return taps of equal weights from `first` to before `end`."""
    count = end - first
    used = np.arange(max(1, count.max(initial=0))) < count[:, None]
    return Taps(first, count, used / np.maximum(divisor, 1)[:, None])


def _keys(distances: np.ndarray, a: float) -> np.ndarray:
    """Return the cubic convolution's weights of elements up to two places away."""
    near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
    far = ((a * distances - 5 * a) * distances + 8 * a) * distances - 4 * a
    return np.where(distances <= 1, near, np.where(distances < 2, far, 0))


@dataclass(frozen=True)
class Averages:
    """Box filter: means, or sums, over a strided window.

    Parameters
    ----------
    size, out : int
        Elements before and after.
    kernel, stride, padding : int
        Of the window.
    divide_by : str
        "inside", the elements of the window that exist; "padded", those in the padding
        too; or "nothing".
    """

    size: int
    out: int
    kernel: int
    stride: int
    padding: int
    divide_by: str

    def taps(self) -> Taps:
        """Return the taps of each result."""
        start, end = self._windows()
        first, last = np.maximum(start, 0), np.minimum(end, self.size)
        return _averaged(first, last, self.counts())

    def counts(self) -> np.ndarray:
        """Return what each sum is divided by."""
        start, end = self._windows()
        if self.divide_by == "nothing":
            return np.ones(self.out, np.int64)
        if self.divide_by == "padded":
            return end - start
        return np.minimum(end, self.size) - np.maximum(start, 0)

    def _windows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return where windows begin and end."""
        start = np.arange(self.out) * self.stride - self.padding
        return start, np.minimum(start + self.kernel, self.size + self.padding)


@dataclass(frozen=True)
class Shares:
    """Adaptive box filter: means over even parts, which may overlap by one element."""

    size: int
    out: int

    def taps(self) -> Taps:
        """Return the taps of each result."""
        start = np.arange(self.out) * self.size // self.out
        end = -(-(np.arange(self.out) + 1) * self.size // self.out)
        return _averaged(start, end, end - start)


@dataclass(frozen=True)
class Nearest:
    """Nearest-neighbour interpolation.

    Parameters
    ----------
    size, out : int
        Elements before and after.
    step : float
        Distance of results in elements.
    centred : bool
        Whether a result is taken at its middle, not at its start.
    """

    size: int
    out: int
    step: float
    centred: bool

    def places(self) -> np.ndarray:
        """Return the element of each result; PyTorch rounds places in float32 too."""
        shift = np.float32(0.5 if self.centred else 0)
        at = (np.arange(self.out, dtype=np.float32) + shift) * np.float32(self.step)
        places: np.ndarray = np.minimum(np.floor(at).astype(np.int64), self.size - 1)
        return places


@dataclass(frozen=True)
class Linear:
    """Linear interpolation between neighbours.

    Parameters
    ----------
    size, out : int
        Elements before and after.
    step : float
        Distance of results in elements.
    aligned : bool
        Whether the middles of the outermost elements, not their ends, stay in place.
    """

    size: int
    out: int
    step: float
    aligned: bool

    def places(self) -> np.ndarray:
        """Return where each result lies, counted in elements from the first middle."""
        numbers = np.arange(self.out)
        if self.aligned:
            return numbers * self.step
        return (numbers + 0.5) * self.step - 0.5

    def taps(self) -> Taps:
        """Return the taps of each result."""
        at = np.maximum(self.places(), 0)
        first = np.minimum(np.floor(at), self.size - 1).astype(np.int64)
        part = np.clip(at - first, 0, 1)
        weights = np.column_stack([1 - part, part])
        return _clipped(first[:, None] + np.arange(2), weights, self.size)


@dataclass(frozen=True)
class Cubic(Linear):
    """Cubic convolution over four neighbours.

    Source: Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981,
    with a = -3/4 as in PyTorch.
    """

    def taps(self) -> Taps:
        """Return the taps of each result."""
        at = self.places()
        first = np.floor(at).astype(np.int64)
        part = at - first
        distances = np.column_stack([part + 1, part, 1 - part, 2 - part])
        weights = _keys(distances, -0.75)
        return _clipped(first[:, None] + np.arange(-1, 3), weights, self.size)


@dataclass(frozen=True)
class Smoothed:
    """Antialiased triangle or cubic filter, widened by the scale when downsampling.

    Source: PyTorch's `antialias=True`, after Pillow's `resize`; the cubic is Keys's
    with a = -1/2.

    Parameters
    ----------
    size, out : int
        Elements before and after.
    step : float
        Distance of results in elements.
    cubic : bool
        Which of the two.
    """

    size: int
    out: int
    step: float
    cubic: bool

    def taps(self) -> Taps:
        """Return the taps of each result."""
        wide = max(self.step, 1.0)
        reach = wide * (2 if self.cubic else 1)
        centre = (np.arange(self.out) + 0.5) * self.step
        first = np.maximum((centre - reach + 0.5).astype(np.int64), 0)
        end = np.minimum((centre + reach + 0.5).astype(np.int64), self.size)
        count = end - first
        number = np.arange(max(1, count.max(initial=0)))
        places = first[:, None] + number + 0.5
        distances = np.abs(places - centre[:, None]) / wide
        weights = _keys(distances, -0.5) if self.cubic else 1 - distances
        weights = np.where(number < count[:, None], weights, 0)
        if not self.cubic:
            weights = np.maximum(weights, 0)
        return Taps(first, count, weights / weights.sum(1, keepdims=True))


Rule = Averages | Shares | Linear | Smoothed

EXACT_TYPES.update({Averages, Shares, Nearest, Linear, Cubic, Smoothed})
