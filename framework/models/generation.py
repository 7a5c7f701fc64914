"""Generation of text: a prompt at once, then token by token with a cache."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np

from vkbackend.errors import ArgumentError

from .. import ops
from ..autograd.engine import no_grad
from ..base.device import Device
from ..base.dtype import float32
from ..base.errors import ShapeError
from ..base.philox import Generator
from ..jit.trace_cache import jit
from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor
from .cache import KeyValueCache


class LanguageModel(Protocol):
    """What text is generated with."""

    def __call__(self, tokens: Tensor, cache: KeyValueCache, /) -> Tensor:
        """Return logits of the token after each, (batch, length, words)."""

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
    stop: Collection[int] = (),
    generator: Generator | None = None,
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
    stop : collection of int
        Tokens at which a sequence ends. What follows it, while others go on, is the
        first of them.
    generator : Generator or None
        Source of random numbers; None is that of the device.

    Returns
    -------
    Tensor, int64, shape (batch, length + added)

    Raises
    ------
    ShapeError
        If `tokens` has not two dimensions, or no token, or `mask` another shape.
    ArgumentError
        If `count` or `temperature` is negative, or `top_k` or `top_p` out of range; if
        padding follows a token.

    Notes
    -----
    On a Vulkan device the step of a token is recorded once and replayed: the position
    is on the device. The host reads one token of each sequence per step.

    Examples
    --------
    >>> model = fw.models.load("SmolLM2-135M", "gpu")  # doctest: +SKIP
    >>> fw.models.generate(model, prompt, 64)  # doctest: +SKIP
    """
    _check(tokens, count, temperature, top_k, top_p)
    padding = None if mask is None else _padding(mask, tokens)
    batch, length = tokens.shape
    if count == 0:
        return tokens
    ends = sorted(stop)
    cache = model.new_cache(batch, length + count, tokens.device)
    cache.padding = padding

    def step(newest: Tensor) -> Tensor:
        logits = model(newest, cache)[:, -1].to(float32)
        return _chosen(logits, temperature, top_k, top_p, generator)

    following = jit(step) if tokens.is_gpu else step
    added: list[Tensor] = []
    ended = [False] * batch
    with no_grad():
        newest = step(tokens)
        for number in range(count):
            if ends:
                values = newest.tolist()
                if any(ended):
                    values = [
                        [ends[0]] if over else value
                        for over, value in zip(ended, values, strict=True)
                    ]
                    newest = newest.new_tensor(values)
                ended = [
                    over or value[0] in stop
                    for over, value in zip(ended, values, strict=True)
                ]
            added.append(newest)
            if all(ended) or number == count - 1:
                break
            newest = following(newest)
    return ops.cat([tokens, *added], 1)


def _check(
    tokens: Tensor,
    count: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
) -> None:
    if len(tokens.shape) != 2 or not tokens.shape[1]:
        raise ShapeError(
            f"generate: tokens is {tuple(tokens.shape)}; it must be (batch, length)"
            " with at least one token"
        )
    if count < 0:
        raise ArgumentError(f"generate: count is {count}; it must be at least 0")
    if not temperature >= 0:
        raise ArgumentError(
            f"generate: temperature is {temperature}; it must be at least 0"
        )
    if top_k is not None and top_k < 1:
        raise ArgumentError(f"generate: top_k is {top_k}; it must be at least 1")
    if top_p is not None and not 0 < top_p <= 1:
        raise ArgumentError(f"generate: top_p is {top_p}; it must be in (0, 1]")


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


def _chosen(
    logits: Tensor,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    generator: Generator | None,
) -> Tensor:
    """Return a token for each row of logits, (batch, 1)."""
    if temperature == 0.0:
        return ops.argmax(logits, -1, keepdim=True)
    logits = logits / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        least = ops.topk(logits, top_k, -1)[0][:, -1:]
        logits = ops.where(logits < least, float("-inf"), logits)
    if top_p is not None and top_p < 1:
        sorted_logits, places = ops.sort(logits, -1, descending=True)
        chances = ops.softmax(sorted_logits, -1)
        before = ops.cumsum(chances, -1) - chances
        kept = ops.where(before < top_p, sorted_logits, float("-inf"))
        logits = ops.scatter(logits, -1, places, kept)
    chances = ops.softmax(logits, -1)
    return ops.multinomial(chances, 1, generator=generator)
