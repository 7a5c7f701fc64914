"""im2col and col2im: windows of images as columns, and back."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ...base.dtype import float64
from ...base.shape import TensorSpec
from ...ir.kernel_call import Argument, Dispatch, check_rounds
from ..linear import linear_dispatch
from ..shader_types import storage_defines
from .window import Window

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

QUAD = 4
"""Elements of a vector."""


def im2col_dispatch(x: TensorSpec, window: Window) -> Dispatch:
    """Return the dispatch that copies the windows of images `x` into columns."""
    places = math.prod(window.output(*x.shape[2:]))
    count = math.prod((*x.shape[:2], *window.kernel, places))
    return _dispatch("conv/im2col", x, window, count)


def col2im_dispatch(
    gpu: DeviceInfo, out: TensorSpec, window: Window, bias: bool = False
) -> Dispatch:
    """Return the dispatch that sums columns, the op's `x`, into images.

    Parameters
    ----------
    gpu : DeviceInfo
    out : TensorSpec, shape (batch, channels, height, width)
    window : Window
    bias : bool, default False
        Whether the op's `bias` is added to each channel.
    """
    check_rounds(gpu, "col2im", math.prod(window.kernel))
    # Without a bias its address is not read; any will do.
    added: dict[str, Argument] = {"bias": "bias" if bias else "x"}
    added["channels"] = max(1, out.shape[1])
    found = _dispatch("conv/col2im", out, window, out.numel)
    constants = {**found.constants, "HAS_BIAS": int(bias)}
    return replace(found, push={**found.push, **added}, constants=constants)


def _dispatch(kernel: str, x: TensorSpec, window: Window, count: int) -> Dispatch:
    batch, channels, high, wide = x.shape
    rows, columns = window.output(high, wide)
    sides = zip(window.kernel, window.stride, window.padding, window.extra)
    apart = list(sides)[1] == (1, 1, 0, 0)
    quads = apart and wide % QUAD == 0 and x.dtype is not float64
    if quads:
        wide, columns, count = wide // QUAD, columns // QUAD, count // QUAD
    names = ("planes", "in_height", "in_width", "out_height", "out_width")
    sizes = (batch * channels, high, wide, rows, columns)
    push: dict[str, Argument] = {"x": "x", "out_": "out", **dict(zip(names, sizes))}
    defines = storage_defines(x.dtype)
    constants = {**window.constants(), "QUADS": int(quads)}
    return linear_dispatch(kernel, count, push, constants, defines)
