"""What batches and transfers share: copies, and waits for other queues."""

import ctypes
from collections.abc import Callable, Sequence
from functools import partial

from .timeline import Queue, TimelinePoint
from .vk import generated as vk
from .vk import runtime


def cross_queue_waits(
    queue: Queue, points: Sequence[TimelinePoint]
) -> dict[Queue, int]:
    """Return, for each other queue, the number that work on `queue` must wait for."""
    waits: dict[Queue, int] = {}
    for point in points:
        if point.queue is not queue and not point.done():
            waits[point.queue] = max(waits.get(point.queue, 0), point.value)
    return waits


def copy_command(
    function: Callable[..., None],
    source: tuple[int, int],
    destination: tuple[int, int],
    size: int,
) -> Callable[[int], object]:
    """Return what records a copy into a command buffer.

    Parameters
    ----------
    function : callable
        `vkCmdCopyBuffer2` of the device.
    source, destination : tuple of int
        A `VkBuffer` and an offset in bytes.
    size : int
        Bytes.
    """
    region = runtime.make(
        vk.VkBufferCopy2, srcOffset=source[1], dstOffset=destination[1], size=size
    )
    info = runtime.make(
        vk.VkCopyBufferInfo2,
        srcBuffer=source[0],
        dstBuffer=destination[0],
        regionCount=1,
        pRegions=region,
    )
    return partial(_call_with, function, info)


def _call_with(
    function: Callable[..., None], info: ctypes.Structure, commands: int
) -> None:
    function(commands, ctypes.byref(info))
