"""Generation of text: a prompt at once, then token by token with a cache."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

import numpy as np

from vkbackend.errors import ArgumentError

from .. import ops
from ..autograd.engine import no_grad
from ..base.device import Device
from ..base.dtype import float32
from ..base.errors import ShapeError
from ..base.philox import Generator
from ..jit import jit
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from .cache import KeyValueCache
from .sampling import Sampler, Sampling
from .speculative import Speculation, speculated

Added = Iterator[tuple[Tensor, list[list[int]] | None]]
"""Tokens of each sequence, (batch, 1), with their values where these are known."""


class LanguageModel(Protocol):
    """What text is generated with."""

    def __call__(
        self, tokens: Tensor, cache: KeyValueCache, /, *, logits_to_keep: int = 0
    ) -> Tensor:
        """Return logits of the token after each, (batch, length, words).

        Of so many of the last tokens where it is not 0.
        """

    def new_cache(self, batch: int, length: int, device: Device, /) -> KeyValueCache:
        """Return an empty cache for sequences of `length` tokens."""


def generate(
    model: LanguageModel,
    tokens: Tensor,
    count: int,
    *,
    mask: Tensor | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    stop: Collection[int] = (),
    generator: Generator | None = None,
    seed: int | None = None,
    prefill_chunk: int | None = None,
    draft: LanguageModel | None = None,
    draft_tokens: int = 4,
) -> Tensor:
    """Return tokens with those that a language model adds to them.

    Parameters
    ----------
    model : nn.Module
        A `LanguageModel`, such as `Llama`.
    tokens : Tensor, int64, shape (batch, length)
        Prompts, on the model's device; shorter ones begin with padding.
    count : int
        Number of tokens to add at most.
    mask : Tensor or None, bool or int64, shape (batch, length)
        False or 0 for padding, which is at the left; None if there is none.
    temperature : float, default 0
        What logits are divided by before one is drawn; 0 takes the most likely token.
    top_k : int or None
        Only so many of the most likely tokens are drawn from.
    top_p : float or None
        Only the most likely tokens are drawn from that have this probability together
        (Holtzman et al. 2020, arXiv:1904.09751), the last included; in (0, 1].
    min_p : float or None
        Only tokens are drawn from whose probability is at least this part of that of
        the most likely one (Nguyen et al. 2024, arXiv:2407.01082); in [0, 1].
    repetition_penalty : float, default 1
        What positive logits of tokens that the sequence has, prompt included, are
        divided by, and negative ones multiplied (Keskar et al. 2019, arXiv:1909.05858).
    stop : collection of int
        Tokens at which a sequence ends. What follows it, while others go on, is the
        first of them.
    generator : Generator or None
        Source of random numbers; None is that of the device.
    seed : int or None
        Seed of a new generator, in place of `generator`.
    prefill_chunk : int or None
        Number of a prompt's tokens that are computed at once, which bounds temporary
        memory; None is all.
    draft : nn.Module or None
        A smaller `LanguageModel` of the same words, on the same device, which guesses
        tokens that the model then judges together (Leviathan et al. 2023,
        arXiv:2211.17192).
    draft_tokens : int, default 4
        Number of tokens that are guessed at a time.

    Returns
    -------
    Tensor, int64, shape (batch, length + added)

    Raises
    ------
    ShapeError
        If `tokens` has not two dimensions, or no token, or `mask` another shape.
    ArgumentError
        If a number is out of range; if padding follows a token; if there are both
        `generator` and `seed`; if the draft has other words.

    Notes
    -----
    On a Vulkan device the step of a token is recorded once and replayed: the position
    is on the device. The host reads one token of each sequence per step. Logits are
    changed in the order of `transformers`: the penalty, temperature, top-k, top-p,
    min-p.

    With a draft greedy text is the same, but where two tokens are as likely within the
    rounding of sums, and sampled text has the same distribution; all tokens that a
    round of guesses adds are read at once. Of a batch all sequences keep as many
    guesses as the one that keeps the fewest.

    Examples
    --------
    >>> model = fw.models.load("SmolLM2-135M", "gpu")  # doctest: +SKIP
    >>> fw.models.generate(model, prompt, 64)  # doctest: +SKIP
    """
    added = generate_stream(
        model,
        tokens,
        count,
        mask=mask,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        stop=stop,
        generator=generator,
        seed=seed,
        prefill_chunk=prefill_chunk,
        draft=draft,
        draft_tokens=draft_tokens,
    )
    return ops.cat([tokens, *added], 1)


def generate_stream(
    model: LanguageModel,
    tokens: Tensor,
    count: int,
    *,
    mask: Tensor | None = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float = 1.0,
    stop: Collection[int] = (),
    generator: Generator | None = None,
    seed: int | None = None,
    prefill_chunk: int | None = None,
    draft: LanguageModel | None = None,
    draft_tokens: int = 4,
) -> Iterator[Tensor]:
    """Return an iterator over the tokens that a language model adds, as they come.

    Parameters and errors are those of `generate`; errors are raised at the call, that
    of a draft with other words when the first token is asked for.

    Returns
    -------
    iterator of Tensor, int64, shape (batch, 1)
        The next token of each sequence. The prompt is computed when the first is asked
        for, and no further token than is asked for.

    Examples
    --------
    >>> for newest in fw.models.generate_stream(model, prompt, 64):  # doctest: +SKIP
    ...     print(stream.add(newest.item()), end="")
    """
    _check(tokens, count, prefill_chunk)
    if draft is not None and draft_tokens < 1:
        raise ArgumentError(
            f"generate: draft_tokens is {draft_tokens}; it must be at least 1"
        )
    sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
    if seed is not None:
        if generator is not None:
            raise ArgumentError(
                f"generate: generator is {generator!r} and seed is {seed}; one of them"
                " must be None"
            )
        generator = Generator(seed)
    padding = None if mask is None else _padding(mask, tokens)
    chunk = tokens.shape[1] if prefill_chunk is None else prefill_chunk
    sampler = Sampler(sampling, generator)
    drafting = None if draft is None else (draft, draft_tokens)
    source = _tokens(model, tokens, count, padding, sampler, chunk, drafting)
    return _ended(source, len(tokens), sorted(stop))


def _tokens(
    model: LanguageModel,
    tokens: Tensor,
    count: int,
    padding: Tensor | None,
    sampler: Sampler,
    chunk: int,
    drafting: tuple[LanguageModel, int] | None,
) -> Added:
    """Yield the tokens added, (batch, 1), and their values where they are known.

    The caller's gradient mode stays its own.
    """
    if count == 0:
        return
    length = tokens.shape[1] + count
    cache, logits = _prompted(model, tokens, length, padding, chunk)

    def step(newest: Tensor) -> Tensor:
        sampler.take(newest)
        return sampler.draw(model(newest, cache)[:, -1].to(float32))

    following = jit(step) if tokens.is_gpu else step
    with no_grad():
        sampler.begin(tokens, logits.shape[-1], padding)
        newest = sampler.draw(logits.to(float32))
    if drafting is not None:
        draft, guesses = drafting
        other, of_draft = _prompted(draft, tokens, length, padding, chunk)
        if of_draft.shape != logits.shape:
            raise ArgumentError(
                f"generate: the draft has {of_draft.shape[-1]} words, the model"
                f" {logits.shape[-1]}; they must have the same"
            )
        rounds = Speculation(model, draft, (cache, other), sampler, guesses)
        yield from speculated(rounds, following, newest, count, guesses)
        return
    for number in range(count):
        yield newest, None
        if number < count - 1:
            with no_grad():
                newest = following(newest)


def _prompted(
    model: LanguageModel,
    tokens: Tensor,
    length: int,
    padding: Tensor | None,
    chunk: int,
) -> tuple[KeyValueCache, Tensor]:
    """Return a cache that holds prompts, and logits of the token after them."""
    cache = model.new_cache(len(tokens), length, tokens.device)
    cache.padding = padding
    with no_grad():
        for start in range(0, tokens.shape[1], chunk):
            logits = model(tokens[:, start : start + chunk], cache, logits_to_keep=1)
    return cache, logits[:, -1]


def _ended(source: Added, batch: int, ends: list[int]) -> Iterator[Tensor]:
    """Yield tokens until every sequence has had one of the ends."""
    ended = [False] * batch
    for newest, values in source:
        if ends:
            values = newest.tolist() if values is None else values
            if any(ended):
                values = [
                    [ends[0]] if over else value
                    for over, value in zip(ended, values, strict=True)
                ]
                newest = newest.new_tensor(values)
            ended = [
                over or value[0] in ends
                for over, value in zip(ended, values, strict=True)
            ]
        yield newest
        if all(ended):
            return


def _check(tokens: Tensor, count: int, prefill_chunk: int | None) -> None:
    if len(tokens.shape) != 2 or not tokens.shape[1]:
        raise ShapeError(
            f"generate: tokens is {tuple(tokens.shape)}; it must be (batch, length)"
            " with at least one token"
        )
    if count < 0:
        raise ArgumentError(f"generate: count is {count}; it must be at least 0")
    if prefill_chunk is not None and prefill_chunk < 1:
        raise ArgumentError(
            f"generate: prefill_chunk is {prefill_chunk}; it must be at least 1"
        )


def _padding(mask: Tensor, tokens: Tensor) -> Tensor | None:
    """Return how many tokens at the left of each prompt are padding, (batch,)."""
    if tuple(mask.shape) != tuple(tokens.shape):
        raise ShapeError(
            f"generate: mask is {tuple(mask.shape)}, tokens {tuple(tokens.shape)}; they"
            " must have one shape"
        )
    real = mask.numpy().astype(bool)
    if not real[:, -1].all():
        raise ArgumentError(
            f"generate: prompt {int(real[:, -1].argmin())} ends with padding; it must"
            " be at the left"
        )
    changes = real[:, 1:] < real[:, :-1]
    if changes.any():
        row, place = (int(each[0]) for each in changes.nonzero())
        raise ArgumentError(
            f"generate: prompt {row} has padding at {place + 1}, after a token; it must"
            " be at the left"
        )
    if real.all():
        return None
    counts = (~real).sum(-1).astype(np.int64)
    return tensor(counts, device=tokens.device)
