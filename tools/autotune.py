"""Autotuner of a script: `python -m vkbackend.tools.autotune script.py`."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence

import vkbackend.framework as fw
from vkbackend import DeviceInfo, Verdict
from vkbackend.framework.autotune import autotune
from vkbackend.framework.base.device import GpuDevice

from .exit_status import outcome
from .run_script import missing, run_as_main

_MILLISECONDS = 1e3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="vkbackend.tools.autotune",
        description="Run a program and measure the candidates for its kernels; later"
        " processes use what was best on this device and driver.",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=autotune.BUDGET,
        help="seconds to measure for (default: %(default)g)",
    )
    parser.add_argument("--list", action="store_true", help="show the verdicts on disk")
    parser.add_argument("--forget", action="store_true", help="remove them, first")
    parser.add_argument(
        "script",
        nargs="?",
        help="a Python file or a module; what it prints goes to stderr",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    options = parser.parse_args(arguments)
    problem = _problem(options)
    if problem:
        print(f"tune: {problem}", file=sys.stderr)
        return 2
    return outcome("tune", lambda: _carried_out(options))


def _carried_out(options: argparse.Namespace) -> int:
    device = fw.device()
    if not isinstance(device, GpuDevice):
        print("tune: there is no Vulkan device, so no choice", file=sys.stderr)
        return 2
    info, failed = device.gpu.info, False
    if options.forget:
        autotune.forget(info)
        print(f"forgotten: {autotune.verdicts(info).file}")
    if options.script:
        failed = _tune(info, options.script, options.arguments, options.budget)
    if options.list:
        rows = autotune.verdicts(info).rows()
        print(f"verdicts: {len(rows)}, in {autotune.verdicts(info).file}")
        for line in _table(rows):
            print(line)
    return int(failed)


def _problem(options: argparse.Namespace) -> str:
    """Return what is wrong with the arguments, if anything."""
    if not options.budget >= 0:
        return f"the budget is {options.budget}; it must be at least 0 seconds"
    if options.script is None:
        return "" if options.list or options.forget else "give a script, or --list"
    return missing(options.script)


def _tune(
    info: DeviceInfo, script: str, arguments: Sequence[str], budget: float
) -> bool:
    """Run a program with autotuning on, and print the results; True if it failed."""
    known = len(autotune.verdicts(info))
    fw.autotune(budget=budget)
    failed = False
    try:
        run_as_main(script, arguments)
        fw.eval()
    except SystemExit as error:
        failed = bool(error.code)
    except Exception:
        traceback.print_exc()
        failed = True
    found = {row.tuning_key: row.verdict for row in autotune.measured}
    better = sum(row.choice != autotune.DEFAULT for row in found.values())
    spent = autotune.settings().spent
    for line in _table(found):
        print(line)
    print(
        f"{info.name}: questions measured: {len(found)}, in {spent:.1f} s of"
        f" {budget:g} s; answers better than the default: {better}; known before:"
        f" {known}"
    )
    if spent >= budget:
        print("the budget is spent: what is still open takes the default")
    print(f"kept in {autotune.verdicts(info).file}")
    return failed


def _table(rows: Mapping[str, Verdict]) -> Iterator[str]:
    """Yield tuning keys, each with its candidates, the quickest first."""
    for tuning_key, verdict in rows.items():
        yield tuning_key
        usual = verdict.seconds.get(autotune.DEFAULT, 0.0)
        ranked = sorted(verdict.seconds.items(), key=lambda row: row[1])
        for name, seconds in ranked:
            mark = "*" if name == verdict.choice else " "
            times = f"{usual / seconds:5.2f}x" if seconds else " " * 6
            if name == autotune.DEFAULT and verdict.default:
                name = f"{name}: {verdict.default}"
            yield f"  {mark} {seconds * _MILLISECONDS:10.4f} ms {times}  {name}"
        if not ranked:
            yield f"  * {verdict.choice}"


if __name__ == "__main__":
    sys.exit(main())
