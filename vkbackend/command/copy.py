"""Buffer copies and cross-queue semaphore waits, for batches and transfers."""

import ctypes
from collections.abc import Callable, Sequence
from functools import partial

from vkbackend.driver.queue import Queue, TimelinePoint
from vkbackend.vk import generated as vk
from vkbackend.vk import runtime


def cross_queue_waits(
    queue: Queue, points: Sequence[TimelinePoint]
) -> dict[Queue, int]:
    """Return the timeline value of each other queue that work on `queue` waits for."""
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
    """Return a command that records a copy into a command buffer.

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


class Copier:
    """Records copies with reused structures; not shared between users."""

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self._region = runtime.make(vk.VkBufferCopy2)
        self._info = runtime.make(
            vk.VkCopyBufferInfo2, regionCount=1, pRegions=self._region
        )
        self._reference = ctypes.byref(self._info)

    def record(
        self,
        commands: int,
        source: tuple[int, int],
        destination: tuple[int, int],
        size: int,
    ) -> None:
        """Record a copy; see `copy_command`."""
        info, region = self._info, self._region
        info.srcBuffer, region.srcOffset = source
        info.dstBuffer, region.dstOffset = destination
        region.size = size
        self._function(commands, self._reference)
