"""Command line of `vkmodels`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from vkbackend.errors import Error

from . import bench, chat, embed, finetune, generate, quantize, serve

COMMANDS = {
    "generate": generate,
    "chat": chat,
    "embed": embed,
    "bench": bench,
    "quantize": quantize,
    "finetune": finetune,
    "serve": serve,
}
EXTRAS = {
    "tokenizers": "text",
    "jinja2": "text",
    "PIL": "images",
    "fastapi": "serve",
    "uvicorn": "serve",
}
"""Extras of the package by the module that they bring."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; what a user got wrong is one line on stderr, and 1 is returned."""
    parser = argparse.ArgumentParser(
        prog="vkmodels", description="Run models of folders and GGUF files."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=module.HELP))
    args = parser.parse_args(argv)
    try:
        status: int = COMMANDS[args.command].run(args)
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        if extra is None:
            raise
        message = f"{error.name} is missing; pip install 'vkbackend[{extra}]'"
    except KeyboardInterrupt:
        return 130
    except (Error, OSError, ValueError, TypeError, MemoryError) as error:
        message = " ".join(str(error).split())
    else:
        return status
    print(f"vkmodels {args.command}: {message}", file=sys.stderr)
    return 1
