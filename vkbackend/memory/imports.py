"""Imports: buffers on host pages and on shared memory of one device; their lifetime."""

import collections
import contextlib
import weakref
from typing import Any

from vkbackend.driver.queue import wait_all
from vkbackend.errors import ArgumentError

from .buffer import Buffer
from .host_pages import HostPages
from .memory import Block, Memory
from .span import DeferredFrees, MemorySpan, Region
from .tlsf import Suballocator


class _Revoked:
    """In the place of a buffer's device, once its memory is gone."""

    name = "no device: its memory was revoked"


_REVOKED: Any = _Revoked()


class Imports:
    """Blocks of a buffer each, beside the pool; the caller holds the device's lock.

    Host pages stay mapped until the device has let go of them: after the death of their
    buffer, and of the work that it carried. So does memory that others share.

    Attributes
    ----------
    deferred_frees : collections.deque
        Dying buffers append `(span, points)`, as those of the pool do to its own.
    """

    def __init__(self, memory: Memory) -> None:
        self.deferred_frees: DeferredFrees = collections.deque()
        self._memory = memory
        # By the handle of the memory: the block, and the span that a buffer holds.
        self._spans: dict[int, tuple[Block, weakref.ref[MemorySpan]]] = {}

    def add(self, pages: HostPages, name: str) -> MemorySpan:
        """Import pages, all of them; see `Device.import_pages`."""
        self._check_alignment(pages)
        self.release(wait=self._find(pages) is not None)
        found = self._find(pages)
        if found is not None:
            raise ArgumentError(
                f"import_pages: the pages are imported already: {pages!r} meets"
                f" {found.size} bytes at {found.pages:#x}; use the buffer that lies"
                f" there"
            )
        return self.adopt(self._memory.import_pages(pages, name))

    def adopt(self, block: Block) -> MemorySpan:
        """Return a new block as the span of a buffer."""
        try:
            region = Region(block, Suballocator(alignment=1))
            span = MemorySpan(region, 0, block.size, block.address, ())
            self._spans[block.memory] = block, weakref.ref(span)
        except BaseException:
            self._memory.free(block)
            raise
        return span

    def _check_alignment(self, pages: HostPages) -> None:
        """Raise ArgumentError if the device cannot import the pages."""
        alignment = self._memory.import_alignment
        name = self._memory.logical.info.name
        if not alignment:
            raise ArgumentError(
                f"import_pages: {name} imports no host pages; copy through `upload` and"
                f" `read`"
            )
        if pages.address % alignment or pages.size % alignment:
            raise ArgumentError(
                f"import_pages: the pages are not aligned: {pages!r}; {name} takes"
                f" multiples of {alignment} bytes"
            )

    def _find(self, pages: HostPages) -> Block | None:
        """Return an import that shares bytes with the pages."""
        start, stop = pages.address, pages.address + pages.size
        for block, _ in self._spans.values():
            if block.pages and block.pages < stop and start < block.pages + block.size:
                return block
        return None

    def release(self, wait: bool) -> int:
        """Let go of the pages of dead buffers; return how many imports are left.

        Parameters
        ----------
        wait : bool
            Wait for the work that uses them; otherwise such are kept for now.
        """
        for dead in tuple(self.deferred_frees):
            span, points = dead
            if wait:
                wait_all(points)
            if all([point.done() for point in points]):
                self._free(span.region.block)
                # A signal handler may have come to it first.
                with contextlib.suppress(ValueError):
                    self.deferred_frees.remove(dead)
        for block, reference in tuple(self._spans.values()):
            if reference() is None:
                # It was leaked on the way to its owner, or in a finalizer.
                self._memory.logical.idle()
                self._free(block)
        return len(self._spans)

    def revoke(self, buffer: Buffer) -> None:
        """Free the block of a buffer, which is of no use afterwards."""
        block = buffer.span.region.block
        known = self._spans.get(block.memory)
        if known is None or known[0] is not block:
            raise ArgumentError(f"revoke: {buffer!r} is no import; drop it instead")
        wait_all(buffer.points())
        buffer.device, buffer.size = _REVOKED, 0
        self._free(block)

    def _free(self, block: Block) -> None:
        """Free a block, and then forget it unless another has its handle by now."""
        self._memory.free(block)
        known = self._spans.get(block.memory)
        if known is not None and known[0] is block:
            del self._spans[block.memory]

    def close(self) -> None:
        """Let go of all pages; the device must be idle."""
        for block, _ in tuple(self._spans.values()):
            self._free(block)
