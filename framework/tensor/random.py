"""Random tensors: the same numbers for a seed on every device; see `philox`.

`generator` is where the draws come from; None means the default one, which
`manual_seed` seeds. Each call takes one of its streams, whatever it draws.
"""

from __future__ import annotations

from typing import Any

from .. import ops
from ..base.device import CPU
from ..base.device import device as get_device
from ..base.dtype import DTypeLike, as_dtype, int64
from ..base.errors import ShapeError
from ..base.philox import Generator
from ..base.shape import Shape
from ..base.validation import as_int, sizes_of
from .factories import DeviceLike, anchor, wanted
from .tensor import Tensor


def rand(
    *size: Any,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return uniform draws from [0, 1), equal on every device.

    They are multiples of 2^-24, of 2^-11 in float16 and of 2^-8 in bfloat16.
    """
    shape, kind, place = wanted("rand", size, dtype, device)
    made = ops.draw_uniform(anchor(place), shape, kind, generator)
    return made.requires_grad_(requires_grad)


def randn(
    *size: Any,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return standard normal draws, equal on every device up to float32's rounding."""
    shape, kind, place = wanted("randn", size, dtype, device)
    made = ops.draw_normal(anchor(place), shape, kind, generator)
    return made.requires_grad_(requires_grad)


def randint(
    low: int,
    high: int | Shape,
    size: Shape | int | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return integers from [low, high), equal on every device.

    Parameters
    ----------
    low : int
        Smallest number; `randint(high, size)` means 0.
    high : int
        One above the largest number; at most 2^32 above `low`.
    size : sequence of int or int
        Shape of the result.
    generator : Generator or None
    dtype : DType, str or None
        None means int64.
    device : Device, str or None, default the host

    Raises
    ------
    ShapeError
        If there is no such integer, or there are more than 2^32.
    """
    if size is None:
        low, high, size = 0, low, high
    kind = int64 if dtype is None else as_dtype(dtype)
    shape, _, place = wanted("randint", (sizes_of("randint", size),), None, device)
    end = as_int("randint: high", high)
    return ops.draw_integers(anchor(place), shape, low, end, kind, generator)


def randperm(
    n: int,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return the integers from 0 to n - 1 in random order, equal on every device.

    They are sorted by draws of 32 bits, so two neighbours in the result keep their
    order a little too often: with probability 2^-32 more than one half.
    """
    n = as_int("randperm: n", n)
    if n < 0:
        raise ShapeError(f"randperm: n is {n}; it must be at least 0")
    place = CPU if device is None else get_device(device)
    order = ops.draw_permutation(anchor(place), n, generator)
    return order.to(int64 if dtype is None else as_dtype(dtype))


def normal(
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    size: Shape | int | None = None,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return normal draws with the mean and deviation of each element.

    Either may be a tensor; if neither is, `size` says how many are drawn.

    Raises
    ------
    ShapeError
        If `size` is missing, or the tensors do not broadcast.
    """
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        return ops.normal(mean, std, generator)
    if size is None:
        raise ShapeError("normal: size is missing; say how many to draw")
    shape, kind, place = wanted("normal", (sizes_of("normal", size),), dtype, device)
    return ops.draw_normal(anchor(place), shape, kind, generator) * std + mean


def rand_like(x: Tensor, generator: Generator | None = None) -> Tensor:
    """Return uniform draws in the shape and dtype of `x`, on its device."""
    return ops.draw_uniform(x, x.shape, x.dtype, generator)


def randn_like(x: Tensor, generator: Generator | None = None) -> Tensor:
    """Return standard normal draws in the shape and dtype of `x`, on its device."""
    return ops.draw_normal(x, x.shape, x.dtype, generator)


def randint_like(
    x: Tensor, low: int, high: int | None = None, generator: Generator | None = None
) -> Tensor:
    """Return integers from [low, high) in the shape and dtype of `x`."""
    first, end = (0, low) if high is None else (low, high)
    return ops.draw_integers(x, x.shape, first, end, x.dtype, generator)
