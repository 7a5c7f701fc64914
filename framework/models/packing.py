"""Sequences packed into rows of one length, which do not see each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vkbackend.errors import ArgumentError

from .. import ops
from ..base.dtype import INTEGER, int64
from ..base.errors import ShapeError
from ..base.validation import as_int
from ..tensor.factories import DeviceLike, zeros_like
from ..tensor.from_data import tensor
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .cache import CacheStep, KeyValueCache, attention, visible
from .rotary import rotated

IGNORED = -100
"""Target of a token whose successor counts nothing."""


class Documents(KeyValueCache):
    """In the place of a cache: tokens see those of their own document, and no others.

    Parameters
    ----------
    numbers : Tensor, an integer dtype, shape (batch, length)
        The document that each token is of. Those of one are side by side.

    Examples
    --------
    >>> numbers = fw.tensor([[0, 0, 1, 1, 1]])
    >>> documents = fw.models.Documents(numbers)
    >>> documents.positions(documents.places(5)).tolist()
    [[0, 1, 0, 1, 2]]
    """

    def __init__(self, numbers: Tensor) -> None:
        if numbers.ndim != 2 or numbers.dtype not in INTEGER:
            raise ShapeError(
                f"Documents: numbers are {numbers.dtype.name} {tuple(numbers.shape)};"
                " they must be integers (batch, length)"
            )
        self.numbers = numbers
        self.length = numbers.shape[1]
        self.padding = None
        self._places = arange(self.length, device=numbers.device)

    def places(self, count: int) -> Tensor:
        """Return the places in a row, int64 (count,); errors as of `KeyValueCache`."""
        if count != self.length:
            raise ShapeError(
                f"Documents: tokens are {count} a row; numbers are {self.length}"
            )
        return self._places

    def positions(self, places: Tensor) -> Tensor:
        """Return positions within documents, int64 (batch, count)."""
        numbers = self.numbers
        begins = numbers[:, 1:] != numbers[:, :-1]
        starts = ops.where(begins, places[1:], 0)
        first = zeros_like(numbers[:, :1], dtype=int64)
        return places - ops.cummax(ops.cat([first, starts], 1), 1)[0]

    def step(self, count: int, window: int | None = None) -> CacheStep:
        """Return the tokens of the rows, which see `window` others at most."""
        return _DocumentStep(self, count, window)

    def mask(self, places: Tensor, window: int | None = None) -> Tensor:
        """Return which keys each query sees, bool (batch, 1, length, length)."""
        same = self.numbers[:, None, :, None] == self.numbers[:, None, None, :]
        return same & visible(places, places, window)

    def advance(self, count: int) -> None:
        """Do nothing: a row is whole."""

    def clear(self) -> None:
        """Do nothing: a row is whole."""


class _DocumentStep(CacheStep):
    """Tokens of rows that are whole: nothing is kept for others."""

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        angles: tuple[Tensor, Tensor] | None = None,
        *,
        scale: float | None = None,
        cap: float | None = None,
    ) -> Tensor:
        """Return what each token attends to; see `CacheStep`."""
        if angles is not None:
            query, key = rotated(query, angles), rotated(key, angles)
        return attention(query, key, value, self._seen(), scale, cap)


class PackedRows(NamedTuple):
    """Sequences in rows of one length; all are int64 of shape (rows, length).

    Attributes
    ----------
    tokens : Tensor
        0 where no sequence is.
    targets : Tensor
        The token after each in its sequence; -100 where there is none.
    positions : Tensor
        Within a sequence.
    documents : Tensor
        Number of each token's sequence within its row, -1 where none is.
    """

    tokens: Tensor
    targets: Tensor
    positions: Tensor
    documents: Tensor


def pack(
    sequences: Sequence[Sequence[int]],
    length: int,
    device: DeviceLike = None,
    *,
    counted: Sequence[Sequence[bool]] | None = None,
) -> PackedRows:
    """Return sequences side by side in rows of one length.

    Parameters
    ----------
    sequences : sequence of sequence of int
        Tokens. Each is put into the first row with room for it; a longer one than a row
        is cut into several.
    length : int
        Tokens of a row.
    device : Device, str or None, default the host
    counted : sequence of sequence of bool, or None
        Which tokens are targets, as those of an answer; None means all.

    Returns
    -------
    PackedRows
        For `loss`, which keeps sequences apart: its values are those of each sequence
        alone.

    Raises
    ------
    ArgumentError
        If `length` is below 1, there are no tokens, or `counted` has other lengths.

    Examples
    --------
    >>> packed = fw.models.pack([[5, 6, 7], [8, 9], [3]], 5)
    >>> packed.tokens.tolist(), packed.documents.tolist()
    ([[5, 6, 7, 8, 9], [3, 0, 0, 0, 0]], [[0, 0, 0, 1, 1], [0, -1, -1, -1, -1]])
    >>> packed.targets.tolist()[0]
    [6, 7, -100, 9, -100]
    """
    length = as_int("pack: length", length)
    if length < 1:
        raise ArgumentError(f"pack: length is {length}; it must be at least 1")
    if counted is not None and [*map(len, counted)] != [*map(len, sequences)]:
        raise ArgumentError(
            "pack: counted has other lengths than sequences; each token needs a value"
        )
    rows = _rows([len(each) for each in sequences], length)
    if not rows:
        raise ArgumentError(
            f"pack: {len(sequences)} sequences have no token; they must have one"
        )
    shape = (len(rows), length)
    tokens, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    targets, documents = np.full(shape, IGNORED), np.full(shape, -1)
    for row, pieces in enumerate(rows):
        at = 0
        for number, (which, start, stop) in enumerate(pieces):
            here = slice(at, at + stop - start)
            tokens[row, here] = sequences[which][start:stop]
            positions[row, here] = np.arange(stop - start)
            documents[row, here] = number
            after = np.array(sequences[which][start + 1 : stop], np.int64)
            if counted is not None:
                kept = np.array(counted[which][start + 1 : stop], bool)
                after = np.where(kept, after, IGNORED)
            targets[row, at : at + len(after)] = after
            at += stop - start
    made = (tokens, targets, positions, documents)
    return PackedRows(*(tensor(each.astype(np.int64), device=device) for each in made))


def _rows(sizes: Sequence[int], length: int) -> list[list[tuple[int, int, int]]]:
    """Return the pieces of each row: sequence, first token and the one after it."""
    rows: list[list[tuple[int, int, int]]] = []
    room: list[int] = []
    for which, size in enumerate(sizes):
        for start in range(0, size, length):
            stop = min(start + length, size)
            need = stop - start
            at = next((k for k, free in enumerate(room) if free >= need), len(rows))
            if at == len(rows):
                rows.append([])
                room.append(length)
            rows[at].append((which, start, stop))
            room[at] -= need
    return rows
