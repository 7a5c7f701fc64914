"""Padding, resizing and rearranging of images."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from ... import ops
from ...autograd.tape import shown_as
from ...base.docstring import shares_parameters
from ...base.dtype import uint8
from ...base.errors import ShapeError
from ...base.shape import Shape
from ...base.validation import as_int
from ...dispatch.replayable import replayable
from ...tensor.tensor import Tensor


def pad(
    input: Tensor,
    pad: Sequence[int],
    mode: str = "constant",
    value: float | None = None,
) -> Tensor:
    """Return a copy with elements added at, or taken off, both ends of dimensions.

    Parameters
    ----------
    input : Tensor
    pad : sequence of int
        Elements added before and after, for the last dimension, then the one before it,
        and so on. A number below 0 takes elements off, before others are added; where
        it takes all, "replicate" repeats the last that it took.
    mode : str, default "constant"
        "constant": `value`; "reflect": the elements within, mirrored at the last one;
        "replicate": the last one; "circular": those of the other end.
    value : float or None
        None means 0; cut to an integer where `input` has integers.

    Returns
    -------
    Tensor, dtype of `input`

    Raises
    ------
    ShapeError
        If there are too many paddings or an odd number, more elements are added or
        taken off than there are, or the mode is unknown.
    DTypeError
        If the value is beyond an integer dtype.
    """
    if mode != "constant" and min(pad, default=0) < 0:
        if mode == "replicate":
            pad = _kept(input.layout.shape, pad)
        input = ops.pad(input, [min(each, 0) for each in pad])
        pad = [max(each, 0) for each in pad]
    return ops.pad(input, pad, mode, value)


def _kept(shape: Shape, pad: Sequence[int]) -> list[int]:
    """Return paddings that leave an element of each dimension to repeat."""
    numbers = list(pad)
    for at, size in zip(range(0, len(numbers), 2), reversed(shape)):
        for side, other in ((at, at + 1), (at + 1, at)):
            beyond = 1 - size - numbers[side]
            if size and beyond > 0 and numbers[other] >= beyond:
                numbers[side] += beyond
                numbers[other] -= beyond
    return numbers


def interpolate(
    input: Tensor,
    size: int | Shape | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Return signals, images or volumes resized.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, ...), float
        One to three dimensions are resized. In the nearest modes uint8 is taken too.
    size : int or sequence of int, or None
        Their sizes afterwards.
    scale_factor : float or sequence of float, or None
        What to multiply sizes with instead; the result is rounded down.
    mode : str, default "nearest"
        "nearest", which is taken at the start of each new element, or "nearest-exact",
        at its middle; "linear", "bilinear" or "trilinear" by the number of dimensions;
        "bicubic"; or "area", the mean over what a new element covers.
    align_corners : bool or None
        For the linear modes and "bicubic": whether the middles of the outermost
        elements stay where they are, and not their ends.
    recompute_scale_factor : bool or None
        Whether places are computed from the rounded size, not from `scale_factor`.
    antialias : bool, default False
        For "bilinear" and "bicubic": whether an element that becomes smaller is made of
        all that it covers, so that fine patterns do not turn into coarse ones.

    Returns
    -------
    Tensor, shape (batch, channels, ...), dtype of `input`

    Raises
    ------
    ShapeError
        If the mode does not go with the number of dimensions, or an argument is
        missing, out of range, or not for this mode.
    """
    if input.dtype is uint8 and mode.startswith("nearest"):
        # Each result is one element, which a float32 holds.
        wide = interpolate(
            input.float(), size, scale_factor, mode, align_corners,
            recompute_scale_factor,
        )  # fmt: skip
        return wide.to(uint8)
    return ops.interpolate(
        input,
        size,
        scale_factor,
        mode,
        align_corners,
        recompute_scale_factor,
        antialias,
    )


def upsample(
    input: Tensor,
    size: int | Shape | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Return `interpolate`; deprecated, with a warning.

    Parameters
    ----------
    input, size, scale_factor, mode, align_corners
        As in `interpolate`, and its errors.
    """
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor,
    size: int | Shape | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
) -> Tensor:
    """Return `interpolate` in mode "nearest"; deprecated, with a warning.

    Parameters
    ----------
    input, size, scale_factor
        As in `interpolate`, and its errors.
    """
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(
    input: Tensor,
    size: int | Shape | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
) -> Tensor:
    """Return `interpolate` in mode "bilinear" with aligned corners; deprecated.

    Parameters
    ----------
    input, size, scale_factor
        As in `interpolate`, and its errors; four dimensions only.
    """
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, "bilinear", True)


def _deprecated(name: str) -> None:
    warnings.warn(f"{name} is deprecated; use interpolate instead", stacklevel=3)


def _factor(name: str, value: object) -> int:
    factor = as_int(name, value)
    if factor < 1:
        raise ShapeError(f"{name} is {factor}; it must be at least 1")
    return factor


@shown_as("PixelShuffleBackward0", "input")
@replayable
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Return images made larger with the elements of their channels.

    Parameters
    ----------
    input : Tensor, shape (..., channels * factor^2, height, width)
    upscale_factor : int

    Returns
    -------
    Tensor, shape (..., channels, height * factor, width * factor)

    Raises
    ------
    ShapeError
        If the channels are no multiple.

    Notes
    -----
    Source: Shi et al., arXiv:1609.05158.
    """
    by = _factor("pixel_shuffle: upscale_factor", upscale_factor)
    if len(input.layout.shape) < 3 or input.layout.shape[-3] % (by * by):
        raise ShapeError(
            f"pixel_shuffle: input is {tuple(input.shape)}; it must be (..., channels,"
            " height,"
            f" width) with a multiple of {by * by} channels"
        )
    if by == 1:
        return input.clone()
    *lead, channels, height, width = input.layout.shape
    count = channels // (by * by)
    parts = ops.reshape(input, (-1, count, by, by, height, width))
    moved = ops.permute(parts, (0, 1, 4, 2, 5, 3))
    return ops.reshape(moved, (*lead, count, height * by, width * by))


@shown_as("PixelUnshuffleBackward0", "input")
@replayable
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Return images made smaller, with more channels: `pixel_shuffle` undone.

    Parameters
    ----------
    input : Tensor, shape (..., channels, height * factor, width * factor)
    downscale_factor : int

    Returns
    -------
    Tensor, shape (..., channels * factor^2, height, width)

    Raises
    ------
    ShapeError
        If height or width is no multiple.
    """
    by = _factor("pixel_unshuffle: downscale_factor", downscale_factor)
    if (
        len(input.layout.shape) < 3
        or input.layout.shape[-2] % by
        or input.layout.shape[-1] % by
    ):
        raise ShapeError(
            f"pixel_unshuffle: input is {tuple(input.shape)}; it must be (...,"
            " channels,"
            f" height, width), the last two multiples of {by}"
        )
    if by == 1:
        return input.clone()
    *lead, channels, height, width = input.layout.shape
    parts = ops.reshape(input, (-1, channels, height // by, by, width // by, by))
    moved = ops.permute(parts, (0, 1, 3, 5, 2, 4))
    shape = (*lead, channels * by * by, height // by, width // by)
    return ops.reshape(moved, shape)


@shown_as("ChannelShuffleBackward0", "input")
@replayable
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return images whose channels are dealt out anew: one of each group in turn.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, ...)
    groups : int
        Divides the channels.

    Raises
    ------
    ShapeError
        If it does not, or `input` has fewer than three dimensions.

    Notes
    -----
    Source: Zhang et al., arXiv:1707.01083.
    """
    groups = _factor("channel_shuffle: groups", groups)
    if len(input.layout.shape) < 3 or input.layout.shape[1] % groups:
        raise ShapeError(
            f"channel_shuffle: input is {tuple(input.shape)}; it must be (batch,"
            " channels,"
            f" ...) with a multiple of {groups} channels"
        )
    if groups in (1, input.layout.shape[1]):
        return input.clone()
    batch, channels = input.layout.shape[:2]
    parts = ops.reshape(
        input, (batch, groups, channels // groups, math.prod(input.layout.shape[2:]))
    )
    return ops.reshape(ops.transpose(parts, 1, 2), input.layout.shape)


@shares_parameters(channel_shuffle)
def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return `channel_shuffle`."""
    return channel_shuffle(input, groups)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return, for each class, a row of zeros with a one in its place, as int64.

    Parameters
    ----------
    tensor : Tensor, any integer dtype
        Classes.
    num_classes : int, default -1
        Size of a row; -1 means one more than the largest class, which is then read by
        the host, which waits for it.

    Returns
    -------
    Tensor, shape (*tensor.shape, num_classes), int64

    Raises
    ------
    ShapeError
        If `num_classes` is less than -1, or -1 where there is no class.
    DTypeError
        If the classes are no integers.
    IndexRangeError
        If a class is not from 0 to `num_classes` - 1: on the host at once, on a device
        by the next read; see `set_index_checks`.
    """
    made: Any = ops.one_hot(tensor, num_classes)
    found: Tensor = made
    return found
