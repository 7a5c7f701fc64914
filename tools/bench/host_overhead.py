"""Host overhead of a training step: the duration of the call that submits it.

`python -m vkbackend.tools.bench.host_overhead` prints it for the replayed and the eager
steps, beside the peer's (CUDA graphs and eager PyTorch, where there is a GPU for them),
in turns: microseconds at the 10th, 50th and 90th of 100 calls, and the least. Calls
come after a wait for all work (`idle`), or in bursts that wait for nothing (`ahead`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from . import training
from .baseline import PEERS, Peer
from .measure import device_to_measure
from .workload import SIZES, WORKLOADS, Bench

STEPS = ("mlp_step_b128_cudagraph_wall", "tinytransformer_cudagraph")
EAGER = ("mlp_step_b128_eager_wall", "tinytransformer_eager")

_BURST = 8
_WARM = 3
_ROUNDS = 5
_MICROSECONDS = 1e6

Call = Callable[[], Any]


def after_a_wait(call: Call, wait: Call, calls: int) -> list[float]:
    """Return the seconds of calls, each after everything has been waited for."""
    taken = []
    for _ in range(calls):
        wait()
        start = time.perf_counter()
        held = call()
        taken.append(time.perf_counter() - start)
    wait()
    del held
    return taken


def in_bursts(call: Call, wait: Call, calls: int) -> list[float]:
    """Return the seconds of calls that do not wait for those before them."""
    taken = []
    for number in range(calls):
        if number % _BURST == 0:
            wait()
        start = time.perf_counter()
        held = call()
        taken.append(time.perf_counter() - start)
    wait()
    del held
    return taken


def quantiles(seconds: Sequence[float]) -> tuple[float, float, float, float]:
    """Return the least, and those at a tenth, a half and nine tenths, in order."""
    ordered = sorted(seconds)
    last = len(ordered) - 1
    at = [round(last * share) for share in (0.0, 0.1, 0.5, 0.9)]
    return ordered[at[0]], ordered[at[1]], ordered[at[2]], ordered[at[3]]


def _line(name: str, who: str, how: str, seconds: Sequence[float]) -> str:
    numbers = " ".join(f"{each * _MICROSECONDS:9.1f}" for each in quantiles(seconds))
    return f"{name:<30} {who:<6} {how:<6} {numbers}"


def _report(name: str, sides: dict[str, tuple[Call, Call]], calls: int) -> None:
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(_ROUNDS):
        for who, (call, wait) in sides.items():
            for how, measure in (("idle", after_a_wait), ("ahead", in_bursts)):
                measure(call, wait, _WARM)
                taken = measure(call, wait, max(1, calls // _ROUNDS))
                found.setdefault((who, how), []).extend(taken)
    for (who, how), seconds in sorted(found.items()):
        print(_line(name, who, how, seconds), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vkbackend.tools.bench.host_overhead",
        description="Measure what training steps cost the host.",
    )
    parser.add_argument("--peer", choices=PEERS, default="torch")
    parser.add_argument("--size", choices=SIZES, help="default: small if in software")
    parser.add_argument("--device", help="an index or part of a name")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--eager", action="store_true", help="eager steps as well")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit status is 1 where there is no device."""
    options = _parser().parse_args(arguments)
    device = device_to_measure(options.device)
    if device is None:
        return 1
    gpu = device.gpu
    size = options.size or ("small" if gpu.info.kind == "software" else "full")
    peer = Peer(options.peer)
    print(f"{device.description}, beside {peer.name}")
    print(f"{'host us of a call':<44} {'least':>9} {'10%':>9} {'50%':>9} {'90%':>9}")
    workloads = [
        each for each in WORKLOADS if each.make.__module__ == training.__name__
    ]
    names = STEPS + EAGER if options.eager else STEPS
    for name in names:
        (workload,) = [each for each in workloads if each.title("full") == name]
        case = workload.make(Bench(peer, device), *workload.sizes[size])
        sides: dict[str, tuple[Call, Call]] = {"ours": (case.ours, gpu.synchronize)}
        if case.theirs is not None:
            sides["theirs"] = case.theirs, peer.synchronize
        _report(workload.title(size), sides, options.calls)
    return 0


if __name__ == "__main__":
    sys.exit(main())
