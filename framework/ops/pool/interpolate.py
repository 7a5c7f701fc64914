"""Resizing of signals and images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ...autograd.tape import shown_as
from ...base.errors import ShapeError
from ...base.shape import Shape
from ...base.validation import as_int_or_ints, as_number
from ...dispatch.autocast_policy import autocast_float32_on_device
from ...dispatch.replayable import replayable
from .filter_weights import Cubic, Linear, Nearest, Rule, Shares, Smoothed
from .nearest import nearest_resampled
from .resample import resampled

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor

# Dimensions of the tensor that each mode takes.
_MODES = {
    "nearest": (3, 4, 5),
    "nearest-exact": (3, 4, 5),
    "area": (3, 4, 5),
    "linear": (3,),
    "bilinear": (4,),
    "trilinear": (5,),
    "bicubic": (4,),
}


NODES = {
    "nearest": "UpsampleNearest{}D",
    "nearest-exact": "UpsampleNearestExact{}D",
    "linear": "UpsampleLinear{}D",
    "bilinear": "UpsampleBilinear{}D",
    "bicubic": "UpsampleBicubic{}D",
    "trilinear": "UpsampleTrilinear{}D",
    "area": "AdaptiveAvgPool{}D",
}
"""PyTorch's names of nodes by mode, for numbers of dimensions."""


def _node(
    x: Tensor,
    size: object = None,
    scale_factor: object = None,
    mode: str = "nearest",
    align_corners: object = None,
    recompute_scale_factor: object = None,
    antialias: bool = False,
) -> str:
    dims = x.ndim - 2
    if mode == "area" and dims == 1:
        return ""
    return NODES[mode].format(dims) + "Aa" * antialias + "Backward0"


@autocast_float32_on_device
@shown_as(_node, "x")
@replayable
def interpolate(
    x: Tensor,
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
    x : Tensor, shape (batch, channels, ...)
        Float; one to three dimensions are resized.
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
    Tensor, shape (batch, channels, ...)

    Raises
    ------
    ShapeError
        If the mode does not go with the number of dimensions, or an argument is
        missing, out of range, or not for this mode.
    """
    _check(x, mode, align_corners, recompute_scale_factor, size)
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ShapeError(
            "interpolate: antialias is for modes 'bilinear' and 'bicubic', not"
            f" {mode!r}"
        )
    sizes, factors = _wanted(x, size, scale_factor)
    if recompute_scale_factor or mode == "area":
        factors = (None,) * len(sizes)
    pairs = [*zip(x.layout.shape[2:], sizes)]
    steps = [
        1 / factor if factor else size / max(out, 1)
        for (size, out), factor in zip(pairs, factors)
    ]
    if mode.startswith("nearest"):
        centred = mode == "nearest-exact"
        nearest = {
            2 + k: Nearest(size, out, step, centred)
            for k, ((size, out), step) in enumerate(zip(pairs, steps))
        }
        return nearest_resampled("interpolate", x, nearest)
    rules = {
        2 + k: _rule(mode, size, out, step, bool(align_corners), antialias)
        for k, ((size, out), step) in enumerate(zip(pairs, steps))
    }
    return resampled("interpolate", x, rules)


def _check(
    x: Tensor,
    mode: str,
    align_corners: bool | None,
    recompute: bool | None,
    size: int | Shape | None,
) -> None:
    if len(x.layout.shape) not in _MODES.get(mode, ()):
        modes = [name for name, ndims in _MODES.items() if len(x.layout.shape) in ndims]
        raise ShapeError(
            f"interpolate: mode is {mode!r} for x of shape {tuple(x.shape)}; a"
            f" {x.ndim}-D"
            f" tensor takes {', '.join(modes) or 'none: it must be 3-D to 5-D'}"
        )
    if align_corners is not None and mode in ("nearest", "nearest-exact", "area"):
        raise ShapeError(
            f"interpolate: align_corners is {align_corners}; mode {mode!r} has no"
            " corners to align, so leave it out"
        )
    if recompute and size is not None:
        raise ShapeError(
            "interpolate: recompute_scale_factor is for scale_factor, and size is given"
        )


def _wanted(
    x: Tensor, size: int | Shape | None, scale_factor: float | tuple[float, ...] | None
) -> tuple[Shape, tuple[float | None, ...]]:
    """Return the new sizes, and the factors where they were given."""
    dims = len(x.layout.shape) - 2
    if (size is None) == (scale_factor is None):
        raise ShapeError(
            f"interpolate: size is {size} and scale_factor is {scale_factor}; one of"
            " them must be given"
        )
    if size is not None:
        given = as_int_or_ints("interpolate: size", size)
        sizes = (given,) * dims if isinstance(given, int) else given
        if len(sizes) != dims or min(sizes) < 1:
            raise ShapeError(
                f"interpolate: size is {size}; it must be one number or {dims}, each at"
                " least 1"
            )
        return sizes, (None,) * dims
    several = isinstance(scale_factor, list | tuple)
    wanted: Any = scale_factor if several else (scale_factor,) * dims
    factors = tuple([as_number("interpolate: scale_factor", by) for by in wanted])
    if len(factors) != dims or not all(factor > 0 for factor in factors):
        raise ShapeError(
            f"interpolate: scale_factor is {scale_factor}; it must be one number or"
            f" {dims}, each above 0"
        )
    sizes = tuple(math.floor(old * by) for old, by in zip(x.layout.shape[2:], factors))
    return sizes, factors


def _rule(
    mode: str, size: int, out: int, step: float, aligned: bool, smooth: bool
) -> Rule:
    if mode == "area":
        return Shares(size, out)
    if aligned:
        step = (size - 1) / (out - 1) if out > 1 else 0.0
    if smooth:
        return Smoothed(size, out, step, mode == "bicubic")
    return (Cubic if mode == "bicubic" else Linear)(size, out, step, aligned)
