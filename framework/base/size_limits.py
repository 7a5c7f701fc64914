"""Size limits of tensors on a device.

Shaders count elements in 32 bits, and SPIR-V takes an index into memory as a signed
number, so a tensor has fewer than 2^31 elements, in fewer than 2^31 words of 4 bytes.
Its storage is one allocation, of which drivers limit the size: 2 to 4 GiB are usual.
Every value on a device is checked here, before anything is recorded; the host has no
such limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from vkbackend.errors import OutOfDeviceMemory

from .errors import ShapeError
from .shape import Layout, Shape

if TYPE_CHECKING:
    from .device import GpuDevice
    from .dtype import DType

MOST_COUNTED = (1 << 31) - 1
"""Elements of a tensor, and 4-byte words that they take, on a device."""

ALWAYS_FIT = 1 << 26
"""Elements, of any dtype, that fit on every device: allocations of 1 GiB are always
possible (Vulkan 1.3, limits table), and an element has at most 8 bytes."""

WORD = 4
GIBIBYTE = 1 << 30


def check_value(name: str, shape: Shape, dtype: DType, device: GpuDevice) -> None:
    """Check that a device can allocate a tensor and index each of its elements.

    Parameters
    ----------
    name : str
        Op that makes the tensor; the message starts with it.
    shape : Shape
        Its shape.
    dtype : DType
        Its element type.
    device : GpuDevice
        Its device.

    Raises
    ------
    ShapeError
        If shaders cannot index its elements.
    OutOfDeviceMemory
        If the driver allows no allocation of its size.
    """
    numel = math.prod(shape)
    if numel <= ALWAYS_FIT:
        return
    size = numel * dtype.itemsize
    most = MOST_COUNTED // max(1, dtype.itemsize // WORD)
    if numel > most:
        raise ShapeError(
            f"{name}: shape {shape} of {dtype.name} is too large: it has {numel}"
            f" elements; a device takes at most {most}; use parts, or the cpu device"
        )
    largest = device.gpu.info.max_allocation_size
    if size > largest:
        raise OutOfDeviceMemory(
            f"{name}: shape {shape} of {dtype.name} is too large: it takes"
            f" {size / GIBIBYTE:.2f} GiB; one allocation on {device.name} has at most"
            f" {largest / GIBIBYTE:.2f} GiB; use parts, or the cpu device"
        )


def check_views(name: str, layouts: Iterable[Layout]) -> None:
    """Check the sizes of views, whose repeated elements shaders index too.

    Raises
    ------
    ShapeError
        If there are too many.
    """
    for layout in layouts:
        if layout.numel > MOST_COUNTED:
            raise ShapeError(
                f"{name}: shape {tuple(layout.shape)} is too large: it has"
                f" {layout.numel}"
                f" elements; a device takes at most {MOST_COUNTED}; use parts, or the"
                " cpu device"
            )
