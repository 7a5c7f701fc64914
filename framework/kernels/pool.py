"""Max pooling over images, by windows or by parts: launch parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..base.dtype import DType, bfloat16, float16, float32, float64
from ..base.shape import Shape, ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    StridedSpec,
    check_rounds,
    divisor,
)
from .conv.window import Pair, Window
from .linear import linear_dispatch
from .reduce import need_countable
from .shader_types import storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo


QUADS = float32, float16, bfloat16
"""Dtypes of which four gradients of a line are added up together."""


def max_pool2d_dispatch(
    gpu: DeviceInfo, x: StridedSpec, size: Pair, window: Window | None
) -> Dispatch:
    """Return the dispatch of max pooling of (batch, channels, height, width).

    Parameters
    ----------
    gpu : DeviceInfo
    x : StridedSpec
    size : (int, int)
        Height and width of the result.
    window : Window or None
        None divides images into as many parts as the result has elements.
    """
    kernel = "pool/max_pool2d" if window else "pool/adaptive_max_pool2d"
    if window is None:
        _check_parts(gpu, x.shape[2:], size)
    push: dict[str, Argument] = {"x": "x", "out_": "out", "indices": "indices"}
    return _dispatch(kernel, x, push, (*x.shape, *size), window, size)


def max_pool2d_grad_dispatch(
    gpu: DeviceInfo, grad_out: StridedSpec, size: Pair, window: Window | None
) -> Dispatch:
    """Return the dispatch of its gradient; `size` is that of the images."""
    kernel = "pool/max_pool2d_vjp" if window else "pool/adaptive_max_pool2d_vjp"
    batch, channels, *out = grad_out.shape
    if window is None:
        _check_parts(gpu, out, size)
    push: dict[str, Argument] = {"grad": "grad_out", "indices": "indices"}
    push["out_"] = "out"
    sizes = (batch, channels, *size, *out)
    quads = window is not None and size[1] % 4 == 0 and grad_out.dtype in QUADS
    return _dispatch(kernel, grad_out, push, sizes, window, size, quads=quads)


def max_pool3d_dispatch(
    gpu: DeviceInfo, x: StridedSpec, deep: Window, flat: Window
) -> Dispatch:
    """Return the dispatch of max pooling of (volumes, depth, height, width).

    `deep` is the window along depth, as the height of images, `flat` that of planes.
    """
    check_rounds(gpu, "max_pool3d", math.prod((*deep.kernel, *flat.kernel)))
    need_countable("max_pool3d", x)
    volumes, depth, height, width = x.shape
    out = (deep.output(depth, 1)[0], *flat.output(height, width))
    push: dict[str, Argument] = {"x": "x", "out_": "out", "indices": "indices"}
    push |= {"count": volumes * math.prod(out)}
    for name, size, result in zip(("depth", "height", "width"), x.shape[1:], out):
        magic, shift = divisor(max(1, result))
        push |= {f"in_{name}": size, f"divide_{name}[0]": magic}
        push |= {f"out_{name}": result, f"divide_{name}[1]": shift}
    constants = {
        **flat.constants(),
        "KERNEL_D": deep.kernel[0],
        "STRIDE_D": deep.stride[0],
        "PADDING_D": deep.padding[0],
        "DILATION_D": deep.dilation[0],
    }
    count, defines = volumes * math.prod(out), storage_defines(x.dtype)
    return linear_dispatch("pool/max_pool3d", count, push, constants, defines)


def fractional_max_pool_dispatch(
    gpu: DeviceInfo,
    x: StridedSpec,
    samples: DType,
    kernel: Shape,
    parts: Shape,
    draws: Shape,
) -> Dispatch:
    """Return the dispatch of fractional max pooling of (volumes, sizes).

    Parameters
    ----------
    gpu : DeviceInfo
    x : StridedSpec
        Of two sizes, or three.
    samples : DType
        Of the samples, of which a volume has as many as sizes.
    kernel, parts : tuple of int
        Size of the windows, and how many there are.
    draws : tuple of int
        Which sample each dimension takes.
    """
    check_rounds(gpu, "fractional_max_pool", math.prod(kernel))
    need_countable("fractional_max_pool", x)
    volumes, *sizes = x.shape
    missing, count = 3 - len(sizes), volumes * math.prod(parts)
    push: dict[str, Argument] = {"x": "x", "samples": "samples", "out_": "out"}
    push |= {"indices": "indices", "count": count, "draws": len(sizes)}
    constants = {}
    for dim, letter in enumerate("DHW"):
        given = dim >= missing
        at = dim - missing
        size, taps, part = (sizes[at], kernel[at], parts[at]) if given else (1, 1, 1)
        push |= {f"size[{dim}]": size, f"parts[{dim}]": part}
        push[f"draw[{dim}]"] = draws[at] if given else 0
        push[f"step[{dim}]"] = (size - taps) / max(1, part - 1)
        constants[f"TAPS_{letter}"] = taps
    defines = dict(storage_defines(x.dtype))
    if samples is float64:
        defines["WIDE_SAMPLES"] = "1"
    kernel_name = "pool/fractional_max_pool"
    return linear_dispatch(kernel_name, count, push, constants, defines)


def _check_parts(gpu: DeviceInfo, given: Shape | list[int], wanted: Pair) -> None:
    """Raise `ShapeError` if parts are larger than a software device may take."""
    rounds = [ceil_div(old, new) + 1 for old, new in zip(given, wanted)]
    check_rounds(gpu, "adaptive_max_pool2d", rounds[0] * rounds[1])


def _dispatch(
    kernel: str,
    x: StridedSpec,
    memory: Mapping[str, Argument],
    sizes: Shape,
    window: Window | None,
    result: Pair,
    *,
    quads: bool = False,
) -> Dispatch:
    """Return a dispatch; `sizes` are batch, channels, image and pooled image.

    With `quads` an invocation has four results.
    """
    names = ("planes", "in_height", "in_width", "out_height", "out_width")
    planes = sizes[0] * sizes[1]
    push = {**memory, **dict(zip(names, (planes, *sizes[2:])))}
    constants = window.constants() if window else {}
    count, defines = planes * result[0] * result[1], dict(storage_defines(x.dtype))
    if quads:
        count, defines = count // 4, {**defines, "QUADS": "1"}
    return linear_dispatch(kernel, count, push, constants, defines)
