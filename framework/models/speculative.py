"""Speculative decoding: a small model drafts tokens, the model itself judges them.

Source: Leviathan et al. 2023, arXiv:2211.17192.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from .. import ops
from ..autograd.engine import no_grad
from ..base.dtype import float32, int64
from ..jit import jit
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .cache import KeyValueCache
from .sampling import Sampler

Step = Callable[[Tensor], Tensor]


class Logits(Protocol):
    """What gives logits of the token after each, (batch, length, words)."""

    def __call__(self, tokens: Tensor, cache: KeyValueCache, /) -> Tensor:
        """Add tokens to a cache."""


class Judged(NamedTuple):
    """What becomes of drafted tokens.

    Attributes
    ----------
    tokens : Tensor, int64, shape (batch, drafted + 1)
        Tokens of the model's own distribution, as far as they are valid.
    kept : Tensor, int64, no dimensions
        Number of drafted tokens that every sequence keeps; one more token is valid.
    """

    tokens: Tensor
    kept: Tensor


def judged(
    guesses: Tensor, chances: Tensor, drafted: Tensor, sampler: Sampler
) -> Judged:
    """Accept or replace drafted tokens so that they are of the model's distribution.

    Parameters
    ----------
    guesses : Tensor, int64, shape (batch, drafted)
    chances : Tensor, float32, shape (batch, drafted + 1, words)
        Probabilities that the model gives each token, and the one after them.
    drafted : Tensor, float32, shape (batch, drafted, words)
        Those that the guesses were drawn from.
    sampler : Sampler
        Source of random numbers.

    Notes
    -----
    All sequences keep as many tokens: where one is rejected, the others keep the
    token that they accept there, which is of their distribution, too.
    """
    batch, count = guesses.shape
    words = chances.shape[-1]
    places = ops.unsqueeze(guesses, -1)
    wanted = ops.gather(chances[:, :count], -1, places).reshape(batch, count)
    given = ops.gather(drafted, -1, places).reshape(batch, count)
    kept = sampler.uniform((batch, count), chances) * given < wanted
    rest = ops.clamp(chances[:, :count] - drafted, 0)
    total = ops.sum(rest, -1, keepdim=True)
    # Where both distributions are one, nothing is left, and every guess is kept.
    rest = ops.where(total > 0, rest, chances[:, :count])
    rest = ops.cat([rest, chances[:, count:]], 1)
    drawn = sampler.pick(rest.reshape(-1, words)).reshape(batch, count + 1)
    number = _run(kept)
    column = arange(count, device=guesses.device)
    accepted = column < ops.unsqueeze(number, -1)
    tokens = ops.where(accepted, guesses, drawn[:, :count])
    return Judged(ops.cat([tokens, drawn[:, count:]], 1), ops.amin(number))


def matched(guesses: Tensor, tokens: Tensor) -> Judged:
    """Accept drafted tokens up to the first that is not the most likely one.

    Parameters
    ----------
    guesses : Tensor, int64, shape (batch, drafted)
    tokens : Tensor, int64, shape (batch, drafted + 1)
        The most likely tokens.
    """
    kept = guesses == tokens[:, : guesses.shape[1]]
    return Judged(tokens, ops.amin(_run(kept)))


def _run(kept: Tensor) -> Tensor:
    """Return how many tokens are kept before the first that is not, (batch,)."""
    return ops.sum(ops.cumprod(kept.to(int64), 1), 1)


class Speculation:
    """Rounds in which one model drafts tokens and another judges them.

    Parameters
    ----------
    model, draft : LanguageModel
    caches : (KeyValueCache, KeyValueCache)
        Of both, with the tokens before the newest.
    sampler : Sampler
        Of the model; the draft has its settings, too.
    drafted : int
        Tokens that are drafted in a round.
    """

    def __init__(
        self,
        model: Logits,
        draft: Logits,
        caches: tuple[KeyValueCache, KeyValueCache],
        sampler: Sampler,
        drafted: int,
    ) -> None:
        self._model, self._draft = model, draft
        self._cache, self._draft_cache = caches
        self._sampler = sampler
        self._drafted = drafted

    def round(self, newest: Tensor) -> tuple[Tensor, Tensor]:
        """Return the newest token after a round, and what was written.

        Parameters
        ----------
        newest : Tensor, int64, shape (batch, 1)

        Returns
        -------
        tuple of two Tensors, int64, shapes (batch, 1) and (batch, drafted + 2)
            The second has tokens, and in its last column how many of them but one are
            valid.
        """
        sampler, count = self._sampler, self._drafted
        sampler.take(newest)
        seen = [sampler.seen]
        guesses: list[Tensor] = []
        chances: list[Tensor] = []
        current = newest
        for _ in range(count):
            logits = self._draft(current, self._draft_cache)[:, -1].to(float32)
            if sampler.is_greedy:
                current = sampler.pick_best(logits, seen[-1])
            else:
                chances.append(sampler.chances(logits, seen[-1]))
                current = sampler.pick(chances[-1])
            guesses.append(current)
            seen.append(sampler.with_token(seen[-1], current))
        # For its cache alone: the round may keep every guess.
        self._draft(current, self._draft_cache)
        given = ops.cat(guesses, 1)
        found = self._judged(ops.cat([newest, *guesses], 1), given, chances, seen)
        kept = found.kept
        for cache in (self._cache, self._draft_cache):
            cache.position.sub_(count - kept)
        number = ops.expand(ops.reshape(kept, (1, 1)), (len(newest), 1))
        last = ops.gather(found.tokens, 1, number)
        valid = arange(count + 1, device=newest.device) <= kept
        sampler.take(ops.where(valid, found.tokens, found.tokens[:, :1]))
        return last, ops.cat([found.tokens, number], 1)

    def _judged(
        self,
        tokens: Tensor,
        guesses: Tensor,
        drafted: list[Tensor],
        seen: list[Tensor | None],
    ) -> Judged:
        """Return what becomes of guesses; `tokens` has the newest before them."""
        sampler = self._sampler
        logits = self._model(tokens, self._cache).to(float32)
        batch, count, words = logits.shape
        flat = logits.reshape(-1, words)
        known = [each for each in seen if each is not None]
        stacked = ops.stack(known, 1).reshape(-1, words) if known else None
        if sampler.is_greedy:
            best = sampler.pick_best(flat, stacked)
            return matched(guesses, best.reshape(batch, count))
        chances = sampler.chances(flat, stacked).reshape(batch, count, words)
        return judged(guesses, chances, ops.stack(drafted, 1), sampler)


def speculated(
    speculation: Speculation, following: Step, newest: Tensor, count: int, drafted: int
) -> Iterator[tuple[Tensor, list[list[int]] | None]]:
    """Yield tokens that are added, (batch, 1), and their values where they are known.

    Parameters
    ----------
    speculation : Speculation
    following : callable
        Returns the token after the newest; for the last ones, for which a round would
        write past the end.
    newest : Tensor, int64, shape (batch, 1)
        The first of them.
    count : int
        Number of all.
    drafted : int
        Tokens that are drafted in a round.
    """
    turn = jit(speculation.round) if newest.is_gpu else speculation.round
    yield newest, None
    left = count - 1
    while left > 0:
        if left <= drafted:
            with no_grad():
                newest = following(newest)
            yield newest, None
            left -= 1
            continue
        with no_grad():
            newest, written = turn(newest)
            values: list[list[int]] = written.tolist()
        for column in range(values[0][-1] + 1):
            yield written[:, column : column + 1], [[row[column]] for row in values]
            left -= 1
