"""Caching allocator of host memory of transfers, pinned where a device can import it.

The first touch of fresh memory takes longer than the link to a discrete device needs
for the bytes (1.9 GB/s against 48 beside an NVIDIA H200), so memory whose reader has
dropped it is used again. Where pages can be imported they are pinned once, and the
device's copy engine writes what is read straight into them.

A block is lent for as long as the object lives that its bytes are seen through: every
`memoryview` and array made from that refers to it, and nothing has to be given back.
The pages belong to Python. They outlive the device where somebody still reads them.
"""

import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vkbackend.driver.queue import TimelinePoint
from vkbackend.errors import DeviceLost, VulkanError

from .host_pages import HostPages, anonymous_mappings
from .memory import Block, Memory

_MAX_BYTES = 1 << 30
_HOST_FRACTION = 8
"""All blocks together hold at most so much, and at most this part of the memory."""

_SIZE_BITS = 3
"""Bits of a size, after the first, that are kept: blocks are up to an eighth larger."""

_MIN_STEP = 1 << 16


@dataclass(eq=False, slots=True)
class HostBlock:
    """A block of host pages, its view and the work that writes it.

    Attributes
    ----------
    size : int
        Bytes.
    imported : Block or None
        The same pages for the device; None where it cannot reach them.
    point : TimelinePoint or None
        The last work that writes them.
    pages : HostPages
        The pages.
    """

    size: int
    imported: Block | None
    point: TimelinePoint | None
    pages: HostPages
    _view_reference: weakref.ref[Any] | None = None

    def view(self) -> memoryview:
        """Return the bytes; the block is lent until nothing refers to them."""
        view = self.pages.view()
        self._view_reference = weakref.ref(view.obj)
        return view

    def idle(self) -> bool:
        """Return whether neither a reader nor the device uses it; does not wait."""
        if self._view_reference is not None and self._view_reference() is not None:
            return False
        return self.point is None or self.point.done()


class HostAllocator:
    """Caching allocator of host blocks; the caller holds the device's lock.

    Parameters
    ----------
    memory : Memory
        Of the device that reads are from.
    imports : bool
        Whether the device is to write the pages itself, where it can.
    """

    def __init__(self, memory: Memory, imports: bool) -> None:
        self._memory = memory
        # A mapping without a file is what an import is known to take.
        able = anonymous_mappings() and memory.import_alignment > 0
        self.imports = imports and able
        self._bins: dict[int, list[HostBlock]] = {}
        self._max_bytes = min(_MAX_BYTES, _host_memory() // _HOST_FRACTION)

    @property
    def cached_bytes(self) -> int:
        """Bytes of the cached blocks."""
        return sum([block.size for block in self._all()])

    def allocate(self, size: int, pinned: bool = True) -> tuple[HostBlock, memoryview]:
        """Return a block that nothing uses, and so many of its bytes.

        Where all that may be kept is lent, it is one that will not be kept.

        Parameters
        ----------
        size : int
            Bytes.
        pinned : bool, default True
            Whether the device is to write it: then it is imported, if it can be.
        """
        block, cached = self._find(size)
        if pinned and cached:
            self._import(block)
        return block, block.view()[:size]

    def holding(self, address: int, size: int) -> tuple[HostBlock, int] | None:
        """Return the block that has bytes within reach of the device, and where there.

        Parameters
        ----------
        address, size : int
            Of bytes of this process, which somebody refers to.

        Returns
        -------
        tuple of (HostBlock, int), or None
            None if they are not all in one.
        """
        for block in self._all():
            start = address - block.pages.address
            if 0 <= start <= block.size - size:
                imported = block.imported is not None and not block.imported.freed
                return (block, start) if imported else None
        return None

    def _find(self, size: int) -> tuple[HostBlock, bool]:
        """Return an idle block, and whether it is kept."""
        step = max(_MIN_STEP, 1 << max(0, (size - 1).bit_length() - 1 - _SIZE_BITS))
        rounded = -(-size // step) * step
        for block in self._bins.get(rounded, ()):
            if block.idle():
                return block, True
        cached_bytes = self.cached_bytes
        if cached_bytes + rounded > self._max_bytes:
            self._drop_idle(cached_bytes + rounded - self._max_bytes)
            cached_bytes = self.cached_bytes
        cached = cached_bytes + rounded <= self._max_bytes
        block = HostBlock(rounded, None, None, HostPages.anonymous(rounded))
        if cached:
            self._bins.setdefault(rounded, []).append(block)
        return block, cached

    def _import(self, block: HostBlock) -> None:
        """Make the device reach a block, if it can and does not yet."""
        # One that was being dropped, when that was interrupted.
        self._memory.finish_frees()
        if block.imported is not None and not block.imported.freed:
            return
        block.imported = None
        alignment = self._memory.import_alignment
        pages = block.pages
        if self.imports and not (pages.size % alignment or pages.address % alignment):
            try:
                block.imported = self._memory.import_pages(pages, "pinned host memory")
            except DeviceLost:
                raise
            except VulkanError:
                # It would be refused again: from now on the host copies.
                self.imports = False

    def _drop_idle(self, wanted: int) -> None:
        """Give up idle blocks, until so many bytes are given up."""
        for block in self._all():
            if wanted > 0 and block.idle():
                wanted -= block.size
                self._drop(block)

    def _all(self) -> Iterator[HostBlock]:
        for blocks in tuple(self._bins.values()):
            yield from tuple(blocks)

    def _drop(self, block: HostBlock) -> None:
        if block.imported is not None:
            self._memory.free(block.imported)
        self._bins[block.size].remove(block)

    def trim(self) -> None:
        """Give up every idle block."""
        self._drop_idle(self.cached_bytes)

    def close(self) -> None:
        """Let go of all blocks: what is lent stays readable. The device is idle."""
        for block in self._all():
            self._drop(block)
        self._bins.clear()


def _host_memory() -> int:
    """Return the bytes of the host's memory, as far as that is known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return _HOST_FRACTION * _MAX_BYTES
