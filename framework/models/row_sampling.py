"""Sampling of rows of a batch, each with settings and random numbers of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .. import ops
from ..base.dtype import float32, int64
from ..tensor.factories import DeviceLike, zeros
from ..tensor.from_data import tensor
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .sampling import Sampling

_GREEDY = (0.0, math.inf, math.inf, -math.inf, 1.0)
"""Temperature, top_k, top_p, logarithm of min_p and penalty of a greedy row."""


class SamplingSteps(NamedTuple):
    """What a batch needs of sampling, as some row does.

    Attributes
    ----------
    draws : bool
        Whether a temperature is above 0.
    filters : int
        Rows that are sorted, for top_k, top_p or min_p: a power of two, or all.
    penalises : bool
        Whether there is a penalty.
    """

    draws: bool
    filters: int
    penalises: bool

    @classmethod
    def of(cls, settings: Sequence[Sampling], rows: int | None = None) -> SamplingSteps:
        """Return what texts with such settings need, of a batch of so many rows."""
        count = sum(_filters(each) for each in settings)
        most = len(settings) if rows is None else rows
        return cls(
            any(each.temperature > 0 for each in settings),
            min(1 << (count - 1).bit_length(), most) if count else 0,
            any(each.repetition_penalty != 1 for each in settings),
        )


def _filters(sampling: Sampling) -> bool:
    """Return whether some tokens are not drawn; top_p 1 and min_p 0 leave all."""
    if sampling.temperature == 0:
        return False
    few = sampling.top_k is not None or sampling.top_p not in (None, 1)
    return few or bool(sampling.min_p)


class RowSettings:
    """Settings of sampling of each row, and which tokens it has, on a device.

    Parameters
    ----------
    rows, words : int
        Size of the batch, and number of tokens that there are.
    device : Device, str or None

    Attributes
    ----------
    numbers : Tensor, float32, shape (rows, 5)
        Of each row what `draw` takes.
    seen : Tensor or None, float32, shape (rows, words)
        Above 0 where a row that is penalised has a token; None until there is one.
    """

    def __init__(self, rows: int, words: int, device: DeviceLike = None) -> None:
        self._held = np.tile(np.array(_GREEDY, np.float32), (rows, 1))
        self._words, self._device = words, device
        self.numbers = tensor(self._held, device=device)
        self.seen: Tensor | None = None
        self._filtered: tuple[list[int], Tensor | None] = ([], None)

    def filtered(self, texts: Mapping[int, Sampling], count: int) -> Tensor | None:
        """Return the rows whose tokens are filtered, int64 (count,), or None of none.

        Some are there twice, so that there are as many as are sorted.

        Parameters
        ----------
        texts : mapping of int to Sampling
            Settings of the rows that have a text.
        count : int
            `SamplingSteps.filters`.
        """
        rows = [row for row, each in texts.items() if _filters(each)]
        rows += rows[-1:] * (count - len(rows))
        if rows != self._filtered[0]:
            made = tensor(rows, dtype=int64, device=self._device) if rows else None
            self._filtered = rows, made
        return self._filtered[1]

    def begin(self, row: int, sampling: Sampling, tokens: Sequence[int]) -> None:
        """Give a row its settings, and the tokens that a penalty counts."""
        penalty = sampling.repetition_penalty
        self._held[row] = (
            sampling.temperature,
            min(sampling.top_k or self._words, self._words),
            # Sums of chances may exceed 1 by their rounding.
            math.inf if sampling.top_p in (None, 1.0) else sampling.top_p,
            math.log(sampling.min_p) if sampling.min_p else -math.inf,
            penalty,
        )
        self.numbers = tensor(self._held, device=self._device)
        if penalty == 1:
            return
        own = np.zeros(self._words, np.float32)
        own[list(tokens)] = 1
        if self.seen is None:
            shape = (len(self._held), self._words)
            self.seen = zeros(shape, dtype=float32, device=self._device)
        self.seen[row].copy_(tensor(own))


def draw(
    logits: Tensor,
    newest: Tensor,
    chosen: Tensor,
    settings: Tensor,
    seen: Tensor | None,
    steps: SamplingSteps,
    filtered: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Return the next token of each row, and which ones it has now.

    What a row gets depends on its logits, settings and number alone, and on nothing of
    the others.

    Parameters
    ----------
    logits : Tensor, float32, shape (rows, words)
    newest : Tensor, int64, shape (rows, 1)
        The tokens before, which a penalty counts too.
    chosen : Tensor, float32, shape (rows, 1)
        A random number of each row in [0, 1), by which it draws.
    settings : Tensor, float32, shape (rows, 5)
        `RowSettings.numbers`.
    seen : Tensor or None
        `RowSettings.seen`; needed for a penalty.
    steps : SamplingSteps
    filtered : Tensor or None, int64, shape (steps.filters,)
        `RowSettings.filtered`: rows that are sorted; None sorts all.

    Returns
    -------
    tokens : Tensor, int64, shape (rows, 1)
    seen : Tensor or None, shape (rows, words)
    """
    temperature, top_k, top_p, min_p, penalty = ops.split(settings, 1, -1)
    if steps.penalises and seen is not None:
        seen = ops.scatter(seen, -1, newest, 1.0)
        less = ops.where(logits < 0, logits * penalty, logits / penalty)
        logits = ops.where(seen > 0, less, logits)
    likeliest = ops.argmax(logits, -1, keepdim=True)
    if not steps.draws:
        return likeliest, seen
    is_greedy = temperature == 0
    logits = logits / ops.where(is_greedy, 1.0, temperature)
    limits = top_k, top_p, min_p
    if steps.filters and (filtered is None or steps.filters >= len(logits)):
        logits = _filtered(logits, *limits)
    elif steps.filters and filtered is not None:
        part, *own = (ops.index_select(x, 0, filtered) for x in (logits, *limits))
        logits = ops.index_copy(logits, 0, filtered, _filtered(part, *own))
    return ops.where(is_greedy, likeliest, drawn(logits, chosen)), seen


def _filtered(logits: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """Return logits after top-k, top-p and min-p, as `sampling.processed`."""
    ordered, places = ops.sort(logits, -1, descending=True)
    # Those that equal the last one of the first k stay.
    ranks = arange(logits.shape[-1], device=logits.device).to(float32)
    least = ops.amin(ops.where(ranks < top_k, ordered, math.inf), -1, keepdim=True)
    ordered = ops.where(ordered < least, -math.inf, ordered)
    chances = ops.softmax(ordered, -1)
    before = ops.cumsum(chances, -1) - chances
    ordered = ops.where(before < top_p, ordered, -math.inf)
    ordered = ops.where(ordered < ordered[:, :1] + min_p, -math.inf, ordered)
    return ops.scatter(logits, -1, places, ordered)


def drawn(logits: Tensor, numbers: Tensor) -> Tensor:
    """Return where the cumulated chances of a row exceed its number, int64 (rows, 1).

    Parameters
    ----------
    logits : Tensor, float32, shape (rows, words)
    numbers : Tensor, float32, shape (rows, 1)
        In [0, 1).
    """
    chances = ops.softmax(logits, -1)
    # Sums of a parallel scan may fall by a rounding where a chance is 0.
    sums = ops.where(chances > 0, ops.cumsum(chances, -1), -1.0)
    reached = sums > numbers * ops.amax(sums, -1, keepdim=True)
    return ops.argmax(reached.to(float32), -1, keepdim=True)
