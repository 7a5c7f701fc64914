"""Host cost of single calls, here and in another checkout.

`python -m vkbackend.tools.bench.host_calls` prints the microseconds of a call of each
of some operations, in a process of its own; `--against PATH` measures those of the
checkout at PATH too, in turns, and prints the median of each and of their ratios. Calls
come in bursts with results dropped; what they are then run with is not counted.

The process runs this file with whatever `vkbackend` the checkout has, so that it uses
names alone that PyTorch has too.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

BURST = 64
"""Calls from one wait to the next: fewer than make a device begin by itself."""

_MICROSECONDS = 1e6
_FOLDERS = ("framework", "glsl", "tools")
_ROOT = Path(__file__).resolve().parents[2]

Call = Callable[[], Any]


def calls(fw: Any, device: str) -> dict[str, Call]:
    """Return what is timed, by name."""
    x, y = (fw.ones((64, 64), device=device) for _ in range(2))
    leaf = fw.ones((64, 64), device=device, requires_grad=True)
    weight, bias = fw.ones((64, 64), device=device), fw.ones(64, device=device)
    functional = fw.nn.functional
    total = fw.zeros((64, 64), device=device)
    layers = (fw.nn.Linear(64, 64), fw.nn.ReLU(), fw.nn.Linear(64, 8))
    model = fw.nn.Sequential(*layers).to(device)
    image = fw.ones((1, 4, 8, 8), device=device)
    grid = fw.zeros((1, 8, 8, 2), device=device)
    labels = fw.arange(64, device=device)

    def step() -> None:
        for parameter in model.parameters():
            parameter.grad = None
        model(x).square().mean().backward()

    return {
        "abs": lambda: x.abs(),
        "mul": lambda: x * y,
        "view": lambda: x.view(32, 128),
        "reshape": lambda: x.reshape(32, 128),
        "reshape, taped": lambda: leaf.reshape(32, 128),
        "t": lambda: x.t(),
        "getitem": lambda: x[3],
        "linear": lambda: functional.linear(x, weight, bias),
        "cat": lambda: fw.cat([x, y]),
        "layer_norm": lambda: functional.layer_norm(x, (64,), bias, bias),
        "sum": lambda: x.sum(1),
        "softmax": lambda: x.softmax(1),
        "max": lambda: x.max(),
        "add_": lambda: total.add_(x),
        "mse_loss": lambda: functional.mse_loss(x, y),
        "mse_loss, taped": lambda: functional.mse_loss(leaf, y),
        "nll_loss": lambda: functional.nll_loss(x, labels),
        "avg_pool2d": lambda: functional.avg_pool2d(image, 2),
        "max_pool2d": lambda: functional.max_pool2d(image, 2),
        "interpolate": lambda: functional.interpolate(image, scale_factor=2),
        "pdist": lambda: functional.pdist(x),
        "mode": lambda: x.mode(1),
        "grid_sample": lambda: functional.grid_sample(image, grid, align_corners=True),
        "forward and backward": step,
    }


def burst(call: Call, wait: Call, length: int) -> float:
    """Return the seconds of one of several calls that wait for nothing."""
    wait()
    start = time.perf_counter()
    for _ in range(length):
        call()
    taken = time.perf_counter() - start
    wait()
    return taken / length


def serve(device: str) -> None:
    """Answer each name on the standard input with the seconds of a call."""
    import vkbackend.framework as fw

    warnings.simplefilter("ignore")
    table = calls(fw, device)
    place: Any = fw.device(device)

    def wait() -> None:
        fw.eval()
        if place.is_gpu:
            place.gpu.synchronize()

    gc.disable()
    print(*table, sep="\t", flush=True)
    for line in sys.stdin:
        call = table[line.rstrip("\n")]
        length = BURST // 16 if call is table["forward and backward"] else BURST
        print(min(burst(call, wait, length) for _ in range(5)), flush=True)
        gc.collect()


@contextlib.contextmanager
def server(checkout: Path, device: str) -> Iterator[subprocess.Popen[str]]:
    """Start this file with the library of a checkout."""
    with tempfile.TemporaryDirectory(prefix="vkbackend-bench-") as folder:
        package = Path(folder) / "vkbackend"
        package.mkdir()
        sources = (
            *(checkout / "vkbackend").iterdir(),
            *map(checkout.joinpath, _FOLDERS),
        )
        for source in sources:
            (package / source.name).symlink_to(source)
        process = subprocess.Popen(
            [sys.executable, __file__, "--serve", "--device", device],
            env={**os.environ, "PYTHONPATH": folder},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.communicate()


def ask(process: subprocess.Popen[str], name: str) -> float:
    """Return the seconds of a call in a process."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(name, file=process.stdin, flush=True)
    answer = process.stdout.readline()
    if not answer:
        raise RuntimeError(f"host_calls: the process that measures {name!r} ended")
    return float(answer)


def measure(
    processes: Sequence[subprocess.Popen[str]], rounds: int
) -> Iterator[tuple[str, list[list[float]]]]:
    """Yield each name that all know with its seconds in each process, in turns."""
    known = []
    for process in processes:
        assert process.stdout is not None
        known.append(process.stdout.readline().rstrip("\n").split("\t"))
    for name in known[0]:
        found: list[list[float]] = [[] for _ in processes]
        for turn in range(rounds + 1):
            # Who comes first changes; what the first round compiles does not count.
            for at in (*range(len(processes)),)[:: 1 if turn % 2 else -1]:
                seconds = ask(processes[at], name)
                if turn:
                    found[at].append(seconds)
        yield name, found


def line(name: str, found: Sequence[Sequence[float]]) -> str:
    """Return medians in microseconds, and that of the ratios of each turn."""
    numbers = [f"{statistics.median(each) * _MICROSECONDS:9.2f}" for each in found]
    if len(found) > 1:
        ratio = statistics.median(ours / base for ours, base in zip(*found))
        numbers.append(f"{ratio:8.3f}")
    return f"{name:<22}" + " ".join(numbers)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m vkbackend.tools.bench.host_calls",
        description="Measure what calls cost the host, here and in another checkout.",
    )
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--device", default="gpu", help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(options.device)
        return 0
    checkouts = [_ROOT, *([options.against] if options.against else [])]
    for checkout in checkouts:
        if not (checkout / "vkbackend" / "__init__.py").exists():
            parser.error(f"{checkout} is no checkout")
    heads = ["here", "there", "ratio"] if options.against else ["here"]
    print(f"{'host us of a call':<22}" + " ".join(f"{head:>9}" for head in heads))
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(server(path.resolve(), options.device))
            for path in checkouts
        ]
        for name, found in measure(running, options.rounds):
            print(line(name, found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
