"""Buffers in memory of a card that CUDA made: kernels use them, other cards pull them.

A device has one such pool, whoever asks for it: few large blocks, of which buffers are
spans, as those of the device's own pool are. Each block is a descriptor that others
import, so they are few; its number tells them which one a buffer lies in.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vkbackend.errors import CudaError, OutOfDeviceMemory
from vkbackend.memory.buffer import Buffer
from vkbackend.memory.memory import Block, MemoryUsage, gibibytes
from vkbackend.memory.side_pool import SidePool

from .memory import CudaBlock, CudaMemory

if TYPE_CHECKING:
    from vkbackend.device import Device

LEAST_BLOCK = 32 << 20
"""Bytes of the smallest block."""


class _Blocks:
    """Blocks that CUDA made, as a pool asks for them; see `BlockSource`."""

    def __init__(self, memory: CudaMemory) -> None:
        self.logical = memory.gpu.logical
        self.memory = memory
        # By the handle that Vulkan has for the same memory.
        self.made: dict[int, CudaBlock] = {}

    def allocate(self, size: int, use: MemoryUsage, name: str) -> Block:
        """Return a new block, in whole pieces of what CUDA makes."""
        info = self.memory.gpu.info
        if size > info.max_allocation_size:
            raise OutOfDeviceMemory(
                f"memory of CUDA: {gibibytes(size)} are asked for, and {info.name}"
                f" imports {gibibytes(info.max_allocation_size)} at most"
            )
        try:
            made, descriptor = self.memory.allocate(size)
        except CudaError as error:
            raise OutOfDeviceMemory(str(error)) from error
        os.close(descriptor)
        block = made.vulkan.span.region.block
        self.made[block.memory] = made
        return block

    def free(self, block: Block) -> None:
        """Free a block; other processes keep it until they let go of it, too."""
        made = self.made.pop(block.memory, None)
        if made is not None:
            self.memory.free(made)

    def finish_frees(self) -> None:
        """Finish interrupted frees."""
        self.memory.gpu.memory.finish_frees()


class CudaPool(SidePool):
    """Pool of memory that CUDA made; `shared_pool` returns that of a device.

    Parameters
    ----------
    gpu : Device

    Raises
    ------
    CudaError
        If CUDA cannot be used, or does not see the card.
    """

    def __init__(self, gpu: Device) -> None:
        self.users = 0
        self._memory = CudaMemory(gpu)
        self._blocks = _Blocks(self._memory)
        super().__init__(gpu, self._blocks, LEAST_BLOCK, MemoryUsage.DEVICE)
        gpu.at_close.append(self._close)

    def place_of(self, buffer: Buffer, offset: int) -> tuple[CudaBlock, int] | None:
        """Return where an offset in a buffer is; None if it is not in this pool.

        Parameters
        ----------
        buffer : Buffer
        offset : int
            Bytes.

        Returns
        -------
        (CudaBlock, int) or None
            The block, and the offset in it.
        """
        block = buffer.span.region.block
        made = self._blocks.made.get(block.memory)
        if made is None or made.buffer is None:
            return None
        if made.buffer.span.region.block is not block:
            return None
        return made, buffer.span.offset + offset

    def numbers(self) -> set[int]:
        """Return the numbers of its blocks."""
        return {each.number for each in tuple(self._blocks.made.values())}

    def export(self, block: CudaBlock) -> int:
        """Return a descriptor of a block, which the caller closes."""
        return self._memory.export(block)

    def release(self) -> None:
        """Let go of what `shared_pool` has returned.

        After the last user, memory is given back that no buffer lies in; waits for the
        work that uses it.
        """
        with self.gpu.logical.lock:
            self.users -= 1
            if self.users or not self.gpu.usable:
                return
            self.gpu.settle()
            self._pool.release_unused()
            if not self._blocks.made:
                self.gpu.pool.remove_beside(self._pool)
                self.gpu.at_close.remove(self._close)
                self._close()

    def _close(self) -> None:
        """Let go of all memory."""
        _pools.pop(self.gpu, None)
        self._blocks.made.clear()
        self._memory.close()


_pools: dict[Device, CudaPool] = {}


def shared_pool(gpu: Device) -> CudaPool:
    """Return the pool of a device, which the caller releases.

    Parameters
    ----------
    gpu : Device

    Raises
    ------
    CudaError
        If CUDA cannot be used, or does not see the card.
    """
    with gpu.logical.lock:
        found = _pools.get(gpu)
        if found is None:
            found = _pools[gpu] = CudaPool(gpu)
        found.users += 1
        return found
