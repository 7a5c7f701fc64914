"""Convolution over volumes, and its transpose, through the kernels for images.

The taps along depth become channels: a volume's planes are images, each with the
planes of its window stacked behind it, and one convolution over images does the rest
as an implicit GEMM. Its kernels read and write such planes where they lie in a volume.
Planes of a transpose's result that are a stride apart are of the same taps: they are
one transposed convolution of such stacks, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...autograd.unbatched import unbatched_as
from ...base.errors import ShapeError
from ...base.shape import Layout, Shape, ceil_div
from ...base.validation import as_int_or_ints
from ...dispatch.autocast_policy import autocast_low_precision
from ...kernels.conv.problem import Convolution
from ...kernels.conv.window import Pair, Window
from ...kernels.shader_types import check_float
from ...kernels.tensor_cores import convolution_mode
from ..images import POOLED_INTEGERS
from ..movement.concat import stack
from ..movement.rearrange import pad
from ..movement.slice import strided_scatter
from ..source import fill_like
from ..view import broadcast_to, reshape, transpose, unsqueeze
from .conv import (
    check_bias_dtype,
    check_channels,
    check_groups,
    check_transposed_channels,
    conv2d,
    conv_transpose2d,
    transposed_window,
    window_of,
)
from .conv2d import _conv2d, _conv2d_input_vjp
from .im2col import _im2col
from .integer import need_int64
from .phases import MOST_PHASES, Phases, _conv_transpose_phases, writes_phases

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
    name = "conv3d"
    volumes = _batched(name, x, weight)
    groups = check_groups(name, groups)
    check_channels(name, volumes, weight, bias, groups)
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
        before, *sides = triple("conv3d: padding", padding, 0)
        after, around = before, tuple(sides)
    if volumes.shape[2] + before + after <= reach or taps < 1:
        raise ShapeError(
            f"conv3d: filters of depth {taps} with dilation {gaps[0]} do not fit a"
            f" volume of {tuple(x.shape)} with padding {padding}"
        )
    room = volumes.layout.shape[2] + before + after - reach
    planes = _windows(
        volumes, taps, ceil_div(room, steps[0]), before, steps[0], gaps[0]
    )
    count, group_channels = weight.layout.shape[:2]
    filters = reshape(weight, (count, group_channels * taps, *weight.layout.shape[3:]))
    if x.dtype.is_float:
        check_bias_dtype(name, x, bias)
        window = window_of(name, filters, steps[1:], around, gaps[1:], 2)
        if not window.fits(*planes.layout.shape[3:]):
            raise ShapeError(
                f"{name}: filters of {tuple(weight.shape[2:])} with dilation {gaps} do"
                f" not fit a volume of {tuple(x.shape)} with padding {padding}"
            )
        how = Convolution(window, groups, convolution_mode(x.device, x.dtype))
        out = _of_planes(planes, how, lambda x: _conv2d(x, filters, bias, how))
    else:
        rest = steps[1:], around, gaps[1:], groups
        out = _of_images(planes, lambda x: conv2d(x, filters, bias, *rest))
    return out if len(x.layout.shape) == 5 else reshape(out, out.shape[1:])


def _windows(
    x: Tensor, taps: int, count: int, before: int, step: int = 1, gap: int = 1
) -> Tensor:
    """Return the planes of windows along depth, as channels.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, depth, height, width)
    taps, count : int
        Planes of a window, and windows.
    before : int
        Planes of zeros before the first; there are as many after the last as windows
        reach.
    step, gap : int
        Stride and dilation.

    Returns
    -------
    Tensor, shape (batch, channels * taps, count, height, width)
    """
    batch, channels, depth, height, width = x.layout.shape
    last = (count - 1) * step + 1
    if taps == 1 and before == 0 and last <= depth:
        return x if step == 1 and last == depth else x[:, :, :last:step]
    reach = gap * (taps - 1)
    after = last + reach - depth - before
    if x.dtype.is_float:
        extra = after - before, 0
        window = Window((taps, 1), (step, 1), (before, 0), (gap, 1), extra)
        lines = reshape(x, (batch, channels, depth, height * width))
        planes = _im2col(lines, window)
    else:
        padded = pad(x, (0, 0, 0, 0, before, max(0, after)))
        starts = range(0, reach + 1, gap)
        planes = stack([padded[:, :, at : at + last : step] for at in starts], 2)
    return reshape(planes, (batch, channels * taps, count, height, width))


def _of_planes(
    planes: Tensor, how: Convolution, convolved: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return a convolution of planes; of windows of a pixel as that of one image."""
    one = Window((1, 1), (1, 1), (0, 0), how.window.dilation)
    if how.window != one:
        return convolved(planes)
    batch, channels, depth, height, width = planes.layout.shape
    out = convolved(reshape(planes, (batch, channels, depth * height, width)))
    return reshape(out, (batch, out.layout.shape[1], depth, height, width))


def _of_images(planes: Tensor, convolved: Callable[[Tensor], Tensor]) -> Tensor:
    """Return a convolution of planes that takes images alone."""
    batch, channels, depth, *size = planes.layout.shape
    images = reshape(transpose(planes, 1, 2), (batch * depth, channels, *size))
    out = convolved(images)
    out = reshape(out, (batch, depth, *out.layout.shape[1:]))
    return transpose(out, 1, 2).contiguous()


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
    groups = check_groups(name, groups)
    check_transposed_channels(name, volumes, weight, bias, groups)
    steps = triple(f"{name}: stride", stride, 1)
    around = triple(f"{name}: padding", padding, 0)
    added = triple(f"{name}: output_padding", output_padding, 0)
    gaps = triple(f"{name}: dilation", dilation, 1)
    depth = volumes.layout.shape[2]
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
    counts = [ceil_div(deep - start, steps[0]) for start in range(min(steps[0], deep))]
    sources = [
        _depth_taps(start + around[0], taps, steps[0], gaps[0], depth, count)
        for start, count in enumerate(counts)
    ]
    if not any(sources):
        sources[0] = [(0, -counts[0])]
    spread = _Spread(steps[1:], around[1:], added[1:], groups, gaps[1:])
    windows = {
        start: (_depth_windows(volumes, found, count), _filters_of(weight, found))
        for start, (count, found) in enumerate(zip(counts, sources))
        if found
    }
    out = None
    if len(windows) == steps[0] and x.dtype.is_float:
        out = spread.phases(list(windows.values()), bias, Phases(steps[0], deep))
    if out is None:
        parts = {at: spread.planes(*each, bias) for at, each in windows.items()}
        out = _interleaved(parts, bias, deep, steps[0])
    return out if len(x.layout.shape) == 5 else reshape(out, out.shape[1:])


class _Spread(NamedTuple):
    """Transposed convolution of planes: its arguments, of height and width."""

    steps: Shape
    around: Shape
    added: Shape
    groups: int
    gaps: Shape

    def planes(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return (batch, channels, planes, height, width) of such planes."""
        if not x.dtype.is_float:
            return _of_images(x, lambda x: conv_transpose2d(x, weight, bias, *self))
        how, size = self.how(x, weight)

        def spread(x: Tensor) -> Tensor:
            high = size[0] if len(x.layout.shape) == 5 else x.layout.shape[2]
            return _conv2d_input_vjp(x, weight, bias, (high, size[1]), how)

        return _of_planes(x, how, spread)

    def how(self, x: Tensor, weight: Tensor) -> tuple[Convolution, Pair]:
        """Return the convolution that it is the transpose of, and the result's size."""
        name = "conv_transpose3d"
        window = window_of(name, weight, self.steps, self.around, self.gaps, 2)
        added = self.added[0], self.added[1]
        window, size = transposed_window(name, window, x.layout.shape[3:], added)
        mode = convolution_mode(x.device, x.dtype)
        return Convolution(window, self.groups, mode), size

    def phases(
        self,
        windows: Sequence[tuple[Tensor, Tensor]],
        bias: Tensor | None,
        phases: Phases,
    ) -> Tensor | None:
        """Return the planes of all phases in one volume, or None if they are few."""
        parts, filters = zip(*windows)
        how, size = self.how(parts[0], filters[0])
        volumes = parts[0].layout.shape[0] * filters[0].layout.shape[1] * self.groups
        results = volumes * phases.deep * size[0] * size[1]
        if not writes_phases(results, phases, how):
            return None
        none = (None,) * (MOST_PHASES - len(parts))
        given = (*parts, *none, *filters, *none)
        out: Tensor = _conv_transpose_phases(*given, bias, size, how, phases)  # type: ignore[call-arg]  # None fills
        return out


DepthTap = tuple[int, int]
"""A tap along depth, and the plane that it takes to the first plane of a result."""


def _depth_taps(
    first: int, taps: int, step: int, gap: int, depth: int, count: int
) -> list[DepthTap]:
    """Return the taps that reach `count` planes of a result, each `step` after another.

    `first` is the first one's number, with those of the padding. Planes ascend.
    """
    reached = []
    for tap in reversed(range(taps)):
        plane, rest = divmod(first - tap * gap, step)
        if rest == 0 and -count < plane < depth:
            reached.append((tap, plane))
    return reached


def _depth_windows(volumes: Tensor, taps: Sequence[DepthTap], count: int) -> Tensor:
    """Return (batch, channels * taps, count, height, width)."""
    starts = [plane for _, plane in taps]
    if starts[0] > 0:
        volumes, starts = volumes[:, :, starts[0] :], [at - starts[0] for at in starts]
    gap = starts[1] - starts[0] if len(starts) > 1 else 1
    return _windows(volumes, len(taps), count, -starts[0], gap=gap)


def _filters_of(weight: Tensor, taps: Sequence[DepthTap]) -> Tensor:
    """Return (channels * taps, out_channels / groups, height, width)."""
    channels = weight.layout.shape[0]
    chosen = stack([weight[:, :, tap] for tap, _ in taps], 1)
    return reshape(chosen, (channels * len(taps), *chosen.layout.shape[2:]))


def _interleaved(
    parts: Mapping[int, Tensor], bias: Tensor | None, deep: int, step: int
) -> Tensor:
    """Return (batch, channels, deep, height, width) of planes.

    Each part is (batch, channels, planes, height, width), `step` apart from its start.
    Elsewhere are zeros, and the bias.
    """
    if step == 1:
        return parts[0]
    part = next(iter(parts.values()))
    batch, channels, _, height, width = part.layout.shape
    shape = (batch, channels, deep, height, width)
    if len(parts) == step and deep % step == 0:
        return reshape(stack([parts[start] for start in range(step)], 3), shape)
    out: Tensor = fill_like(part.detach(), shape, 0, part.dtype)
    if bias is not None and len(parts) < min(step, deep):
        out = broadcast_to(reshape(bias, (channels, 1, 1, 1)), shape)
    volume = deep * height * width
    for start, part in parts.items():
        strides = (channels * volume, volume, step * height * width, width, 1)
        layout = Layout(part.layout.shape, strides, start * height * width)
        out = strided_scatter(out, part, layout)
    return out
