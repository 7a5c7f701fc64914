"""`vkmodels chat`: answer lines of stdin."""

from __future__ import annotations

import argparse
import sys

from .loaded import add_model_arguments, add_sampling_arguments, continued, opened

HELP = "answer line by line"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    add_model_arguments(parser)
    add_sampling_arguments(parser)
    parser.add_argument("--system", help="what the model is told first")


def run(args: argparse.Namespace) -> int:
    """Answer each line until the input ends."""
    loaded = opened(args)
    said = [{"role": "system", "content": args.system}] if args.system else []
    if sys.stdin.isatty():
        print("A line is a question; an empty one ends the chat.", file=sys.stderr)
    for line in sys.stdin:
        if not line.strip():
            break
        said.append({"role": "user", "content": line.strip()})
        text = loaded.tokenizer.apply_chat_template(said)
        prompt = loaded.tokenizer.encode(text, special_tokens=False)
        found = continued(loaded, prompt, args, _show)
        print()
        print(found.line(), file=sys.stderr)
        said.append({"role": "assistant", "content": found.text})
    return 0


def _show(part: str) -> None:
    print(part, end="", flush=True)
