"""Convolution of integers, as sums of products of matrices: one for each tap."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ...base.dtype import int64
from ...base.errors import DTypeError
from ..matmul.matmul import matmul
from ..movement.rearrange import pad
from ..movement.slice import narrow
from ..view import reshape, transpose, unsqueeze

if TYPE_CHECKING:
    from ...base.shape import Shape
    from ...kernels.conv.window import Pair, Window
    from ...tensor.tensor import Tensor


def need_equal_integers(name: str, x: Tensor, *others: Tensor | None) -> None:
    """Raise an error if weight or bias are of another dtype than the integers `x`."""
    kinds = [each.dtype for each in (x, *others) if each is not None]
    if any(kind is not x.dtype for kind in kinds):
        raise DTypeError(
            f"{name}: x is {x.dtype.name} and weight and bias are"
            f" {', '.join(kind.name for kind in kinds[1:])}; they must be of one dtype"
        )


def need_int64(name: str, x: Tensor) -> None:
    """Raise an error if integers are others than PyTorch's transpose takes."""
    if x.dtype is not int64:
        raise DTypeError(
            f"{name}: x is {x.dtype.name}; of integers it must be int64, as in PyTorch"
        )


def integer_conv2d(x: Tensor, weight: Tensor, window: Window, groups: int) -> Tensor:
    """Return the cross-correlation of images with filters.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, height, width)
    weight : Tensor, shape (out_channels, in_channels / groups, kernel_h, kernel_w)
    """
    (top, left), (low, right) = window.padding, window.extra
    height, width = window.output(*x.layout.shape[2:])
    padded = pad(x, (left, left + right, top, top + low))
    batch, channels = x.layout.shape[:2]
    count = weight.layout.shape[0]
    total: Tensor | None = None
    for tap in itertools.product(*map(range, window.kernel)):
        rows, columns = (at * gap for at, gap in zip(tap, window.dilation))
        step_h, step_w = window.stride
        seen = padded[
            :,
            :,
            rows : rows + (height - 1) * step_h + 1 : step_h,
            columns : columns + (width - 1) * step_w + 1 : step_w,
        ]
        seen = reshape(seen, (batch, groups, channels // groups, height * width))
        term = matmul(_factors(weight, tap, groups), seen)
        total = term if total is None else total + term
    assert total is not None, "a window has a tap"
    return reshape(total, (batch, count, height, width))


def _factors(weight: Tensor, tap: tuple[int, ...], groups: int) -> Tensor:
    """Return the matrices of a tap: of each group, in the order of the filters."""
    count, channels = weight.layout.shape[:2]
    return reshape(weight[:, :, tap[0], tap[1]], (1, groups, count // groups, channels))


def integer_conv_transpose2d(
    x: Tensor, weight: Tensor, size: Pair, window: Window, groups: int
) -> Tensor:
    """Return images of `size` over which each pixel spreads by filters.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, height, width)
    weight : Tensor, shape (in_channels, out_channels / groups, kernel_h, kernel_w)
    size : (int, int)
    """
    batch, channels, *places = x.layout.shape
    count = weight.layout.shape[1] * groups
    pixels = reshape(x, (batch, groups, channels // groups, places[0] * places[1]))
    total: Tensor | None = None
    for tap in itertools.product(*map(range, window.kernel)):
        factors = transpose(_factors(weight, tap, groups), -1, -2)
        term = reshape(matmul(factors, pixels), (batch, count, *places))
        for dim in (0, 1):
            term = _apart(term, dim + 2, window.stride[dim])
        around: list[int] = []
        for dim in (1, 0):
            before = tap[dim] * window.dilation[dim] - window.padding[dim]
            around += [before, size[dim] - before - term.shape[dim + 2]]
        term = pad(term, around)
        total = term if total is None else total + term
    assert total is not None, "a window has a tap"
    return total


def integer_conv3d(
    x: Tensor, weight: Tensor, depth: Window, window: Window, groups: int
) -> Tensor:
    """Return the cross-correlation of volumes with filters.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, depth, height, width)
    weight : Tensor, shape (out_channels, in_channels / groups, kernel_d, _h, _w)
    depth, window : Window
        Along depth, of (planes, 1), and of planes.
    groups : int
    """
    count, step = depth.output(x.layout.shape[2], 1)[0], depth.stride[0]
    before, gap = depth.padding[0], depth.dilation[0]
    padded = pad(x, (0, 0, 0, 0, before, before + depth.extra[0]))
    total: Tensor | None = None
    for tap in range(depth.kernel[0]):
        seen = padded[:, :, tap * gap : tap * gap + (count - 1) * step + 1 : step]
        term = _of_planes(seen, weight[:, :, tap], window, groups)
        total = term if total is None else total + term
    assert total is not None, "a window has a tap"
    return total


def _of_planes(x: Tensor, weight: Tensor, window: Window, groups: int) -> Tensor:
    """Return the cross-correlation of a volume's planes with filters of images."""
    return _as_volumes(integer_conv2d(_as_images(x), weight, window, groups), x)


def _as_images(x: Tensor) -> Tensor:
    batch, channels, planes, *size = x.layout.shape
    return reshape(transpose(x, 1, 2), (batch * planes, channels, *size))


def _as_volumes(x: Tensor, like: Tensor) -> Tensor:
    """Return images as the planes of as many volumes as another has."""
    batch, _, planes, *_ = like.layout.shape
    return transpose(reshape(x, (batch, planes, *x.layout.shape[1:])), 1, 2)


def integer_conv_transpose3d(
    x: Tensor, weight: Tensor, size: Shape, depth: Window, window: Window, groups: int
) -> Tensor:
    """Return volumes of `size` over which each voxel spreads by filters.

    Parameters
    ----------
    x : Tensor, shape (batch, in_channels, depth, height, width)
    weight : Tensor, shape (in_channels, out_channels / groups, kernel_d, _h, _w)
    size : (int, int, int)
    depth, window : Window
        As in `integer_conv3d`.
    groups : int
    """
    images, plane = _as_images(x), (size[1], size[2])
    total: Tensor | None = None
    for tap in range(depth.kernel[0]):
        factors = weight[:, :, tap]
        spread = integer_conv_transpose2d(images, factors, plane, window, groups)
        term = _apart(_as_volumes(spread, x), 2, depth.stride[0])
        before = tap * depth.dilation[0] - depth.padding[0]
        around = before, size[0] - before - term.shape[2]
        term = pad(term, (0, 0, 0, 0, *around))
        total = term if total is None else total + term
    assert total is not None, "a window has a tap"
    return total


def _apart(x: Tensor, dim: int, step: int) -> Tensor:
    """Return elements along a dimension with step - 1 zeros between them."""
    if step == 1:
        return x
    size = x.layout.shape[dim]
    zeros = [0] * 2 * (x.ndim - dim - 1)
    wide = pad(unsqueeze(x, dim + 1), (*zeros, 0, step - 1))
    shape = x.layout.shape
    wide = reshape(wide, (*shape[:dim], size * step, *shape[dim + 1 :]))
    return narrow(wide, dim, 0, (size - 1) * step + 1)
