"""What the commands share: a model on its device, its tokenizer, how texts go on."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import vkbackend.framework as fw
from vkbackend.errors import ArgumentError
from vkbackend.framework import models, nn


class Loaded(NamedTuple):
    """A model and its tokenizer."""

    model: nn.Module
    tokenizer: models.Tokenizer
    draft: nn.Module | None = None

    @property
    def device(self) -> Any:
        """Where the model is; layers without floats have buffers alone."""
        return next(iter([*self.model.parameters(), *self.model.buffers()])).device


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which model, and how it is loaded."""
    parser.add_argument("model", type=Path, help="folder, or file .gguf")
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--dtype", help="of floats; as they are stored by default")
    parser.add_argument("--format", help="quantize the weights, as q4_k")


def add_sampling_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how tokens are drawn."""
    parser.add_argument("--tokens", type=int, default=256, help="to add at most")
    parser.add_argument("--greedy", action="store_true", help="as --temperature 0")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--top-p", type=float)
    parser.add_argument("--min-p", type=float)
    parser.add_argument("--repetition-penalty", type=float, default=1.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--prefill-chunk", type=int, default=512)
    parser.add_argument("--draft", type=Path, help="smaller model that guesses tokens")
    parser.add_argument("--draft-tokens", type=int, default=4, help="guesses at a time")


def opened(args: argparse.Namespace) -> Loaded:
    """Return the model of the arguments."""
    if not args.model.exists():
        raise FileNotFoundError(f"{args.model} does not exist; give a folder or a file")
    tokenizer = models.Tokenizer(args.model)
    model = loaded_model(args.model, args.device, args.dtype, args.format)
    path: Path | None = getattr(args, "draft", None)
    draft = None
    if path is not None:
        draft = loaded_model(path, args.device, args.dtype, args.format)
    return Loaded(model, tokenizer, draft)


def loaded_model(
    path: Path,
    device: str,
    dtype: str | None,
    format: str | None,
    skip: Collection[str] = (),
) -> nn.Module:
    """Return a model, quantized on the host before it goes to its device.

    Parameters
    ----------
    path : Path
        Folder or file.
    device : str
    dtype : str or None
        Of floats; None is as they are stored.
    format : str or None
        What weights are quantized as.
    skip : collection of str
        Layers that are not; as of `nn.quantize`.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; give a folder or a file")
    if not format:
        return models.load(path, device, dtype)
    model = models.load(path, "cpu", dtype)
    nn.quantize(model, format, skip)
    return model.to(device)


class Continuation(NamedTuple):
    """A text that was added, and how fast."""

    text: str
    tokens: int
    prompt_tokens_per_second: float
    tokens_per_second: float
    peak_memory: int

    def line(self) -> str:
        """Return speeds and memory, for a person."""
        return (
            f"{self.tokens} tokens; prompt {self.prompt_tokens_per_second:.1f} tokens"
            f"/s, then {self.tokens_per_second:.1f} tokens/s; peak memory"
            f" {self.peak_memory / 2**20:.1f} MiB"
        )


def continued(
    loaded: Loaded,
    prompt: list[int],
    args: argparse.Namespace,
    show: Callable[[str], None],
) -> Continuation:
    """Return what a model adds to a prompt; `show` gets each part as it comes."""
    model = language_model(loaded, args)
    draft: Any = loaded.draft
    parts: list[str] = []
    stream, count = loaded.tokenizer.stream(), 0
    began = first = last = time.perf_counter()
    for newest in models.generate_stream(
        model,
        fw.tensor([prompt], device=loaded.device),
        args.tokens,
        temperature=0.0 if args.greedy else args.temperature,
        top_k=args.top_k,
        top_p=args.top_p,
        min_p=args.min_p,
        repetition_penalty=args.repetition_penalty,
        stop=loaded.tokenizer.stop,
        seed=args.seed,
        prefill_chunk=args.prefill_chunk,
        draft=draft,
        draft_tokens=args.draft_tokens,
    ):
        number = int(newest.item())
        last = time.perf_counter()
        first = first if count else last
        count += 1
        if number not in loaded.tokenizer.stop:
            parts.append(stream.add(number))
            show(parts[-1])
    parts.append(stream.end())
    show(parts[-1])
    return Continuation(
        "".join(parts),
        count,
        len(prompt) / (first - began) if count else 0.0,
        (count - 1) / (last - first) if count > 1 else 0.0,
        peak_memory(loaded.device),
    )


def language_model(loaded: Loaded, args: argparse.Namespace) -> Any:
    """Return the model, which must be one that writes text."""
    if not hasattr(loaded.model, "new_cache"):
        raise ArgumentError(
            f"{args.model} is a {type(loaded.model).__name__}, which writes no text;"
            " give a language model"
        )
    return loaded.model


def peak_memory(device: Any) -> int:
    """Return the most bytes that buffers of a device have had; 0 of the host."""
    return int(device.gpu.memory_stats()["peak_in_use"]) if device.is_gpu else 0
