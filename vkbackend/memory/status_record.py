"""A status record: words that kernels write, and the host reads without a copy.

It lies in memory that the host sees through its caches, so that looking at it after a
wait costs no transfer. A kernel writes to it only when something is wrong.
"""

from typing import ClassVar

from .memory import Memory, MemoryUsage


class StatusRecord:
    """Status record of a device, zero-initialised.

    Attributes
    ----------
    address : int
        Device address of its words.
    SLOTS : int
        32-bit words. The first one is for what the host does not look at.
    """

    SLOTS: ClassVar[int] = 4096

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._size = 4 * self.SLOTS
        self._block = memory.allocate(self._size, MemoryUsage.READBACK, "status record")
        assert self._block.mapped is not None
        self._bytes = self._block.mapped[: self._size]
        self._watched = self._bytes[:0]
        self.address = self._block.address
        self.clear()

    def watch(self, slot: int) -> None:
        """Make `is_set` look at a slot."""
        if 4 * slot > len(self._watched):
            self._watched = self._bytes[4 : 4 * slot + 4]

    def is_set(self) -> bool:
        """Return whether a slot is not zero.

        What a kernel wrote is seen once its work has been waited for, as every command
        buffer ends with a barrier towards the host.
        """
        return self._watched.tobytes().strip(b"\0") != b""

    def words(self) -> list[int]:
        """Return all words."""
        return self._bytes.cast("I").tolist()

    def clear(self) -> None:
        """Set all words to zero; nothing that writes them may be running."""
        self._bytes[:] = bytes(self._size)

    def close(self) -> None:
        """Free the memory, if the device is idle; all words read as zero then."""
        self._bytes = memoryview(bytearray(self._size))
        self._watched = self._bytes[:0]
        self._memory.free(self._block)
