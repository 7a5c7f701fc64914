"""Command line of the sweep."""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vkbackend import DeviceLost, OutOfDeviceMemory

from ...exit_status import outcome
from .. import results
from ..baseline import PEERS, Peer
from ..measure import device_to_measure
from ..workload import SIZES
from . import named, processes, report
from .plan import SweepCase, cases
from .sides import Here, Inputs, NoGradientError, side_of
from .timing import Bed, RefusedError, measure
from .units import units

_BATCH_SECONDS = {"full": 0.01, "small": 0.006}
_BUDGET = {"full": 480.0, "small": 170.0}
_BESIDE = 0.85
"""Share of the time in which several processes measure; what they find below
`_AGAIN`, and what found no memory beside them, is measured once more in the rest, by
one."""
_AGAIN = 0.8
_SHARED_ROOM = 4
"""Share of the memory for inputs that one of several processes keeps of it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the sweep; the exit status is 1 when a result was wrong or a call failed."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(given)
    options.given = given
    return outcome("bench sweep", lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vkbackend.tools.bench sweep",
        description="Measure every function beside its peer, over shapes and dtypes.",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="TEXT",
        help="a function's name, or a part of a case's; may be given several times",
    )
    parser.add_argument("--named", action="store_true", help="the named cases instead")
    parser.add_argument(
        "--every", action="store_true", help="every dtype with every shape, both ways"
    )
    parser.add_argument("--peer", choices=PEERS, help="default: torch if installed")
    parser.add_argument("--size", choices=SIZES, help="default: small if in software")
    parser.add_argument("--device", help="an index or part of a name")
    parser.add_argument(
        "--budget", type=float, help="seconds after which no further case begins"
    )
    parser.add_argument(
        "--seconds", type=float, help="time in a row for each side of a case"
    )
    parser.add_argument("--shard", metavar="I/N", help="each N-th case from the I-th")
    parser.add_argument(
        "--processes", type=int, default=1, help="prepare in so many, time in turns"
    )
    parser.add_argument("--turns", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help="measure known cases too")
    parser.add_argument("--output", type=Path, help="default: a file of the device's")
    parser.add_argument("--no-output", action="store_true", help="write no results")
    parser.add_argument("--commit", help="what to call the version measured")
    parser.add_argument("--list", action="store_true", help="only list the cases")
    parser.add_argument("--table", action="store_true", help="print a line a case")
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="print the summary of a file"
    )
    parser.add_argument(
        "--compare",
        type=Path,
        nargs=2,
        metavar=("BEFORE", "AFTER"),
        help="print what changed between two files",
    )
    return parser


def _run(options: argparse.Namespace) -> int:
    if options.compare:
        before, after = map(report.read, options.compare)
        report.compare(before, after, print)
        return 0
    if options.report:
        lines = report.read(options.report)
        report.summary({report.key(line): line for line in lines}.values(), print)
        return 0
    warnings.simplefilter("ignore")
    device = device_to_measure(options.device)
    if device is None:
        return 1
    size = options.size or ("small" if _is_software(device) else "full")
    chosen = _chosen(options, size)
    if options.list:
        print("\n".join(f"{case.title} {case.dtype}" for case in chosen))
        return 0
    return _measure_all(options, size, chosen, device)


def _is_software(device: Any) -> bool:
    return bool(device.gpu.info.kind == "software")


def _chosen(options: argparse.Namespace, size: str) -> list[SweepCase]:
    """Return the cases that the options ask for."""
    known = units()
    found = named.cases(known, size) if options.named else None
    if found is None:
        found = cases(known, size, options.every)
    if options.only:
        found = [
            case
            for case in found
            if any(
                word == case.unit.name
                or (word not in known and word in f"{case.title} {case.dtype}")
                for word in options.only
            )
        ]
    if options.shard:
        index, count = map(int, options.shard.split("/"))
        found = found[index % count :: count]
    return found


def _measure_all(
    options: argparse.Namespace, size: str, chosen: list[SweepCase], device: Any
) -> int:
    """Measure cases until the time is spent; print what is known of all of them."""
    peer = _peer(options.peer)
    info = device.gpu.info
    commit = options.commit or results.commit()
    path = options.output or report.path_of(info)
    budget = options.budget or (math.inf if options.named else _BUDGET[size])
    until = time.perf_counter() + budget
    known = {} if options.again else _known(path, commit, peer)
    again: set[tuple[str, str]] = set()
    if options.processes > 1:
        _beside(options, path, commit, budget)
        known = _known(path, commit, peer)
        again = {name for name, line in known.items() if _is_disturbed(line)}
        chosen.sort(key=lambda case: _name(case) not in again)
    here, there = Here(device), side_of(peer)
    inputs = Inputs(here, there, on_gpu=not _is_software(device))
    if options.turns:
        inputs.room //= _SHARED_ROOM
    seconds = options.seconds or _BATCH_SECONDS[size]
    turns = processes.Turns(options.turns)
    bed = Bed(here, there, inputs, peer, device.gpu, seconds, turns)
    print(f"{device.description}, beside {peer.name}: {len(chosen)} cases", flush=True)
    start = time.perf_counter()
    lines, left = [], 0
    for case in chosen:
        line = known.get(_name(case))
        if (line is None or _name(case) in again) and time.perf_counter() < until:
            line = _line(case, bed, info, commit)
            if line is None:
                continue
            if not options.no_output:
                results.append(line, path)
            if _failed_by(line, DeviceLost):
                print(f"{case.title}: the device is lost; run this again to go on")
                return 1
        if line is None:
            left += 1
        else:
            lines.append(line)
    if options.table or options.named:
        report.table(lines, print)
    report.summary(lines, print)
    print(f"took {time.perf_counter() - start:.0f} s; lines are in {path}")
    if left:
        print(f"{left} cases are left; run this again to go on")
    return int(any(_is_bad(line) for line in lines))


def _beside(
    options: argparse.Namespace, path: Path, commit: str, budget: float
) -> None:
    """Measure by several processes for most of the time."""
    given = [*options.given, "--budget", str(_BESIDE * budget), "--processes", "1"]
    given += ["--output", str(path), "--commit", commit]
    failed = processes.run(given, options.shard, options.processes)
    if failed:
        print(f"{failed} of {options.processes} processes failed; run this again")


def _name(case: SweepCase) -> tuple[str, str]:
    return case.title, case.dtype


def _is_disturbed(line: report.Line) -> bool:
    """Return whether others may have disturbed it: it is slow, or found no memory."""
    if _failed_by(line, OutOfDeviceMemory):
        return True
    return line["ratio"] is not None and line["ratio"] < _AGAIN


def _failed_by(line: report.Line, error: type[Exception]) -> bool:
    return str(line.get("failure", "")).startswith(f"{error.__name__}:")


def _is_bad(line: report.Line) -> bool:
    return bool(line.get("failure")) or results.wrong(line)


def _known(path: Path, commit: str, peer: Peer) -> dict[tuple[str, str], report.Line]:
    """Return the lines that an earlier run of this version has left."""
    return {
        report.key(line): line
        for line in report.read(path)
        if line["commit"] == commit and line["peer"] == peer.name
    }


def _line(case: SweepCase, bed: Bed, info: Any, commit: str) -> report.Line | None:
    """Return the line of one case, None of what neither side does."""
    try:
        found = measure(case, bed)
    except (RefusedError, NoGradientError):
        return None
    except Exception as error:  # one failure must not lose the other results
        return report.record(case, error, info, bed.peer, commit)
    return report.record(case, found, info, bed.peer, commit)


def _peer(name: str | None) -> Peer:
    if name is not None:
        return Peer(name)
    try:
        return Peer("torch")
    except ImportError:
        return Peer("numpy")


if __name__ == "__main__":
    sys.exit(main())
