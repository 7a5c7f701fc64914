"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..exit_status import outcome
from . import (
    compute_bound,
    growth,
    language_models,
    memory_bound,
    network_training,
    results,
    roofline,
    rowwise,
    sweep,
    training,
    transfers,
)
from .baseline import PEERS, Peer
from .measure import device_to_measure, measure
from .workload import SIZES, WORKLOADS, Workload

_FAMILIES = (
    memory_bound,
    rowwise,
    compute_bound,
    transfers,
    training,
    network_training,
    language_models,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run workloads; the exit status is 1 when a result was wrong or one failed.

    `sweep` as the first argument runs the sweep over all functions instead, and
    `growth` times kernels over sizes.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["sweep"]:
        return sweep.main(given[1:])
    if given[:1] == ["growth"]:
        return growth.main(given[1:])
    options = _parser().parse_args(arguments)
    return outcome("bench", lambda: _run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vkbackend.tools.bench",
        description="Measure workloads here and in a peer, in one process.",
        epilog=f"The families are {', '.join(_family(f) for f in _FAMILIES)}; `sweep`"
        " as the first argument measures every function, see `sweep --help`, and"
        " `growth` times kernels over sizes.",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="a family, or a part of a workload's name; may be given several times",
    )
    parser.add_argument("--peer", choices=PEERS, help="default: torch if installed")
    parser.add_argument("--size", choices=SIZES, help="default: small if in software")
    parser.add_argument("--device", help="an index or part of a name")
    parser.add_argument(
        "--rounds", type=int, default=7, help="measurements (default: %(default)d)"
    )
    parser.add_argument("--output", type=Path, help="default: a file of the device's")
    parser.add_argument("--no-output", action="store_true", help="write no results")
    parser.add_argument("--commit", help="what to call the version measured")
    parser.add_argument("--list", action="store_true", help="only list the names")
    return parser


def _family(module: Any) -> str:
    return str(module.__name__.rpartition(".")[2])


def _chosen(only: Sequence[str], size: str) -> list[Workload]:
    """Return the workloads that have the size and fit one of the names, if given."""
    found = []
    order = [module.__name__ for module in _FAMILIES]
    for workload in sorted(WORKLOADS, key=lambda w: order.index(w.make.__module__)):
        if size not in workload.sizes:
            continue
        family = workload.make.__module__.rpartition(".")[2]
        title = workload.title(size)
        if not only or any(word == family or word in title for word in only):
            found.append(workload)
    return found


def _run(options: argparse.Namespace) -> int:
    device = device_to_measure(options.device)
    if device is None:
        return 1
    info = device.gpu.info
    software = info.kind == "software"
    size = options.size or ("small" if software else "full")
    chosen = _chosen(options.only, size)
    if not chosen:
        print(
            f"bench: no workload of size {size} fits {', '.join(options.only)};"
            " --list names them",
            file=sys.stderr,
        )
        return 1
    if options.list:
        print("\n".join(workload.title(size) for workload in chosen))
        return 0
    peer = _peer(options.peer)
    limits = roofline.measure(device.gpu)
    print(f"{device.description}, beside {peer.name}")
    print(
        f"limits: copy {limits.bytes_per_second / 1e9:.0f} GB/s, float32 multiply-add"
        f" {limits.operations_per_second / 1e12:.3g} TFLOP/s"
    )
    print(results.HEADING)
    failed = False
    for workload in chosen:
        title = workload.title(size)
        try:
            measured = measure(workload, size, peer, device, options.rounds)
        except Exception as error:  # one failure must not lose the other results
            print(f"{title:<34} FAILED: {type(error).__name__}: {error}"[:300])
            failed = True
            continue
        version = options.commit or results.commit()
        row = results.record(
            title, workload.dtype, measured, info, peer, limits, version
        )
        print(results.line(row), flush=True)
        failed |= results.wrong(row)
        if not options.no_output:
            results.append(row, options.output or results.file_of(info))
    return int(failed)


def _peer(name: str | None) -> Peer:
    if name is not None:
        return Peer(name)
    try:
        return Peer("torch")
    except ImportError:
        return Peer("numpy")
