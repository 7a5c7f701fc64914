"""Convolutions of groups with few channels, as depthwise ones: not as products.

A product of a few rows would leave most of each tile of the other kernels idle. Here an
invocation computes one result, or one of a workgroup that share a filter's gradient,
from loads alone, which the caches serve; that is as much work for each multiplication
whatever the number of rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..dispatch import (
    Argument,
    Dispatch,
    Placed,
    Scratch,
    divisor,
    fold_grid,
    linear_grid,
)
from ..shape import Shape, TensorSpec, ceil_div
from .element import acc_size, storage_defines
from .reducing import sum_rows
from .window import Pair, Window

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

WORKGROUP = 256

MOST_ROWS = 8
"""Channels of a group's result from which tiles are quicker."""

MOST_TAPS = 64
"""Sums that an invocation keeps for a filter's gradient."""

WANTED_GROUPS = 1056
"""Workgroups that keep a GPU busy while filters' gradients sum over all pixels."""

MIN_PART = 4096
"""Pixels that are worth a workgroup."""

MAX_PARTS = 64


def forward(
    gpu: DeviceInfo,
    x: Placed,
    weight: Placed,
    bias: Placed | None,
    window: Window,
    groups: int,
) -> Dispatch | None:
    """Return the dispatch of a convolution that is quicker so, otherwise None.

    Parameters
    ----------
    gpu : DeviceInfo
    x, weight, bias : Placed
    window : Window
    groups : int
    """
    if not _is_few(gpu, weight.shape[0], groups):
        return None
    out = (x.shape[0], weight.shape[0], *window.output(*x.shape[2:]))
    push: dict[str, Argument] = {
        "x": "x", "weight": "weight", "out_": "out",
        "bias": "weight" if bias is None else "bias",
        **sizes(x.shape, out[1:], groups),
    }  # fmt: skip
    constants = {"HAS_BIAS": int(bias is not None), "FOR_INPUT": 0}
    return _of_results(TensorSpec(out, x.dtype), window, push, constants)


def input_vjp(
    gpu: DeviceInfo,
    grad_out: Placed,
    weight: Placed,
    size: Pair,
    window: Window,
    groups: int,
) -> Dispatch | None:
    """Return the dispatch of its gradient by images of a size, or None.

    Parameters as those of `forward`.
    """
    batch, *out = grad_out.shape
    channels = weight.shape[1] * groups
    if not _is_few(gpu, channels, groups):
        return None
    x = (batch, channels, *size)
    push: dict[str, Argument] = {
        "x": "grad_out", "weight": "weight", "bias": "weight", "out_": "out",
        **sizes(x, tuple(out), groups),
    }  # fmt: skip
    constants = {"HAS_BIAS": 0, "FOR_INPUT": 1}
    return _of_results(TensorSpec(x, grad_out.dtype), window, push, constants)


def weight_vjp(
    gpu: DeviceInfo, grad_out: Placed, x: Placed, window: Window, groups: int
) -> list[Dispatch] | None:
    """Return the dispatches of its gradient by the filters, or None.

    Parameters as those of `forward`.
    """
    _, *out = grad_out.shape
    few = _is_few(gpu, out[0], groups) and math.prod(window.kernel) <= MOST_TAPS
    filters = out[0] * x.shape[1] // groups
    pixels = x.shape[0] * out[1] * out[2]
    if not few or filters * pixels == 0:
        return None
    parts = min(ceil_div(WANTED_GROUPS, filters), pixels // MIN_PART, MAX_PARTS)
    share = ceil_div(pixels, max(1, parts))
    parts = ceil_div(pixels, share)
    numel = filters * math.prod(window.kernel)
    partial = Scratch("partial", acc_size(x.dtype) * numel * parts)
    push: dict[str, Argument] = {
        "x": "x", "grad": "grad_out", "out_": "out" if parts == 1 else partial,
        **sizes(x.shape, tuple(out), groups), "share": share,
        **_divisors(out[1] * out[2], out[2]),
    }  # fmt: skip
    constants = {**window.constants(), "LOCAL_X": WORKGROUP}
    defines = storage_defines(x.dtype, out_acc=parts > 1)
    kernel = "conv/direct_weight_vjp"
    first = Dispatch(kernel, fold_grid(filters, parts), push, constants, defines)
    if parts == 1:
        return [first]
    return [first, sum_rows(gpu, partial, grad_out, parts, numel)]


def sizes(x: Shape, out: Shape, groups: int) -> dict[str, int]:
    """Return the sizes that kernels of a convolution and its gradients share."""
    names = ("batch", "in_channels", "in_height", "in_width")
    return {
        **dict(zip(names, x)),
        **dict(zip(("out_channels", "out_height", "out_width"), out)),
        "groups": groups,
    }


def _is_few(gpu: DeviceInfo, channels: int, groups: int) -> bool:
    """Return whether the groups of a result are many, with few channels."""
    return gpu.kind != "software" and 1 < groups and channels <= MOST_ROWS * groups


def _of_results(
    out: TensorSpec,
    window: Window,
    push: dict[str, Argument],
    constants: dict[str, int],
) -> Dispatch:
    push |= _divisors(math.prod(out.shape[2:]), out.shape[3])
    constants |= {**window.constants(), "LOCAL_X": WORKGROUP}
    grid = linear_grid(out.numel, WORKGROUP)
    return Dispatch("conv/direct", grid, push, constants, storage_defines(out.dtype))


def _divisors(plane: int, width: int) -> dict[str, int]:
    names = ("plane_magic", "plane_shift", "width_magic", "width_shift")
    return dict(zip(names, (*divisor(plane), *divisor(width))))
