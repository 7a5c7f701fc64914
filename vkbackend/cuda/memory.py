"""Memory on a card that CUDA made: Vulkan uses it, other processes' cards pull from it.

Between memory that Vulkan made, cards of one host copy at a tenth of the rate.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from ctypes import c_void_p
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vkbackend.driver.device_info import DeviceInfo
from vkbackend.errors import CudaError
from vkbackend.memory.buffer import Buffer

from . import driver as cuda_driver
from .driver import CudaContext

if TYPE_CHECKING:
    from vkbackend.device import Device

DRIVER = "NVIDIA"
"""Name of the Vulkan driver that imports what CUDA made."""

_numbers = itertools.count(1)


@dataclass(eq=False)
class CudaBlock:
    """Memory that this process has mapped: its own, or another one's.

    Attributes
    ----------
    handle, address, size : int
        Of the memory at CUDA, in bytes.
    buffer : Buffer or None
        The same memory as Vulkan sees it; None of another process's.
    number : int
        One that no other block of this process ever has.
    """

    handle: int
    address: int
    size: int
    buffer: Buffer | None = None
    number: int = field(default_factory=_numbers.__next__)

    @property
    def vulkan(self) -> Buffer:
        """The buffer of memory of this process's own."""
        assert self.buffer is not None
        return self.buffer


class CudaCopy:
    """A copy that was started; it has what conditions ask of a `TimelinePoint`."""

    def __init__(self, memory: CudaMemory, event: c_void_p) -> None:
        self._memory, self._event = memory, event
        self._done = False

    def wait(self, timeout_seconds: float) -> bool:
        """Return whether it has ended, once it has or the time is up.

        Parameters
        ----------
        timeout_seconds : float
        """
        until = time.monotonic() + timeout_seconds
        while not self._done:
            if self._memory.context.happened(self._event):
                self._done = True
                self._memory.idle_events.append(self._event)
            elif time.monotonic() > until:
                return False
        return True


class CudaMemory:
    """Memory of a card for the processes of its machine.

    Parameters
    ----------
    gpu : Device
        The card.

    Attributes
    ----------
    context : CudaContext
    idle_events : list of c_void_p
        Those that no copy uses.

    Raises
    ------
    CudaError
        If CUDA cannot be used, or does not see the card.
    """

    def __init__(self, gpu: Device) -> None:
        self.gpu = gpu
        driver = cuda_driver.load()
        self.context = CudaContext(driver, device_of(gpu.info))
        self.idle_events: list[c_void_p] = []
        self._events: list[c_void_p] = []
        self._blocks: dict[int, CudaBlock] = {}

    def allocate(self, size: int) -> tuple[CudaBlock, int]:
        """Return new memory, and a descriptor of it that the caller closes.

        Parameters
        ----------
        size : int
            Bytes, at least 1; it is rounded up.
        """
        step = self.context.granularity()
        size = -(-size // step) * step
        block = CudaBlock(self.context.create(size), 0, size)
        self._blocks[block.number] = block
        descriptor = -1
        try:
            descriptor = self.export(block)
            block.address = self.context.mapped(block.handle, size)
            name = "memory of CUDA"
            block.buffer = self.gpu.import_descriptor(descriptor, size, name=name)
        except BaseException:
            if descriptor >= 0:
                os.close(descriptor)
            self.free(block)
            raise
        return block, descriptor

    def export(self, block: CudaBlock) -> int:
        """Return a descriptor of memory of this process, which the caller closes."""
        return self.context.exported(block.handle)

    def open(self, descriptor: int, size: int) -> CudaBlock:
        """Return memory of another process, whose descriptor stays the caller's.

        Parameters
        ----------
        descriptor : int
        size : int
            Bytes, as its block has them.
        """
        block = CudaBlock(self.context.imported(descriptor), 0, size)
        self._blocks[block.number] = block
        try:
            block.address = self.context.mapped(block.handle, size)
        except BaseException:
            self.free(block)
            raise
        return block

    def free(self, block: CudaBlock) -> None:
        """Let go of memory that no copy, and no work of Vulkan's, uses any more."""
        if self._blocks.pop(block.number, None) is None:
            return
        buffer, block.buffer = block.buffer, None
        if buffer is not None and self.gpu.usable:
            self.gpu.revoke(buffer)
        if block.address:
            self.context.unmap(block.address, block.size)
        self.context.release(block.handle)

    def pull(
        self, source: CudaBlock, start: int, target: CudaBlock, goal: int, size: int
    ) -> CudaCopy:
        """Start a copy by the card, after those before it.

        Parameters
        ----------
        source, target : CudaBlock
        start, goal : int
            Offsets in them, in bytes.
        size : int
            Bytes.
        """
        if not self.idle_events:
            self._events.append(self.context.event())
            self.idle_events.append(self._events[-1])
        event = self.idle_events.pop()
        self.context.copy(source.address + start, target.address + goal, size, event)
        return CudaCopy(self, event)

    def close(self) -> None:
        """Wait for what is copied, and let go of all memory."""
        for block in self._blocks.values():
            if block.buffer is not None and self.gpu.usable:
                self.gpu.revoke(block.buffer)
        self.context.synchronize()
        self.idle_events.clear()
        while self._events:
            self.context.destroy(self._events.pop())
        for block in tuple(self._blocks.values()):
            block.buffer = None
            self.free(block)
        self.context.close()


def is_nvidia(info: DeviceInfo) -> bool:
    """Return whether a card's Vulkan driver imports what CUDA made."""
    return info.driver_name == DRIVER


def device_of(info: DeviceInfo) -> int:
    """Return CUDA's number of a card.

    Parameters
    ----------
    info : DeviceInfo

    Raises
    ------
    CudaError
        If CUDA cannot be used, or does not see the card.
    """
    driver = cuda_driver.load()
    found = driver.devices().get(info.uuid)
    if found is None:
        raise CudaError(f"CUDA does not see {info.name} ({info.uuid})")
    missing = driver.missing(found)
    if missing:
        raise CudaError(f"{info.name} has no {missing}")
    return found


def why_not(info: DeviceInfo, peers: Sequence[str]) -> str:
    """Return why a card cannot pull from others by CUDA; nothing if it can.

    Parameters
    ----------
    info : DeviceInfo
    peers : sequence of str
        UUIDs of the others.
    """
    try:
        own, driver = device_of(info), cuda_driver.load()
        known = driver.devices()
        for uuid in peers:
            if uuid not in known:
                return f"CUDA does not see the card {uuid}"
            if not driver.accesses(own, known[uuid]):
                return f"{info.name} does not reach the memory of the card {uuid}"
    except CudaError as error:
        return str(error)
    return ""


def obstacle_among(infos: Sequence[DeviceInfo]) -> str:
    """Return why the cards of this machine cannot pull from each other; or nothing.

    Parameters
    ----------
    infos : sequence of DeviceInfo
        All devices that Vulkan has.
    """
    cards = [each for each in infos if is_nvidia(each)]
    if not cards:
        return "Vulkan has no card with NVIDIA's driver"
    uuids = [each.uuid for each in cards]
    return next(filter(None, [why_not(each, uuids) for each in cards]), "")
