"""Command line of the doctor."""

import argparse
import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..exit_status import is_terminal, outcome
from . import redact, render
from .diagnosis import diagnose
from .report import Options, gather

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Look at this machine; the exit status is 0 when the library can work."""
    options = _parser().parse_args(arguments)
    try:
        return outcome("vkdoctor", lambda: _run(options))
    except KeyboardInterrupt:
        return _INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vkdoctor",
        description="Say what there is of Vulkan here, what is wrong, what to do.",
        epilog="Exit status: 0 when the library can work, 1 when it cannot.",
    )
    parser.add_argument("--json", action="store_true", help="the exact report")
    parser.add_argument("--paths", action="store_true", help="show the user's paths")
    parser.add_argument(
        "--device", default="", help="device to test: an index or part of a name"
    )
    parser.add_argument("--no-tests", action="store_true", help="leave self-tests out")
    parser.add_argument(
        "--limit",
        type=_seconds,
        default=Options.limit_seconds,
        metavar="SECONDS",
        help="longest time for one answer (default: %(default)g)",
    )
    parser.add_argument(
        "--color", choices=("auto", "always", "never"), default="auto", help="in text"
    )
    return parser


def _seconds(given: str) -> float:
    value = float(given)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{given} must be above 0")
    return value


def _run(options: argparse.Namespace) -> int:
    wanted = Options(options.device, not options.no_tests, options.limit)
    with _progress() as progress:
        report = gather(wanted, progress)
    report["diagnosis"] = diagnose(report)
    works = report["diagnosis"]["works"]
    if not options.paths:
        report = redact.hide(report, redact.user_paths())
    print(_shown(report, options), flush=True)
    return 0 if works else 1


def _shown(report: dict[str, Any], options: argparse.Namespace) -> str:
    if options.json:
        return json.dumps(report, indent=2)
    colour = options.color == "always" or (
        options.color == "auto"
        and is_terminal(sys.stdout)
        and "NO_COLOR" not in os.environ
    )
    shown = render.render(report, shutil.get_terminal_size().columns, colour)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return shown.encode(encoding, "replace").decode(encoding)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Yield what tells a terminal, in one line, which probe is asked."""
    if not is_terminal(sys.stderr):
        yield lambda name: None
        return

    def show(name: str) -> None:
        sys.stderr.write(f"\r\033[Kvkdoctor: {name} ...")
        sys.stderr.flush()

    try:
        yield show
    finally:
        sys.stderr.write("\r\033[K")
        sys.stderr.flush()
