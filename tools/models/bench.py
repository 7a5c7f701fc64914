"""`vkmodels bench`: how fast a model reads a prompt and writes."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.errors import ArgumentError
from vkbackend.framework import models, nn
from vkbackend.framework.base.device import find_device
from vkbackend.framework.base.dtype import as_dtype
from vkbackend.framework.base.quantized_format import FORMATS
from vkbackend.framework.models.checkpoint import read_json

from .loaded import loaded_model, peak_memory
from .shapes import SHAPES, is_format, random_model, shape_config

HELP = "measure tokens per second"

POSITIONS = (0, 4096)
"""Where tokens are written, if the model has room for them."""

FLOATS = ("float32", "float16", "bfloat16")
"""Dtypes of weights that are not quantized."""

WARM_UP = 3
"""Steps before the first that is measured: a trace, its recording, its first replay."""

REPEATS = 3
"""Measurements, of which the best is taken."""

PROMPTS = 10
"""The same of prompts: a device takes some to reach its clock."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("model", type=Path, nargs="?", help="folder, or file .gguf")
    parser.add_argument(
        "--shape", help=f"random weights in its place: {', '.join(SHAPES)}"
    )
    parser.add_argument("--format", help="of the weights: a dtype, or as q4_k")
    parser.add_argument("--dtype", help="of activations of quantized weights")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--batch", type=int, default=1, help="sequences")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the prompt")
    parser.add_argument("--steps", type=int, default=50, help="tokens that are timed")
    parser.add_argument(
        "--positions", type=int, nargs="+", help="tokens before those; 0 and 4096"
    )
    parser.add_argument("--capacity", type=int, help="tokens that the cache holds")
    parser.add_argument("--json", action="store_true", help="print one object")


class Decoding(NamedTuple):
    """Speed of single tokens of each sequence, after some others."""

    position: int
    tokens_per_second: float
    milliseconds: float
    dispatches: int


class Speeds(NamedTuple):
    """What was measured."""

    model: str
    format: str
    dtype: str
    device: str
    batch: int
    parameters: int
    weight_bytes: int
    prompt_tokens: int
    prompt_tokens_per_second: float
    decoding: list[Decoding]
    peak_memory: int

    def text(self) -> str:
        """Return it for a person."""
        lines = [
            f"{self.model}, {self.format}, on {self.device}:"
            f" {self.parameters / 1e6:.1f} million parameters in"
            f" {self.weight_bytes / 2**20:.1f} MiB",
            f"prompt of {self.batch} x {self.prompt_tokens}:"
            f" {self.prompt_tokens_per_second:.1f} tokens/s",
        ]
        lines += [
            f"{self.batch} x 1 after {each.position}: {each.tokens_per_second:.1f}"
            f" tokens/s, {each.milliseconds:.3f} ms a step of {each.dispatches}"
            " dispatches"
            for each in self.decoding
        ]
        return "\n".join([*lines, f"peak memory {self.peak_memory / 2**20:.1f} MiB"])


def run(args: argparse.Namespace) -> int:
    """Print the speeds."""
    for name in ("batch", "prompt", "steps"):
        if getattr(args, name) < 1:
            raise ArgumentError(
                f"--{name} is {getattr(args, name)}; it must be at least 1"
            )
    if (args.model is None) == (args.shape is None):
        raise ArgumentError("give a folder, or --shape, and not both")
    room = _room(args)
    positions = _positions(args, room)
    length = max(args.prompt, max(positions) + WARM_UP + 1 + args.steps)
    if args.capacity is not None and args.capacity < length:
        raise ArgumentError(
            f"--capacity is {args.capacity}; prompt, positions and steps need {length}"
        )
    model = _model(args)
    if not hasattr(model, "new_cache"):
        raise ArgumentError(
            f"{args.model} is a {type(model).__name__}, which writes no text; give a"
            " language model"
        )
    with fw.no_grad():
        found = measured(
            model,
            args.batch,
            args.prompt,
            positions,
            args.steps,
            length if args.capacity is None else args.capacity,
        )
    found = found._replace(
        model=args.shape or str(args.model), format=_format_of(model)
    )
    if args.json:
        decoding = [each._asdict() for each in found.decoding]
        print(json.dumps({**found._asdict(), "decoding": decoding}))
    else:
        print(found.text())
    return 0


def _model(args: argparse.Namespace) -> nn.Module:
    """Return the model of the arguments, ready to run on its device."""
    quantized = args.format is not None and is_format(args.format)
    if args.format is not None and not quantized and args.format not in FLOATS:
        raise ArgumentError(
            f"--format is {args.format!r}; accepted: {', '.join((*FLOATS, *FORMATS))}"
        )
    dtype = args.dtype if quantized or args.format is None else args.format
    if args.shape is None:
        format = args.format if quantized else None
        return loaded_model(args.model, args.device, dtype, format)
    return random_model(
        shape_config(args.shape),
        args.format if quantized else None,
        find_device(args.device),
        as_dtype(dtype or "bfloat16"),
    )


def _room(args: argparse.Namespace) -> int | None:
    """Return the tokens that a text may have, if the model says so."""
    if args.shape is not None:
        settings = shape_config(args.shape)
    elif args.model.suffix == ".gguf":
        metadata = models.read_gguf(args.model).metadata
        kind = metadata.get("general.architecture")
        settings = {"n_positions": metadata.get(f"{kind}.context_length")}
    elif (args.model / "config.json").exists():
        settings = read_json(args.model / "config.json")
    else:
        settings = {}
    found = settings.get("max_position_embeddings", settings.get("n_positions"))
    return found if isinstance(found, int) else None


def _positions(args: argparse.Namespace, room: int | None) -> list[int]:
    """Return where to measure; of those that are not asked for, which have room."""
    extra = WARM_UP + 1 + args.steps
    asked: list[int] | None = args.positions
    found = [
        each
        for each in (POSITIONS if asked is None else asked)
        if each >= 0 and (room is None or each + extra <= room)
    ]
    if not found or (asked is not None and found != asked):
        raise ArgumentError(
            f"--positions are {asked or [*POSITIONS]}, of {extra} tokens more; they"
            f" must be at least 0, and the model has room for {room}"
        )
    return found


def greedy_step(
    model: Any, cache: Any
) -> Callable[[fw.Tensor], tuple[fw.Tensor, fw.Tensor]]:
    """Return a step from tokens (batch, length) to the next one's, and its logits.

    Parameters
    ----------
    model : nn.Module
        A language model.
    cache : KeyValueCache
        Of the tokens before, to which a step adds its own.
    """

    def step(newest: fw.Tensor) -> tuple[fw.Tensor, fw.Tensor]:
        logits: fw.Tensor = model(newest, cache, logits_to_keep=1)[:, -1]
        return logits.to(fw.float32).argmax(-1, keepdim=True), logits

    return step


def measured(
    model: Any, batch: int, prompt: int, positions: list[int], steps: int, length: int
) -> Speeds:
    """Return the speeds of a model, whose name and format are left out.

    Parameters
    ----------
    model : nn.Module
        A language model.
    batch, prompt : int
        Sequences, and tokens of each one's prompt.
    positions : list of int
        Tokens that are before those which are written.
    steps : int
        Tokens of each sequence that are timed.
    length : int
        Tokens that the cache holds.
    """
    kept = {id(each): each for each in [*model.parameters(), *model.buffers()]}
    device = next(iter(kept.values())).device
    cache = model.new_cache(batch, length, device)
    greedy = greedy_step(model, cache)

    def step(newest: fw.Tensor) -> fw.Tensor:
        return greedy(newest)[0]

    words = model.config.vocab_size
    drawn = np.random.default_rng(0).integers(0, words, (batch, prompt))
    tokens = fw.tensor(drawn, device=device)
    reading, following = (fw.jit(step) if device.is_gpu else step for _ in range(2))
    for _ in range(WARM_UP if device.is_gpu else 0):
        _prompt_seconds(reading, tokens, cache)
    of_prompt = min(_prompt_seconds(reading, tokens, cache) for _ in range(PROMPTS))
    return Speeds(
        "",
        "",
        cache.pair(0)[0].dtype.name,
        device.name,
        batch,
        _count(model),
        sum(each.nbytes for each in kept.values()),
        prompt,
        batch * prompt / of_prompt,
        [
            _decoding(following, tokens[:, :1], cache, position, steps)
            for position in positions
        ],
        peak_memory(device),
    )


def _prompt_seconds(step: Any, tokens: fw.Tensor, cache: Any) -> float:
    """Return how long a prompt takes until the token after it is there."""
    cache.clear()
    tokens.numpy()
    start = time.perf_counter()
    step(tokens).numpy()
    return time.perf_counter() - start


def _decoding(
    step: Any, newest: fw.Tensor, cache: Any, position: int, steps: int
) -> Decoding:
    """Return the speed of steps after some tokens; each token is read, as one is."""
    device: Any = newest.device
    cache.position.fill_(position)
    for _ in range(WARM_UP):
        newest = step(newest)
        newest.numpy()
    dispatches = 0
    if device.is_gpu:
        before = device.gpu.counters.snapshot()
        newest = step(newest)
        newest.numpy()
        dispatches = (device.gpu.counters.snapshot() - before).dispatches
    times = []
    for _ in range(REPEATS):
        cache.position.fill_(position)
        # The position is written, and not a part of what is timed.
        step(newest).numpy()
        start = time.perf_counter()
        for _ in range(steps):
            newest = step(newest)
            newest.numpy()
        times.append((time.perf_counter() - start) / steps)
    best = min(times)
    batch = newest.shape[0]
    return Decoding(position, batch / best, 1e3 * best, dispatches)


def _count(model: nn.Module) -> int:
    """Return how many parameters there are, quantized ones included."""
    sizes: dict[int, int] = {id(each): each.numel() for each in model.parameters()}
    for layer in model.modules():
        if isinstance(layer, nn.QLinear | nn.QEmbedding):
            weight = layer.weight
            sizes[id(weight.blocks)] = weight.shape.numel()
    return sum(sizes.values())


def _format_of(model: nn.Module) -> str:
    """Return what weights are stored as, the most frequent kind first."""
    kinds: dict[str, int] = {}
    for layer in model.modules():
        if isinstance(layer, nn.QLinear | nn.QEmbedding):
            kinds[layer.format] = kinds.get(layer.format, 0) + 1
        else:
            for each in layer.parameters(recurse=False):
                if each.ndim > 1:
                    kinds[each.dtype.name] = kinds.get(each.dtype.name, 0) + 1
    return ", ".join(sorted(kinds, key=lambda kind: -kinds[kind]))
