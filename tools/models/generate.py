"""`vkmodels generate`: go on with a text."""

from __future__ import annotations

import argparse
import json
import sys

from vkbackend.errors import ArgumentError

from .loaded import add_model_arguments, add_sampling_arguments, continued, opened

HELP = "go on with a text"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model_arguments(parser)
    add_sampling_arguments(parser)
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--json", action="store_true", help="print one object")


def run(args: argparse.Namespace) -> int:
    """Print what the model adds, as it comes."""
    loaded = opened(args)
    prompt = loaded.tokenizer.encode(args.prompt)
    if not prompt:
        raise ArgumentError("the prompt has no token; give a text")

    def show(part: str) -> None:
        if not args.json:
            print(part, end="", flush=True)

    found = continued(loaded, prompt, args, show)
    if args.json:
        print(json.dumps(found._asdict()))
    else:
        print()
        print(found.line(), file=sys.stderr)
    return 0
