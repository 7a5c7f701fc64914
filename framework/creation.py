"""Functions that make tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import ops
from .device import CPU, Device
from .device import device as get_device
from .dtype import DType, DTypeLike, as_dtype, float32
from .rng import default_generator
from .shape import Shape
from .tensor import Tensor

DeviceLike = Device | str | int | None


def tensor(
    data: Any,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor with a copy of `data`; see `Tensor` for the parameters."""
    return Tensor(data, dtype, device, requires_grad)


def from_numpy(array: np.ndarray, device: DeviceLike = None) -> Tensor:
    """Return a tensor with a copy of a NumPy array's elements."""
    return Tensor(array, device=device)


def full(
    shape: Shape | int,
    value: float,
    dtype: DTypeLike = float32,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor with every element `value`."""
    made = _full(shape, value, as_dtype(dtype), _device(device))
    return made.requires_grad_(requires_grad)


def zeros(
    shape: Shape | int,
    dtype: DTypeLike = float32,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of zeros."""
    return full(shape, 0, dtype, device, requires_grad)


def ones(
    shape: Shape | int,
    dtype: DTypeLike = float32,
    device: DeviceLike = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of ones."""
    return full(shape, 1, dtype, device, requires_grad)


def zeros_like(x: Tensor) -> Tensor:
    """Return zeros in the shape and dtype of `x`, on its device."""
    return full_like(x, 0)


def ones_like(x: Tensor) -> Tensor:
    """Return ones in the shape and dtype of `x`, on its device."""
    return full_like(x, 1)


def full_like(x: Tensor, value: float) -> Tensor:
    """Return `value` in the shape and dtype of `x`, on its device."""
    made: Tensor = ops.fill_like(x, x.shape, value, x.dtype)
    return made


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1,
    dtype: DTypeLike | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return the numbers from `start` (0 if only one is given) up to before `stop`."""
    first, last = (0, start) if stop is None else (start, stop)
    numbers = np.arange(first, last, step)
    if dtype is None and numbers.dtype == np.float64:
        dtype = float32
    return Tensor(numbers, dtype, device)


def rand(
    shape: Shape | int, device: DeviceLike = None, requires_grad: bool = False
) -> Tensor:
    """Return uniform float32 draws from [0, 1), the same on every device."""
    like = _placeholder(shape, _device(device))
    made: Tensor = ops.random_uniform(like, default_generator.stream())
    return made.requires_grad_(requires_grad)


def randn(
    shape: Shape | int, device: DeviceLike = None, requires_grad: bool = False
) -> Tensor:
    """Return standard normal float32 draws.

    Notes
    -----
    Source: Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
    """
    radius = (1.0 - rand(shape, device)).log() * -2.0
    angle = rand(shape, device) * (2.0 * np.pi)
    return (radius.sqrt() * angle.cos()).requires_grad_(requires_grad)


def _device(device: DeviceLike) -> Device:
    return CPU if device is None else get_device(device)


def _shape(shape: Shape | int) -> Shape:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _placeholder(shape: Shape | int, device: Device) -> Tensor:
    """Return a tensor whose one element stands for all: it is never read."""
    point = Tensor.from_host(np.zeros((), np.float32), device)
    return ops.expand(point, _shape(shape))


def _full(shape: Shape | int, value: float, dtype: DType, device: Device) -> Tensor:
    point = Tensor.from_host(np.zeros((), np.float32), device)
    made: Tensor = ops.fill_like(point, _shape(shape), value, dtype)
    return made
