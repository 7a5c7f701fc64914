"""`vkmodels embed`: the vector of a text."""

from __future__ import annotations

import argparse
import json

from vkbackend.errors import ArgumentError
from vkbackend.framework import models

from .loaded import add_model_arguments, opened

HELP = "print the vector of a text"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model_arguments(parser)
    parser.add_argument("--text", required=True)
    parser.add_argument("--json", action="store_true", help="print one object")


def run(args: argparse.Namespace) -> int:
    """Print the vector."""
    loaded = opened(args)
    if hasattr(loaded.model, "new_cache"):
        raise ArgumentError(
            f"{args.model} is a {type(loaded.model).__name__}, which writes texts; give"
            " an encoder"
        )
    (vector,) = models.embed(loaded.model, loaded.tokenizer, [args.text]).tolist()
    if args.json:
        print(json.dumps({"embedding": vector}))
    else:
        print(*vector)
    return 0
