"""Fusion report of a script: `python -m vkbackend.tools.fusion_report script.py`."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import vkbackend.framework as fw

from .exit_status import outcome
from .run_script import run_as_main


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="vkbackend.tools.fusion_report",
        description="Run a program and report kernels before and after fusion, bytes"
        " saved, and why neighbours were not joined.",
    )
    parser.add_argument("--glsl", action="store_true", help="show generated kernels")
    parser.add_argument("--svg", type=Path, help="also write the report as a picture")
    parser.add_argument("script", help="a Python file; what it prints goes to stderr")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    if not Path(options.script).is_file():
        print(f"fusion: there is no file {options.script}", file=sys.stderr)
        return 2
    return outcome("fusion", lambda: _report(options))


def _report(options: argparse.Namespace) -> int:
    failures: list[BaseException] = []
    report = fw.fusion_report(_run, options.script, options.arguments, failures)
    print(report.text(glsl=options.glsl))
    if options.svg is not None:
        report.save(options.svg.with_suffix(".svg"))
    return int(bool(failures))


def _run(script: str, arguments: Sequence[str], failures: list[BaseException]) -> None:
    """Run a program as Python would; add what it fails with, if it does."""
    try:
        run_as_main(script, arguments)
    except SystemExit as error:
        failures += [error] if error.code else []
    except Exception as error:
        traceback.print_exc()
        failures.append(error)


if __name__ == "__main__":
    sys.exit(main())
