"""Hand out ranges of one block of memory: two-level segregated fit, on integers only.

Free ranges lie in bins by size: one first level per power of two, each split linearly
into sixteen. An allocation takes the newest range of its own bin if it is large enough,
else one of the next larger bin that has any, cuts off what it needs and puts the rest
back. A free merges with free neighbours at once. Both take constant time, but for an
allocation that finds no larger bin: it searches its own.

Source: Masmano, Ripoll, Crespo and Real, "TLSF: a new dynamic memory allocator for
real-time systems", ECRTS 2004.
"""

from .errors import ArgumentError

_LEVEL_BITS = 4
"""Bits of a size, after the first, that choose among the bins of one power of two."""


class Suballocator:
    """Allocator of byte ranges within `[0, size)`.

    Parameters
    ----------
    size : int
        Bytes to manage; what is left beyond a multiple of `alignment` is not used.
    alignment : int, default 256
        Bytes; every offset and every range's size is a multiple.
    """

    def __init__(self, size: int, *, alignment: int = 256) -> None:
        if size < 1 or alignment < 1:
            raise ArgumentError(
                f"Suballocator: size {size}, alignment {alignment}: both must be at"
                " least 1 byte"
            )
        self.size = size
        self.alignment = alignment
        self._used: dict[int, int] = {}
        self._free_sizes: dict[int, int] = {}
        self._free_starts_by_end: dict[int, int] = {}
        # A dict is a set that pops its newest member, so recent memory is reused first.
        self._bins: dict[int, dict[int, None]] = {}
        # Bit i is set while bin i has members: both levels' bitmaps in one integer.
        self._occupied = 0
        self.free_bytes = 0
        if size >= alignment:
            self._insert(0, size - size % alignment)

    @property
    def used_bytes(self) -> int:
        """Bytes handed out, rounded up to the alignment."""
        return self.size - self.size % self.alignment - self.free_bytes

    @property
    def empty(self) -> bool:
        """Whether nothing is handed out."""
        return not self._used

    @property
    def largest_free(self) -> int:
        """Bytes of the largest range that `allocate` can return now."""
        if not self._occupied:
            return 0
        last = self._bins[self._occupied.bit_length() - 1]
        return max(self._free_sizes[start] for start in last)

    def allocate(self, size: int) -> int | None:
        """Return the offset of a free range, now taken.

        Parameters
        ----------
        size : int
            Bytes, at least 1.

        Returns
        -------
        int or None
            A multiple of the alignment; None if no free range is large enough.

        Raises
        ------
        ArgumentError
            If `size` is less than 1.
        """
        if size < 1:
            raise ArgumentError(
                f"Suballocator.allocate: size is {size} bytes; it must be at least 1"
            )
        size = -(-size // self.alignment) * self.alignment
        start = self._find(size)
        if start is None:
            return None
        left = self._remove(start) - size
        if left:
            self._insert(start + size, left)
        self._used[start] = size
        return start

    def free(self, offset: int) -> None:
        """Give a range back and merge it with free neighbours.

        Parameters
        ----------
        offset : int
            What `allocate` returned.

        Raises
        ------
        ArgumentError
            If nothing is allocated there, as after a second free.
        """
        size = self._used.pop(offset, None)
        if size is None:
            raise ArgumentError(
                f"Suballocator.free: nothing is allocated at offset {offset};"
                " free each offset from allocate once"
            )
        before = self._free_starts_by_end.get(offset)
        after = offset + size
        if after in self._free_sizes:
            size += self._remove(after)
        if before is not None:
            size += self._remove(before)
            offset = before
        self._insert(offset, size)

    def _find(self, size: int) -> int | None:
        """Return the start of a free range of at least `size` bytes."""
        index = self._bin(size)
        own = self._bins.get(index)
        if own:
            newest = next(reversed(own))
            if self._free_sizes[newest] >= size:
                return newest
        above = self._occupied >> (index + 1)
        if above:
            lowest = index + (above & -above).bit_length()
            return next(reversed(self._bins[lowest]))
        # Ranges of the own bin may be too small: searched only when nothing is above.
        return next((s for s in own or () if self._free_sizes[s] >= size), None)

    def _bin(self, size: int) -> int:
        """Return the bin of a size: its power of two, then its next leading bits."""
        units = size // self.alignment
        level = units.bit_length() - 1
        if level < _LEVEL_BITS:
            return units
        return (level - _LEVEL_BITS << _LEVEL_BITS) + (units >> level - _LEVEL_BITS)

    def _insert(self, start: int, size: int) -> None:
        """Enter a free range."""
        index = self._bin(size)
        self._bins.setdefault(index, {})[start] = None
        self._occupied |= 1 << index
        self._free_sizes[start] = size
        self._free_starts_by_end[start + size] = start
        self.free_bytes += size

    def _remove(self, start: int) -> int:
        """Take out a free range and return its size."""
        size = self._free_sizes.pop(start)
        del self._free_starts_by_end[start + size]
        index = self._bin(size)
        members = self._bins[index]
        del members[start]
        if not members:
            self._occupied &= ~(1 << index)
        self.free_bytes -= size
        return size
