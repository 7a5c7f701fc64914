"""Convolution over volumes, and its transpose, through the kernels for images.

The taps along depth become channels: a volume is a batch of planes, each with the
planes of its window stacked behind it, and one convolution over images does the rest
as an implicit GEMM. Planes of a transpose's result that are a stride apart are of the
same taps: they are one transposed convolution of such stacks, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...autograd.unbatched import unbatched_as
from ...base.errors import ShapeError
from ...base.shape import Layout, Shape, ceil_div
from ...base.validation import as_int, as_int_or_ints
from ...dispatch.autocast_policy import autocast_low_precision
from ...kernels.shader_types import check_float
from ..images import POOLED_INTEGERS
from ..movement.concat import stack
from ..movement.rearrange import pad
from ..movement.slice import strided_scatter
from ..source import fill_like
from ..view import permute, reshape, transpose, unsqueeze
from .conv import check_bias_dtype, conv2d, conv_transpose2d
from .integer import need_int64

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

Triple = tuple[int, int, int]


def triple(name: str, value: int | Shape, least: int) -> Triple:
    """Return (depth, height, width) of an argument given as one number or three.

    Raises
    ------
    ShapeError
        If it is neither, or a number is below `least`.
    """
    numbers = as_int_or_ints(name, value)
    given = (numbers,) if isinstance(numbers, int) else numbers
    given = given * 3 if len(given) == 1 else given
    if len(given) != 3 or min(given) < least:
        raise ShapeError(
            f"{name} is {value}; it must be one number or (depth, height, width), each"
            f" at least {least}"
        )
    return given[0], given[1], given[2]


def check_volumes(
    name: str, x: Tensor, complexes: bool = False, integers: bool = False
) -> None:
    """Raise an error if `x` is no float batch of volumes, nor one alone.

    `complexes` and `integers` say whether one of such numbers is taken too.
    """
    taken = complexes and x.dtype.is_complex
    if not taken and not (integers and x.dtype in POOLED_INTEGERS):
        check_float(name, x)
    if len(x.layout.shape) not in (4, 5):
        raise ShapeError(
            f"{name}: x is {tuple(x.shape)}; it must be 5-D, or 4-D without a batch"
        )


def _batched(name: str, x: Tensor, weight: Tensor) -> Tensor:
    check_volumes(name, x, complexes=True, integers=True)
    if len(weight.layout.shape) != 5:
        raise ShapeError(f"{name}: weight is {tuple(weight.shape)}; it must be 5-D")
    return x if len(x.layout.shape) == 5 else unsqueeze(x, 0)


@autocast_low_precision
@unbatched_as("ConvolutionBackward0", "x", "weight", "bias", dims=(4,), dim=0)
def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Shape = 1,
    padding: int | Shape | str = 0,
    dilation: int | Shape = 1,
    groups: int = 1,
) -> Tensor:
    """Return the cross-correlation of volumes with filters.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, depth, height, width) or without batch
        Float, complex or of an integer dtype.
    weight : Tensor, shape (out_channels, in_channels / groups, kernel_d, _h, _w)
        Filters, of the same dtype.
    bias, stride, padding, dilation, groups
        As in `conv2d`, of three dimensions.

    Returns
    -------
    Tensor, shape (batch, out_channels, out_d, out_h, out_w) or without batch

    Raises
    ------
    ShapeError
        If shapes do not fit each other or the window does not fit the volume.

    Notes
    -----
    Takes memory for as many copies of `x` as filters are deep.
    """
    volumes = _batched("conv3d", x, weight)
    steps = triple("conv3d: stride", stride, 1)
    gaps = triple("conv3d: dilation", dilation, 1)
    taps = weight.layout.shape[2]
    reach = gaps[0] * (taps - 1)
    around: Shape | str
    if isinstance(padding, str):
        if padding not in ("same", "valid") or (padding == "same" and max(steps) > 1):
            raise ShapeError(
                f"conv3d: padding is {padding!r} with stride {stride}; it must be"
                " numbers, 'valid', or 'same' with a stride of 1"
            )
        total = reach if padding == "same" else 0
        before, after, around = total // 2, total - total // 2, padding
    else:
        before, *planes = triple("conv3d: padding", padding, 0)
        after, around = before, tuple(planes)
    if volumes.shape[2] + before + after <= reach or taps < 1:
        raise ShapeError(
            f"conv3d: filters of depth {taps} with dilation {gaps[0]} do not fit a"
            f" volume of {tuple(x.shape)} with padding {padding}"
        )
    if before or after:
        volumes = pad(volumes, (0, 0, 0, 0, before, after))
    stacked = _depth_windows(volumes, taps, steps[0], gaps[0])
    batch, depth, channels = stacked.shape[:3]
    size = stacked.shape[-2:]
    images = reshape(stacked, (batch * depth, channels * taps, *size))
    count, group_channels = weight.layout.shape[:2]
    filters = reshape(weight, (count, group_channels * taps, *weight.layout.shape[3:]))
    out = conv2d(images, filters, bias, steps[1:], around, gaps[1:], groups)
    out = reshape(out, (batch, depth, *out.shape[1:]))
    out = transpose(out, 1, 2).contiguous()
    return out if len(x.layout.shape) == 5 else reshape(out, out.shape[1:])


def _depth_windows(x: Tensor, taps: int, step: int, gap: int) -> Tensor:
    """Return (batch, out_depth, channels, taps, height, width)."""
    last = x.layout.shape[2] - gap * (taps - 1)
    planes = transpose(x, 1, 2)
    windows = [planes[:, tap * gap : tap * gap + last : step] for tap in range(taps)]
    return stack(windows, 3)


@autocast_low_precision
@unbatched_as("ConvolutionBackward0", "x", "weight", "bias", dims=(4,), dim=0)
def conv_transpose3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Shape = 1,
    padding: int | Shape = 0,
    output_padding: int | Shape = 0,
    groups: int = 1,
    dilation: int | Shape = 1,
) -> Tensor:
    """Return the transpose of `conv3d`: each voxel spreads over a window of the result.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, depth, height, width) or without batch
        Float, complex or int64.
    weight : Tensor, shape (in_channels, out_channels / groups, kernel_d, _h, _w)
        Filters, of the same dtype.
    bias, stride, padding, output_padding, groups, dilation
        As in `conv_transpose2d`, of three dimensions.

    Returns
    -------
    Tensor, shape (batch, out_channels, out_d, out_h, out_w) or without batch

    Raises
    ------
    ShapeError
        If shapes do not fit each other, or nothing is left of the result.
    """
    name = "conv_transpose3d"
    volumes = _batched(name, x, weight)
    if x.dtype in POOLED_INTEGERS:
        need_int64(name, x)
    groups = as_int(f"{name}: groups", groups)
    steps = triple(f"{name}: stride", stride, 1)
    around = triple(f"{name}: padding", padding, 0)
    added = triple(f"{name}: output_padding", output_padding, 0)
    gaps = triple(f"{name}: dilation", dilation, 1)
    batch, _, depth = volumes.shape[:3]
    taps = weight.layout.shape[2]
    reach = gaps[0] * (taps - 1) + 1
    deep = (depth - 1) * steps[0] - 2 * around[0] + reach + added[0]
    if added[0] >= max(steps[0], gaps[0]) or deep < 1:
        raise ShapeError(
            f"{name}: the result would be {deep} deep with output_padding {added};"
            " it must be at least 1, and output_padding below the larger of stride and"
            " dilation"
        )
    if not weight.dtype.is_complex:
        check_bias_dtype(name, x, bias)
    if bias is not None and bias.shape != (weight.layout.shape[1] * groups,):
        raise ShapeError(
            f"{name}: bias is {tuple(bias.shape)}; it must be"
            f" ({weight.shape[1] * groups},)"
        )
    counts = [ceil_div(deep - start, steps[0]) for start in range(min(steps[0], deep))]
    sources = [
        _depth_taps(start + around[0], taps, steps[0], gaps[0], depth, count)
        for start, count in enumerate(counts)
    ]
    # Planes that no tap reaches have no convolution, which would add the bias.
    whole = all(sources)
    if not any(sources):
        sources[0] = [(0, depth)]
    rest = steps[1:], around[1:], added[1:], groups, gaps[1:]
    parts: dict[int, Tensor] = {}
    for start, (count, found) in enumerate(zip(counts, sources)):
        if found:
            images, filters = _stacked(volumes, weight, found, count)
            made = conv_transpose2d(images, filters, bias if whole else None, *rest)
            parts[start] = reshape(made, (count, batch, *made.shape[1:]))
    out = _interleaved(parts, deep, steps[0])
    if bias is not None and not whole:
        out = out + reshape(bias, (out.shape[1], 1, 1, 1))
    out = out.contiguous()
    return out if len(x.layout.shape) == 5 else reshape(out, out.shape[1:])


DepthTap = tuple[int, int]
"""A tap along depth, and the plane that it takes to the first plane of a result."""


def _depth_taps(
    first: int, taps: int, step: int, gap: int, depth: int, count: int
) -> list[DepthTap]:
    """Return the taps that reach `count` planes of a result, each `step` after another.

    `first` is the first one's number, with those of the padding.
    """
    reached = []
    for tap in range(taps):
        plane, rest = divmod(first - tap * gap, step)
        if rest == 0 and -count < plane < depth:
            reached.append((tap, plane))
    return reached


def _stacked(
    volumes: Tensor, weight: Tensor, taps: Sequence[DepthTap], count: int
) -> tuple[Tensor, Tensor]:
    """Return (count * batch, channels * taps, height, width) images, and filters."""
    batch, channels, depth, *size = volumes.layout.shape
    first, last = min(plane for _, plane in taps), max(plane for _, plane in taps)
    before, after = max(0, -first), max(0, last + count - depth)
    if before or after:
        volumes = pad(volumes, (0, 0, 0, 0, before, after))
    planes = permute(volumes, (2, 0, 1, 3, 4))
    starts = [plane + before for _, plane in taps]
    windows = stack([planes[start : start + count] for start in starts], 3)
    images = reshape(windows, (count * batch, channels * len(taps), *size))
    chosen = stack([weight[:, :, tap] for tap, _ in taps], 1)
    return images, reshape(chosen, (channels * len(taps), *chosen.shape[2:]))


def _interleaved(parts: Mapping[int, Tensor], deep: int, step: int) -> Tensor:
    """Return (batch, channels, deep, height, width) of planes, with zeros elsewhere.

    Each part is (planes, batch, channels, height, width), `step` apart from its start.
    """
    if step == 1:
        return permute(parts[0], (1, 2, 0, 3, 4))
    part = next(iter(parts.values()))
    _, batch, channels, height, width = part.shape
    area = height * width
    volume = deep * area
    shape = (batch, channels, deep, height, width)
    out: Tensor = fill_like(part.detach(), shape, 0, part.dtype)
    for start, part in parts.items():
        strides = (step * area, channels * volume, volume, width, 1)
        layout = Layout(tuple(part.shape), strides, start * area)
        out = strided_scatter(out, part, layout)
    return out
