"""Max unpooling, power-average pooling and fractional max pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...autograd.tape import shown_as
from ...autograd.unbatched import unbatched_as
from ...base.dtype import float32, int64
from ...base.errors import ShapeError
from ...base.shape import Shape
from ...base.validation import as_int_or_ints
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...dispatch.replayable import replayable
from ...ops.elementwise.cast import need_float
from ...ops.pool.fractional import fractional_max_pool
from ...tensor.tensor import Tensor
from .pooling import (
    Found,
    Sizes,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)


def each_dim(name: str, value: int | Sequence[int], dims: int) -> Shape:
    """Return an argument as one whole number per dimension.

    Raises
    ------
    ShapeError
        If there are not as many.
    """
    given = as_int_or_ints(name, value)
    numbers = (given,) * dims if isinstance(given, int) else given
    if len(numbers) != dims:
        raise ShapeError(f"{name} is {value}; it must be one number or {dims}")
    return numbers


@unbatched_as("MaxUnpool2DBackward0", "input", dims=(2, 3), dim=-1)
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return signals with the maxima of `max_pool1d` put back, and 0 elsewhere.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or without batch, float
        Maxima; on a device also integers.
    indices : Tensor, shape of `input`, integer
        Where they were.
    kernel_size, stride, padding
        Of the pooling.
    output_size : sequence of int or None
        Size of the signals, or the whole shape; None is the smallest.

    Raises
    ------
    ShapeError
        If shapes or sizes do not fit.
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read.
    """
    window = (kernel_size, stride, padding)
    return _unpooled("max_unpool1d", 1, input, indices, window, output_size)


@autocast_float32_on_host
@shown_as("MaxUnpool2DBackward0", "input")
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return images with the maxima of `max_pool2d` put back, and 0 elsewhere.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or without batch
        Float. Maxima; on a device also integers.
    indices : Tensor, shape of `input`, integer
        Where they were.
    kernel_size, stride, padding
        Of the pooling.
    output_size : sequence of int or None
        Size of the images, or the whole shape; None is the smallest.

    Raises
    ------
    ShapeError
        If shapes or sizes do not fit.
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read.
    """
    window = (kernel_size, stride, padding)
    return _unpooled("max_unpool2d", 2, input, indices, window, output_size)


@autocast_float32_on_host
@shown_as("MaxUnpool3DBackward0", "input")
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Return volumes with the maxima of `max_pool3d` put back, and 0 elsewhere.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float. Maxima; on a device also integers.
    indices : Tensor, shape of `input`, integer
        Where they were.
    kernel_size, stride, padding
        Of the pooling.
    output_size : sequence of int or None
        Size of the volumes, or the whole shape; None is the smallest.

    Raises
    ------
    ShapeError
        If shapes or sizes do not fit.
    IndexRangeError
        If an index is out of range: on the host at once, on a device by the next read.
    """
    window = (kernel_size, stride, padding)
    return _unpooled("max_unpool3d", 3, input, indices, window, output_size)


@replayable
def _unpooled(
    name: str,
    dims: int,
    input: Tensor,
    indices: Tensor,
    window: tuple[Sizes, Sizes | None, Sizes],
    wanted: Sequence[int] | None,
) -> Tensor:
    # As in PyTorch, devices move integers too, and the host does not.
    if not input.is_gpu or input.dtype.kind not in ("int", "uint"):
        need_float(name, input=input)
    if (
        len(input.layout.shape) not in (dims + 1, dims + 2)
        or indices.layout.shape != input.layout.shape
    ):
        raise ShapeError(
            f"{name}: input is {tuple(input.shape)}, indices {tuple(indices.shape)};"
            " they must be the"
            f" same, of {dims + 2} dimensions, or {dims + 1} without a batch"
        )
    lead, size = input.layout.shape[:-dims], input.layout.shape[-dims:]
    whole = _unpooled_size(name, size, window, wanted)
    planes, places = (
        ops.reshape(each, (math.prod(lead), math.prod(size)))
        for each in (input, indices)
    )
    empty = ops.fill_like(
        input.detach(), (math.prod(lead), math.prod(whole)), 0, input.dtype
    )
    return ops.reshape(ops.scatter(empty, 1, places, planes), (*lead, *whole))


def _unpooled_size(
    name: str,
    size: Shape,
    window: tuple[Sizes, Sizes | None, Sizes],
    wanted: Sequence[int] | None,
) -> Shape:
    dims = len(size)
    kernel = each_dim(f"{name}: kernel_size", window[0], dims)
    steps = kernel
    if window[1] is not None:
        steps = each_dim(f"{name}: stride", window[1], dims)
    around = each_dim(f"{name}: padding", window[2], dims)
    least = tuple(
        (places - 1) * step + taps - 2 * pad
        for places, step, taps, pad in zip(size, steps, kernel, around)
    )
    if wanted is None:
        return least
    given = tuple(wanted)
    chosen = given[2:] if len(given) == dims + 2 else given
    if len(chosen) != dims or any(
        abs(new - old) >= step for new, old, step in zip(chosen, least, steps)
    ):
        raise ShapeError(
            f"{name}: output_size is {given}; it must be {least}, each number off by"
            f" less than the stride {steps}"
        )
    return chosen


_POOLS: dict[int, tuple[Callable[..., Tensor], Callable[..., Any]]] = {
    1: (avg_pool1d, max_pool1d),
    2: (avg_pool2d, max_pool2d),
    3: (avg_pool3d, max_pool3d),
}


@replayable
def _powers(
    name: str,
    dims: int,
    input: Tensor,
    norm_type: float,
    window: tuple[Sizes, Sizes | None, bool],
) -> Tensor:
    kernel_size, stride, ceil_mode = window
    mean, largest = _POOLS[dims]
    if math.isinf(norm_type):
        sign = 1.0 if norm_type > 0 else -1.0
        sizes = ops.abs(input) * sign
        found: Tensor = largest(sizes, kernel_size, stride, 0, 1, ceil_mode)
        return found * sign
    count = math.prod(each_dim(f"{name}: kernel_size", kernel_size, dims))
    means = mean(ops.pow(input, norm_type), kernel_size, stride, 0, ceil_mode)
    sums = ops.sign(means) * ops.relu(ops.abs(means)) * float(count)
    return ops.pow(sums, 1.0 / norm_type)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the p-th root of the sum of the p-th powers of each window of signals.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, length) or without batch, float
    norm_type : float
        The p; infinity gives the largest absolute value.
    kernel_size, stride, ceil_mode
        As in `avg_pool1d`.

    Notes
    -----
    As in PyTorch, powers keep their sign: an odd power of negative elements is
    negative, and a root of a negative sum NaN.
    """
    window = (kernel_size, stride, ceil_mode)
    return _powers("lp_pool1d", 1, input, norm_type, window)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the p-th root of the sum of the p-th powers of each window.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or without batch
        Float.
    norm_type : float
        The p; infinity gives the largest absolute value.
    kernel_size, stride, ceil_mode
        As in `avg_pool2d`.

    Notes
    -----
    As in PyTorch, powers keep their sign: an odd power of negative elements is
    negative, and a root of a negative sum NaN.
    """
    window = (kernel_size, stride, ceil_mode)
    return _powers("lp_pool2d", 2, input, norm_type, window)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """Return the p-th root of the sum of the p-th powers of each window of volumes.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float.
    norm_type : float
        The p; infinity gives the largest absolute value.
    kernel_size, stride, ceil_mode
        As in `avg_pool3d`.

    Notes
    -----
    As in PyTorch, powers keep their sign: an odd power of negative elements is
    negative, and a root of a negative sum NaN.
    """
    window = (kernel_size, stride, ceil_mode)
    return _powers("lp_pool3d", 3, input, norm_type, window)


@shown_as("FractionalMaxPool2DBackward0", "input")
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Found:
    """Return the largest element of each random window, and its position.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or without batch
        Float.
    kernel_size : int or (int, int)
        Size of the windows.
    output_size : int or (int, int), or None
        How many there are.
    output_ratio : float or (float, float), or None
        Their number as a share of the size instead, below 1.
    return_indices : bool
        Without effect.
    _random_samples : Tensor, shape (batch, channels, 2), or None
        Draws from [0, 1) for where windows start; None draws them.

    Returns
    -------
    tuple of Tensor
        The elements, and their row-major positions in the plane as int64.

    Raises
    ------
    ShapeError
        If the windows do not fit, or neither size nor ratio is given.

    Notes
    -----
    Source: Graham, Fractional Max-Pooling, arXiv:1412.6071.
    """
    wanted = (output_size, output_ratio)
    name = "fractional_max_pool2d"
    # Its first draw is for the width, as in PyTorch.
    return _fractional(name, 2, input, kernel_size, wanted, _random_samples, (1, 0))


@autocast_float32_on_host
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the largest element of each random window of images.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, height, width) or without batch, float
    kernel_size : int or (int, int)
        Size of the windows.
    output_size : int or (int, int), or None
        How many there are.
    output_ratio : float or (float, float), or None
        Their number as a share of the size instead, below 1.
    return_indices : bool, default False
        Whether row-major positions are returned too, as int64.
    _random_samples : Tensor, shape (batch, channels, 2), or None
        Draws from [0, 1) for where windows start; None draws them.

    Returns
    -------
    Tensor, or tuple of Tensor

    Raises
    ------
    ShapeError
        If the windows do not fit, or neither size nor ratio is given.

    Notes
    -----
    Source: Graham, Fractional Max-Pooling, arXiv:1412.6071.
    """
    found = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return found if return_indices else found[0]


@shown_as("FractionalMaxPool3DBackward0", "input")
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Found:
    """Return the largest element of each random window of volumes, and its position.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float.
    kernel_size : int or (int, int, int)
        Size of the windows.
    output_size : int or (int, int, int), or None
        How many there are.
    output_ratio : float or (float, float, float), or None
        Their number as a share of the size instead, below 1.
    return_indices : bool
        Without effect.
    _random_samples : Tensor, shape (batch, channels, 3), or None
        Draws from [0, 1) for where windows start; None draws them.

    Returns
    -------
    tuple of Tensor
        The elements, and their row-major positions in the volume as int64.

    Raises
    ------
    ShapeError
        If the windows do not fit, or neither size nor ratio is given.

    Notes
    -----
    Source: Graham, Fractional Max-Pooling, arXiv:1412.6071.
    """
    wanted = (output_size, output_ratio)
    name = "fractional_max_pool3d"
    return _fractional(name, 3, input, kernel_size, wanted, _random_samples, (0, 1, 2))


@autocast_float32_on_host
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Return the largest element of each random window of volumes.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, depth, height, width) or without batch
        Float.
    kernel_size : int or (int, int, int)
        Size of the windows.
    output_size : int or (int, int, int), or None
        How many there are.
    output_ratio : float or (float, float, float), or None
        Their number as a share of the size instead, below 1.
    return_indices : bool, default False
        Whether row-major positions are returned too, as int64.
    _random_samples : Tensor, shape (batch, channels, 3), or None
        Draws from [0, 1) for where windows start; None draws them.

    Returns
    -------
    Tensor, or tuple of Tensor

    Raises
    ------
    ShapeError
        If the windows do not fit, or neither size nor ratio is given.

    Notes
    -----
    Source: Graham, Fractional Max-Pooling, arXiv:1412.6071.
    """
    found = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return found if return_indices else found[0]


def _fractional(
    name: str,
    dims: int,
    input: Tensor,
    kernel_size: Sizes,
    wanted: tuple[Sizes | None, float | Sequence[float] | None],
    samples: Tensor | None,
    draws: Shape,
) -> Found:
    if len(input.layout.shape) not in (dims + 1, dims + 2):
        raise ShapeError(
            f"{name}: input is {tuple(input.shape)}; it must be {dims + 2}-D, or"
            f" {dims + 1}-D"
            " without a batch"
        )
    size, lead = input.layout.shape[-dims:], input.layout.shape[:-dims]
    kernel = each_dim(f"{name}: kernel_size", kernel_size, dims)
    out = _fractional_size(name, size, wanted)
    if any(
        places < 1 or places + taps - 1 > whole
        for places, taps, whole in zip(out, kernel, size)
    ):
        raise ShapeError(
            f"{name}: {out} windows of {kernel} do not fit into {size}; output_size +"
            " kernel_size - 1 must be at most the size"
        )
    planes = math.prod(lead)
    if samples is None:
        starts = ops.draw_uniform(input.detach(), (planes, dims), float32)
    else:
        starts = ops.reshape(_chosen(name, samples, lead, dims), (planes, dims))
    flat = ops.reshape(input, (planes, *size))
    values, places = fractional_max_pool(flat, starts, kernel, out, draws)
    shape = (*lead, *out)
    return ops.reshape(values, shape), ops.reshape(places, shape).to(int64)


def _chosen(name: str, samples: Tensor, lead: Shape, dims: int) -> Tensor:
    """Return what is used of given samples; there may be some for more images."""
    batch = lead[0] if len(lead) > 1 else 1
    if (
        samples.ndim != 3
        or samples.shape[0] < batch
        or samples.shape[1:] != (lead[-1], dims)
    ):
        raise ShapeError(
            f"{name}: _random_samples are {tuple(samples.shape)}; they must be"
            f" {(batch, lead[-1], dims)}"
        )
    return ops.narrow(samples.detach(), 0, 0, batch)


def _fractional_size(
    name: str, size: Shape, wanted: tuple[Sizes | None, float | Sequence[float] | None]
) -> Shape:
    dims = len(size)
    if wanted[0] is not None:
        return each_dim(f"{name}: output_size", wanted[0], dims)
    ratio = wanted[1]
    if ratio is None:
        raise ShapeError(f"{name}: output_size and output_ratio are None; give one")
    ratios = (ratio,) * dims if isinstance(ratio, int | float) else tuple(ratio)
    if len(ratios) != dims or not all(0 < each < 1 for each in ratios):
        raise ShapeError(
            f"{name}: output_ratio is {ratio}; it must be one number or {dims}, each"
            " between 0 and 1"
        )
    return tuple(int(whole * each) for whole, each in zip(size, ratios))
