"""Address table: device addresses in the arguments of many kernels, written at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

ALIGNMENT = 16
"""Bytes to which the arguments of each kernel are aligned in the table."""

_SIZE = 8


class AddressTable:
    """Positions of buffer addresses in packed arguments."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int]] = []
        self._last: list[int] = []

    def add(self, place: int, number: int, offset: int) -> None:
        """Add a position: the buffer whose address stands there, and an offset."""
        self._rows.append((place, number, offset))

    def fix(self, content: bytearray) -> None:
        """Set the packed arguments; no position is added afterwards."""
        table = np.array(self._rows, np.uint64).reshape(-1, 3)
        self._words = np.frombuffer(content, np.uint64, len(content) // _SIZE)
        self._places = table[:, 0].astype(np.intp) // _SIZE
        self._numbers = table[:, 1].astype(np.intp)
        self._offsets = table[:, 2]

    def write(self, addresses: Iterable[int]) -> None:
        """Write the buffers' addresses, in order, if they changed since the last."""
        given = list(addresses)
        if given != self._last:
            found = np.array(given, np.uint64)
            # While it is empty, an interrupt leaves no addresses that count as written.
            self._last = []
            self._words[self._places] = found[self._numbers] + self._offsets
            self._last = given
