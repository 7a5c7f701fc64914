"""Sampling: how the next token is drawn from logits, on their device."""

from __future__ import annotations

import math
from dataclasses import dataclass

from vkbackend.errors import ArgumentError

from .. import ops
from ..base.dtype import float32
from ..base.philox import Generator
from ..tensor.factories import zeros
from ..tensor.random import rand
from ..tensor.tensor import Tensor


@dataclass(frozen=True)
class Sampling:
    """Settings of sampling; those of `generate`, which has their meaning.

    Raises
    ------
    ArgumentError
        If a setting is out of range.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        """Check the settings."""
        if not 0 <= self.temperature < math.inf:
            raise ArgumentError(
                f"generate: temperature is {self.temperature}; it must be at least 0,"
                " and finite"
            )
        if self.top_k is not None and self.top_k < 1:
            raise ArgumentError(
                f"generate: top_k is {self.top_k}; it must be at least 1"
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ArgumentError(
                f"generate: top_p is {self.top_p}; it must be in (0, 1]"
            )
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise ArgumentError(
                f"generate: min_p is {self.min_p}; it must be in [0, 1]"
            )
        if not 0 < self.repetition_penalty < math.inf:
            raise ArgumentError(
                f"generate: repetition_penalty is {self.repetition_penalty}; it must be"
                " above 0, and finite"
            )


def processed(logits: Tensor, sampling: Sampling, seen: Tensor | None = None) -> Tensor:
    """Return logits after penalty, temperature, top-k, top-p and min-p, in this order.

    Parameters
    ----------
    logits : Tensor, float32, shape (batch, words)
    sampling : Sampling
        With temperature 0 there is only the penalty.
    seen : Tensor or None, shape (batch, words)
        Above 0 where the sequence has a token; needed for the penalty.

    Returns
    -------
    Tensor, float32, shape (batch, words)
        Negative infinity for tokens that are not drawn.
    """
    penalty = sampling.repetition_penalty
    if seen is not None and penalty != 1.0:
        less = ops.where(logits < 0, logits * penalty, logits / penalty)
        logits = ops.where(seen > 0, less, logits)
    if sampling.temperature == 0.0:
        return logits
    logits = logits / sampling.temperature
    top_k, top_p, min_p = sampling.top_k, sampling.top_p, sampling.min_p
    if top_k is not None and top_k < logits.shape[-1]:
        least = ops.topk(logits, top_k, -1)[0][:, -1:]
        logits = ops.where(logits < least, float("-inf"), logits)
    if top_p is not None and top_p < 1:
        sorted_logits, places = ops.sort(logits, -1, descending=True)
        chances = ops.softmax(sorted_logits, -1)
        before = ops.cumsum(chances, -1) - chances
        kept = ops.where(before < top_p, sorted_logits, float("-inf"))
        logits = ops.scatter(logits, -1, places, kept)
    if min_p:
        least = ops.amax(logits, -1, keepdim=True) + math.log(min_p)
        logits = ops.where(logits < least, float("-inf"), logits)
    return logits


class Sampler:
    """Draws tokens, and holds on the device which ones each sequence has.

    Parameters
    ----------
    sampling : Sampling
    generator : Generator or None
        Source of random numbers; None is that of the device.
    """

    def __init__(self, sampling: Sampling, generator: Generator | None = None) -> None:
        self._sampling = sampling
        self._generator = generator
        self._seen: Tensor | None = None

    def begin(self, tokens: Tensor, words: int, padding: Tensor | None) -> None:
        """Take prompts, (batch, length), without the padding at their left."""
        if self._sampling.repetition_penalty == 1.0:
            return
        batch, length = tokens.shape
        ones = zeros(tokens.shape, dtype=float32, device=tokens.device) + 1.0
        if padding is not None:
            places = ops.reshape(ops.cumsum(ones, -1), (batch, length))
            ones = (places > ops.reshape(padding, (-1, 1))).to(float32)
        counts = zeros((batch, words), dtype=float32, device=tokens.device)
        self._seen = ops.scatter_add(counts, -1, tokens, ones)

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return self._sampling.temperature == 0.0

    @property
    def seen(self) -> Tensor | None:
        """Above 0 where sequences have a token, (batch, words), if that is needed."""
        return self._seen

    def take(self, newest: Tensor) -> None:
        """Count tokens that sequences now have, (batch, 1) or more of each."""
        if self._seen is not None:
            self._seen.scatter_(-1, newest, 1.0)

    def with_token(self, seen: Tensor | None, newest: Tensor) -> Tensor | None:
        """Return what is seen with a further token of each sequence, (batch, 1)."""
        if seen is None:
            return None
        ones = zeros(newest.shape, dtype=float32, device=newest.device) + 1.0
        return ops.scatter(seen, -1, newest, ones)

    def chances(self, logits: Tensor, seen: Tensor | None) -> Tensor:
        """Return probabilities of tokens, float32 (rows, words)."""
        return ops.softmax(processed(logits, self._sampling, seen), -1)

    def pick(self, chances: Tensor) -> Tensor:
        """Return a token for each row of probabilities, int64 (rows, 1)."""
        return ops.multinomial(chances, 1, generator=self._generator)

    def pick_best(self, logits: Tensor, seen: Tensor | None) -> Tensor:
        """Return the most likely token of each row of logits, int64 (rows, 1)."""
        return ops.argmax(processed(logits, self._sampling, seen), -1, keepdim=True)

    def uniform(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return draws from [0, 1), float32, on the device of a tensor."""
        return rand(shape, device=like.device, generator=self._generator)

    def draw(self, logits: Tensor) -> Tensor:
        """Return a token for each row of logits, int64 (batch, 1)."""
        if self.is_greedy:
            return self.pick_best(logits, self._seen)
        return self.pick(self.chances(logits, self._seen))
