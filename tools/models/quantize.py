"""`vkmodels quantize`: write a model with weights of few bits."""

from __future__ import annotations

import argparse
from pathlib import Path

from vkbackend.errors import ArgumentError
from vkbackend.framework import models, nn

HELP = "write a GGUF file of quantized weights"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("model", type=Path, help="folder, or file .gguf")
    parser.add_argument("out", type=Path, help="file .gguf")
    parser.add_argument("--format", default="q4_k")
    parser.add_argument(
        "--no-tokenizer", action="store_true", help="leave the tokenizer out"
    )
    parser.add_argument("--skip", action="append", default=[], metavar="NAME")


def run(args: argparse.Namespace) -> int:
    """Write the file, and print the error and the bytes of each layer."""
    if not args.model.exists():
        raise FileNotFoundError(f"{args.model} does not exist; give a folder or a file")
    if args.out.suffix != ".gguf":
        raise ArgumentError(f"the result is {args.out}; its name must end with .gguf")
    tokenizer = None if args.no_tokenizer else _tokenizer(args.model)
    model = models.load(args.model, "cpu")
    report = nn.quantize(model, args.format, skip=args.skip)
    models.save_gguf(model, args.out, tokenizer=tokenizer)
    print(report)
    return 0


def _tokenizer(path: Path) -> models.Tokenizer | None:
    """Return the tokenizer of a model, if it has one."""
    if path.is_dir():
        has_one = (path / "tokenizer.json").exists()
    else:
        has_one = "tokenizer.ggml.model" in models.read_gguf(path).metadata
    return models.Tokenizer(path) if has_one else None
