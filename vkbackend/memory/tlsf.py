"""TLSF (two-level segregated fit) suballocator of memory blocks, on integers only.

Free ranges lie in bins by size: one first level per power of two, each split linearly
into sixteen. An allocation takes the newest range of its own bin if it is large enough,
else one of the next larger bin that has any, cuts off what it needs and puts the rest
back. A free merges with free neighbours at once, but not across the start of a block.
Both take constant time, but for an allocation that finds no larger bin: it searches its
own.

The sets of blocks and of allocated ranges change atomically. All else is derived from
them, and is rebuilt after an interrupted operation.

Source: Masmano, Ripoll, Crespo and Real, "TLSF: a new dynamic memory allocator for
real-time systems", ECRTS 2004.
"""

from bisect import bisect_left, bisect_right, insort

from vkbackend.errors import ArgumentError

_LEVEL_BITS = 4
"""Bits of a size, after the first, that choose among the bins of one power of two."""


class Suballocator:
    """Allocator of ranges of some blocks, all in one space of addresses.

    Parameters
    ----------
    size : int, default 0
        Bytes of a first block, at address 0; see `add`.
    alignment : int, default 256
        Bytes; every range's size is a multiple, and its distance from the start of its
        block.
    """

    def __init__(self, size: int = 0, *, alignment: int = 256) -> None:
        if size < 0 or alignment < 1:
            raise ArgumentError(
                f"Suballocator: size {size}, alignment {alignment}: the first must not"
                " be negative, the second at least 1 byte"
            )
        self.alignment = alignment
        self._used: dict[int, int] = {}
        self._free_sizes: dict[int, int] = {}
        self._free_starts_by_end: dict[int, int] = {}
        # In order
        self._free_starts: list[int] = []
        # A dict is a set that pops its newest member, so recent memory is reused first.
        self._bins: dict[int, dict[int, None]] = {}
        # Bit i is set while bin i has members: both levels' bitmaps in one integer.
        self._occupied = 0
        self._blocks: dict[int, int] = {}
        self.free_bytes = 0
        self.used_bytes = 0
        # False while an operation is under way, and after one that was interrupted.
        self._consistent = True
        if size:
            self.add(0, size)

    def add(self, start: int, size: int) -> None:
        """Add a block; what is left beyond a multiple of `alignment` is not used."""
        if not self._consistent:
            self._rebuild()
        size -= size % self.alignment
        self._consistent = False
        self._blocks[start] = size
        if size:
            self._insert(start, size)
        self._consistent = True

    def remove(self, start: int) -> None:
        """Take a block out again, of which nothing is handed out."""
        size = self._blocks.get(start)
        if size is None or not self.is_free(start):
            raise ArgumentError(
                f"Suballocator.remove: no unused block starts at {start}; remove what"
                " was added, and free all of it first"
            )
        self._consistent = False
        del self._blocks[start]
        if size:
            self._remove(start)
        self._consistent = True

    def is_free(self, start: int) -> bool:
        """Return whether nothing of the block that starts there is handed out."""
        if not self._consistent:
            self._rebuild()
        return self._free_sizes.get(start, 0) == self._blocks[start]

    @property
    def empty(self) -> bool:
        """Whether nothing is handed out."""
        return not self._used

    @property
    def largest_free(self) -> int:
        """Bytes of the largest range that `allocate` can return now."""
        if not self._consistent:
            self._rebuild()
        if not self._occupied:
            return 0
        last = self._bins[self._occupied.bit_length() - 1]
        return max(self._free_sizes[start] for start in last)

    def allocate(self, size: int) -> int | None:
        """Return the start of a free range, now taken.

        Parameters
        ----------
        size : int
            Bytes, at least 1.

        Returns
        -------
        int or None
            None if no free range is large enough.

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
        if not self._consistent:
            self._rebuild()
        start, index = self._find(size)
        if start is None:
            return None
        self._consistent = False
        left = self._remove(start, index) - size
        if left:
            self._insert(start + size, left)
        self.used_bytes += size
        self._used[start] = size
        self._consistent = True
        return start

    def allocate_at(self, start: int, size: int) -> bool:
        """Take the range that starts at an address; return whether all of it was free.

        Parameters
        ----------
        start : int
            As `allocate` has returned it.
        size : int
            Bytes, at least 1.
        """
        size = -(-size // self.alignment) * self.alignment
        if not self._consistent:
            self._rebuild()
        place = bisect_right(self._free_starts, start) - 1
        if place < 0:
            return False
        first = self._free_starts[place]
        end, last = start + size, first + self._free_sizes[first]
        if end > last or (start - first) % self.alignment:
            return False
        self._consistent = False
        self._remove(first)
        if first < start:
            self._insert(first, start - first)
        if end < last:
            self._insert(end, last - end)
        self.used_bytes += size
        self._used[start] = size
        self._consistent = True
        return True

    def free_end(self, address: int) -> int:
        """Return the end of the free range that an address lies in; 0 without one."""
        if not self._consistent:
            self._rebuild()
        place = bisect_right(self._free_starts, address) - 1
        if place < 0:
            return 0
        start = self._free_starts[place]
        end = start + self._free_sizes[start]
        return end if address < end else 0

    def free(self, start: int) -> None:
        """Give a range back and merge it with free neighbours.

        Parameters
        ----------
        start : int
            What `allocate` returned.

        Raises
        ------
        ArgumentError
            If nothing is allocated there, as after a second free.
        """
        if not self._consistent:
            self._rebuild()
        if start not in self._used:
            raise ArgumentError(
                f"Suballocator.free: nothing is allocated at offset {start};"
                " free each offset from allocate once"
            )
        self._consistent = False
        size = self._used.pop(start)
        self.used_bytes -= size
        before = self._free_starts_by_end.get(start)
        after = start + size
        if after in self._free_sizes and after not in self._blocks:
            size += self._remove(after)
        if before is not None and start not in self._blocks:
            size += self._remove(before)
            start = before
        self._insert(start, size)
        self._consistent = True

    def restore(self, blocks: dict[int, int], used: dict[int, int]) -> None:
        """Begin anew with some blocks, of which some ranges are handed out.

        Parameters
        ----------
        blocks, used : dict of int to int
            Bytes by address: of the blocks, and of what `allocate` returned.
        """
        self._consistent = False
        self._blocks = {
            start: size - size % self.alignment for start, size in blocks.items()
        }
        self._used = used
        self._rebuild()

    def _rebuild(self) -> None:
        """Rebuild the free lists from the blocks and the allocated ranges."""
        self._free_sizes.clear()
        self._free_starts_by_end.clear()
        self._free_starts.clear()
        self._bins.clear()
        self._occupied = self.free_bytes = 0
        self.used_bytes = sum(self._used.values())
        taken = sorted(self._used)
        for start, size in self._blocks.items():
            end = start + size
            for used in taken[bisect_left(taken, start) : bisect_left(taken, end)]:
                if used > start:
                    self._insert(start, used - start)
                start = used + self._used[used]
            if end > start:
                self._insert(start, end - start)
        self._consistent = True

    def _find(self, size: int) -> tuple[int | None, int]:
        """Return the start of a free range of at least `size` bytes, and its bin."""
        index = self._bin(size)
        sizes = self._free_sizes
        own = self._bins.get(index)
        if own:
            newest = next(reversed(own))
            if sizes[newest] >= size:
                return newest, index
        above = self._occupied >> (index + 1)
        if above:
            lowest = index + (above & -above).bit_length()
            return next(reversed(self._bins[lowest])), lowest
        # Ranges of the own bin may be too small: searched only when nothing is above.
        return next((s for s in own or () if sizes[s] >= size), None), index

    def _bin(self, size: int) -> int:
        """Return the bin of a size: its power of two, then its next leading bits."""
        units = size // self.alignment
        level = units.bit_length() - 1 - _LEVEL_BITS
        return units if level < 0 else (level << _LEVEL_BITS) + (units >> level)

    def _insert(self, start: int, size: int) -> None:
        """Insert a free range into its bin."""
        index = self._bin(size)
        members = self._bins.get(index)
        if members is None:
            members = self._bins[index] = {}
        members[start] = None
        self._occupied |= 1 << index
        self._free_sizes[start] = size
        self._free_starts_by_end[start + size] = start
        insort(self._free_starts, start)
        self.free_bytes += size

    def _remove(self, start: int, index: int | None = None) -> int:
        """Take out a free range, of a bin that may be known, and return its size."""
        size = self._free_sizes.pop(start)
        del self._free_starts_by_end[start + size]
        del self._free_starts[bisect_left(self._free_starts, start)]
        if index is None:
            index = self._bin(size)
        members = self._bins[index]
        del members[start]
        if not members:
            self._occupied &= ~(1 << index)
        self.free_bytes -= size
        return size
