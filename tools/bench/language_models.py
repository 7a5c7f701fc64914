"""Workloads of language models of random weights: decoding, prompts, fine-tuning.

Tokens per second are those of a run over its time: a decoding step writes one of each
sequence and reads it, as a program does that shows a text. Quantized weights have no
peer; on a GPU its layers are compiled, and a decoding step is a CUDA graph. Ours is
replayed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import lora, models, nn
from vkbackend.framework.base.dtype import as_dtype
from vkbackend.framework.utils.checkpoint import checkpoint_modules

from ..models.bench import greedy_step
from ..models.finetune import layers_of
from ..models.shapes import is_format, random_model, shape_config
from .decoder_peer import (
    add_adapters,
    copy_weights,
    torch_cache,
    torch_decoder,
)
from .training import LOSS_TOLERANCE, ExecutionMode, cuda_graph, warm, warm_replays
from .workload import Bench, Case, workload

_ROOM = 512
"""Tokens that a cache holds beyond the first position; then it is begun anew."""

_RANK, _ALPHA = 16, 32.0

_NUMBERS = (
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
)
"""Sizes of a model, in the order in which workloads have them."""

_TINY = 2, 256, 512, 4, 1, 64, 512


def _sizes(shape: str) -> tuple[int, ...]:
    config = shape_config(shape)
    return tuple(config[name] for name in _NUMBERS)


def _config(shape: str, sizes: Sequence[int]) -> dict[str, Any]:
    return shape_config(shape) | dict(zip(_NUMBERS, sizes, strict=True))


def _model(config: dict[str, Any], format: str, device: Any) -> nn.Module:
    """Return our model; activations beside quantized weights are bfloat16."""
    quantized = is_format(format)
    dtype = as_dtype("bfloat16" if quantized else format)
    return random_model(config, format if quantized else None, device, dtype)


def _peer_model(bench: Bench, config: dict[str, Any]) -> Any:
    """Return the peer's model, in bfloat16, with weights that are no numbers yet."""
    torch = bench.peer.torch
    with torch.device("cuda" if bench.peer.cuda else "cpu"):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.bfloat16)
        try:
            return torch_decoder(torch, config)
        finally:
            torch.set_default_dtype(before)


def _logit_tolerance(config: dict[str, Any]) -> float:
    """Return how far logits may be apart, of the largest.

    Each side rounds to bfloat16's 8 bits some six times a layer, and errors add up as
    random ones do.
    """
    return 2.0**-8 * math.sqrt(2 * 6 * config["num_hidden_layers"])


def _bytes_of_products(model: nn.Module) -> int:
    """Return the bytes of the weights that a step reads, of which it needs all."""
    return sum(
        each.nbytes
        for name, each in [*model.named_parameters(), *model.named_buffers()]
        if "embed_tokens" not in name
    )


def _compile(bench: Bench, model: Any) -> None:
    """Compile each layer: they are alike, and compiled once."""
    if bench.peer.cuda:
        for layer in model.model.layers:
            layer.compile()


class _Decoding:
    """Our steps, and the peer's, from a position on; positions begin anew in time.

    Parameters
    ----------
    bench : Bench
    config : dict
    format : str
        A dtype, or one of quantized weights.
    tokens : int
        Of each sequence, which a step takes.
    batch, position : int
        Sequences, and tokens before those.
    """

    def __init__(
        self,
        bench: Bench,
        config: dict[str, Any],
        format: str,
        tokens: int,
        batch: int,
        position: int,
    ) -> None:
        self._bench, self._config, self._position = bench, config, position
        self._quantized = is_format(format)
        words = config["vocab_size"]
        self._values = np.random.default_rng(0).integers(0, words, (batch, tokens))
        self._model: Any = _model(config, format, bench.device)
        # Whole rows of 64: kernels of the peer's ask for aligned ones.
        self._length = -(-(position + tokens + _ROOM) // 64) * 64

    def ours(self) -> Callable[[], Sequence[Any]]:
        """Return a step of ours, which returns the logits."""
        batch, tokens = self._values.shape
        cache = self._model.new_cache(batch, self._length, self._bench.device)
        step = fw.jit(greedy_step(self._model, cache))
        first = fw.tensor(self._values, device=self._bench.device)

        def begin() -> None:
            cache.position.fill_(self._position)

        def run(given: Any) -> tuple[Any, Any]:
            with fw.no_grad():
                newest, logits = step(given)
                newest.numpy()
            return newest, logits

        return self._stepped(begin, run, first, tokens > 1)

    def theirs(self, torch: Any) -> Callable[[], Sequence[Any]]:
        """Return a step of the peer's, which returns the logits."""
        peer = self._bench.peer
        model = _peer_model(self._bench, self._config).eval()
        copy_weights(torch, self._model, model)
        _compile(self._bench, model)
        weight = model.lm_head.weight
        batch, tokens = self._values.shape
        cache = torch_cache(torch, self._config, batch, self._length, weight)
        first = torch.from_numpy(self._values).to(weight.device)
        given = first.clone()

        def begin() -> None:
            cache.position.fill_(self._position)
            given.copy_(first)

        @torch.no_grad()  # type: ignore[untyped-decorator]  # PyTorch is known when it runs
        def step() -> Sequence[Any]:
            if tokens > 1:
                begin()
            logits = model(given, cache)[:, -1].float()
            newest = logits.argmax(-1, keepdim=True)
            if tokens == 1:
                given.copy_(newest)
            return newest, logits

        begin()
        graph = cuda_graph(torch, step) if peer.cuda else warm(step)

        def run(_: Any) -> tuple[Any, Any]:
            newest, logits = graph()
            newest.cpu()
            return newest, logits

        return self._stepped(begin, run, first, tokens > 1)

    def _stepped(
        self,
        begin: Callable[[], None],
        run: Callable[[Any], tuple[Any, Any]],
        first: Any,
        prompt: bool,
    ) -> Callable[[], Sequence[Any]]:
        """Return a step that begins anew where a cache is full, or with a prompt."""
        left, newest = 0, first

        def step() -> Sequence[Any]:
            nonlocal left, newest
            if prompt or not left:
                begin()
                left, newest = _ROOM, first
            left -= 1
            found, logits = run(newest)
            newest = first if prompt else found
            return [logits]

        for _ in range(3):
            step()
        # What is compared is the step of the first token.
        left = 0
        return step

    def case(self) -> Case:
        """Return the case of both."""
        theirs, torch = None, self._bench.peer.torch
        if torch is not None and not self._quantized:
            theirs = self.theirs(torch)
        moved = _bytes_of_products(self._model)
        tolerance = _logit_tolerance(self._config)
        return Case(self.ours(), theirs, moved, tolerance=tolerance, wall=True)


def _add_decoding(shape: str, format: str, tokens: int, batch: int, at: int) -> None:
    def decoded(bench: Bench, batch: int, at: int, tokens: int, *sizes: int) -> Case:
        config = _config(shape, sizes)
        return _Decoding(bench, config, format, tokens, batch, at).case()

    short = {"bfloat16": "bf16"}.get(format, format)
    kind = "prompt_b{}_after{}_t{}" if tokens > 1 else "decode_b{}_after{}"
    small = min(batch, 2), min(at, 16), min(tokens, 8), *_TINY
    workload(
        f"{kind}_{shape}_{short}",
        full=(batch, at, tokens, *_sizes(shape)),
        small=small if at or tokens > 1 else None,
        dtype="bfloat16",
    )(decoded)


def _tuned(
    bench: Bench, config: dict[str, Any], format: str, tokens: int, how: ExecutionMode
) -> Case:
    """Return the case of a LoRA step: forward, backward of adapters, AdamW."""
    device = bench.device
    model = _model(config, format, device)
    quantized = is_format(format)
    lora.add(model, _RANK, _ALPHA)
    if quantized:
        checkpoint_modules(layers_of(model))
    words = config["vocab_size"]
    x, peer_x = bench.whole(1, tokens, below=words)
    y, peer_y = bench.whole(1, tokens, below=words)
    documents = fw.zeros((1, tokens), dtype=fw.int64, device=device)
    theirs = None
    torch = bench.peer.torch
    if torch is not None and not quantized:
        theirs = _peer_tuned(bench, config, model, (peer_x, peer_y), how)
    optimizer = fw.optim.AdamW(lora.parameters(model), 2e-4, weight_decay=0.0)

    def step() -> list[Any]:
        optimizer.zero_grad()
        loss = models.loss(model, x, y, documents=documents)
        loss.backward()
        optimizer.step()
        return [loss.detach()]

    if how != "eager":
        step = fw.jit(step)
        warm_replays(step)
    return Case(step, theirs, tolerance=LOSS_TOLERANCE["bfloat16"], wall=True)


def _peer_tuned(
    bench: Bench,
    config: dict[str, Any],
    model: nn.Module,
    data: tuple[Any, Any],
    how: ExecutionMode,
) -> Callable[[], Sequence[Any]]:
    torch, (x, y) = bench.peer.torch, data
    peer = _peer_model(bench, config)
    add_adapters(torch, peer, _RANK, _ALPHA)
    copy_weights(torch, model, peer)
    trained = [each for each in peer.parameters() if each.requires_grad]
    fused = bench.peer.cuda or None
    optimizer = torch.optim.AdamW(trained, 2e-4, weight_decay=0.0, fused=fused)
    if how == "compiled":
        _compile(bench, peer)

    def step() -> Sequence[Any]:
        optimizer.zero_grad()
        logits = peer(x).float().flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, y.flatten())
        loss.backward()
        optimizer.step()
        return [loss.detach()]

    return step if how == "eager" else warm(step)


def _add_tuning(shape: str, format: str, how: ExecutionMode) -> None:
    def fine_tuned(bench: Bench, tokens: int, *sizes: int) -> Case:
        return _tuned(bench, _config(shape, sizes), format, tokens, how)

    short = {"bfloat16": "bf16"}.get(format, format)
    workload(
        f"lora_{shape}_{short}_{how}_t{{}}",
        full=(2048, *_sizes(shape)),
        small=(16, *_TINY),
        dtype="bfloat16",
    )(fine_tuned)


for _format in ("bfloat16", "q8_0", "q4_0", "q4_k"):
    for _at in (0, 4096):
        _add_decoding("llama-8b", _format, 1, 1, _at)
for _at in (0, 512):
    _add_decoding("llama-8b", "bfloat16", 1, 32, _at)
for _format in ("bfloat16", "q4_k"):
    _add_decoding("llama-8b", _format, 512, 1, 0)
for _how in ("eager", "compiled"):
    _add_tuning("qwen3-1.7b", "bfloat16", _how)
_add_tuning("llama-8b", "q4_k", "compiled")
