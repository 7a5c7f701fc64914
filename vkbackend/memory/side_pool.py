"""Buffers of pools beside a device's own: of another use, or from another source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .buffer import Buffer
from .memory import MemoryUsage
from .pool import MIN_BLOCK_SIZE, Pool
from .span import BlockSource

if TYPE_CHECKING:
    from vkbackend.device import Device


class SidePool:
    """Pool beside the one that a device allocates from.

    Parameters
    ----------
    gpu : Device
    source : BlockSource
        What its blocks come from.
    least : int
        Bytes of the smallest one.
    use : MemoryUsage
        What they are for.
    """

    def __init__(
        self, gpu: Device, source: BlockSource, least: int, use: MemoryUsage
    ) -> None:
        self.gpu = gpu
        self._pool = Pool(source, gpu.queues.all, least, use)
        gpu.pool.put_beside(self._pool)

    def allocate(self, size: int, *, name: str = "") -> Buffer:
        """Return a new buffer; its content is undefined.

        Parameters
        ----------
        size : int
            Bytes.
        name : str, default ""
            For memory dumps and messages.

        Raises
        ------
        OutOfDeviceMemory
            If there is none left.
        """
        with self.gpu.logical.lock:
            self.gpu.check_open("allocate")
            span = self._pool.allocate(size, name)
            return Buffer(self.gpu, span, size, name, self._pool.deferred_frees)


_host_pools: dict[Device, SidePool] = {}


def host_pool(gpu: Device) -> SidePool:
    """Return a device's pool of the host's memory; kernels use it as any other.

    The host reads and writes it where it is: neither `Device.read` nor `upload` submits
    anything. It is for what is small, as kernels reach it through the card's link.

    Parameters
    ----------
    gpu : Device
    """
    with gpu.logical.lock:
        gpu.check_open("host_pool")
        found = _host_pools.get(gpu)
        if found is None:
            use = MemoryUsage.READBACK
            found = SidePool(gpu, gpu.memory, MIN_BLOCK_SIZE, use)
            _host_pools[gpu] = found
            gpu.at_close.append(lambda: _host_pools.pop(gpu, None))
        return found
