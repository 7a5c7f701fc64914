"""The ragged size of nested tensors, and where each sequence begins."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ..base.dtype import int64
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor

_numbers = itertools.count(1)


class RaggedSize(int):
    """Size that differs from sequence to sequence; it equals itself alone.

    Attributes
    ----------
    offsets : Tensor, shape (sequences + 1,), int64
        Where each sequence begins and ends among all elements.
    width : int or None
        What sequences are padded to; None means the length of the longest.
    """

    offsets: Tensor
    width: int | None

    def __new__(cls, offsets: Tensor) -> RaggedSize:
        """Return the size of sequences that begin and end at some offsets."""
        made = super().__new__(cls, -1)
        made.offsets = offsets
        made._name = f"j{next(_numbers)}"
        made._read = None
        made.width = None
        return made

    _name: str
    _read: np.ndarray | None

    def __repr__(self) -> str:
        return self._name

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return id(self)

    def bounds(self) -> np.ndarray:
        """Return the offsets on the host; the first time waits for them."""
        if self._read is None:
            self._read = self.offsets.host_copy()
        return self._read

    def lengths(self) -> np.ndarray:
        """Return the length of each sequence."""
        return np.diff(self.bounds())

    def longest(self) -> int:
        """Return the length of the longest sequence."""
        return int(self.lengths().max(initial=0))

    def rows(self, width: int, like: Any) -> Tensor:
        """Return where each element is among sequences padded to `width`."""
        lengths = self.lengths()
        owner = np.repeat(np.arange(len(lengths)), lengths)
        within = np.arange(len(owner)) - np.repeat(self.bounds()[:-1], lengths)
        return tensor(owner * width + within, int64, like.device)

    def owners(self, like: Any) -> Tensor:
        """Return the sequence of each element."""
        lengths = self.lengths()
        return tensor(np.repeat(np.arange(len(lengths)), lengths), int64, like.device)
