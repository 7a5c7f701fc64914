"""Size sweep of square GEMMs: the cost of slightly different sizes.

`python -m vkbackend.tools.bench.gemm_sweep` times chains of products of many sizes, all
warm and in turns, and prints of each dtype the microseconds, the worst steps (a size
whose rate is lower than that of the next smaller round one) and the worst odd sizes
(beside the next larger round one).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import Tensor

from ..exit_status import outcome
from .clock import device_seconds, wall_seconds
from .measure import device_to_measure

ROUND = (*range(128, 769, 64), *range(896, 1665, 128), *range(1792, 2561, 256))
"""Whole tiles of every kernel are whole in most of them."""

ODD = (
    *(127, 255, 257, 383, 385, 511, 513, 575, 577, 639, 641, 767, 769),
    *(1023, 1025, 1279, 1281, 1535, 1537, 1791, 2047, 2049),
)

DTYPES = ("float16", "bfloat16", "float32")

_CHAIN_OPERATIONS = 2e9
_LONGEST_CHAIN = 40
_BATCH_SECONDS = 0.005
_WARM_SECONDS = 0.2
"""Before each round: a board that idled starts at a fraction of its clock."""

_SHOWN = 6

Times = Mapping[int, float]


class Chain(NamedTuple):
    """GEMM chain of one size, each GEMM dependent on the one before.

    Attributes
    ----------
    run : callable
        Asks for them.
    length : int
        How many they are.
    """

    run: Callable[[], Sequence[Tensor]]
    length: int


def chain_of(size: int, dtype: str, device: Any, rng: np.random.Generator) -> Chain:
    """Return a chain of GEMMs by random matrices scaled to preserve norms."""
    length = round(_CHAIN_OPERATIONS / (2 * size**3))
    length = max(2, min(_LONGEST_CHAIN, length))
    scale = (12 / size) ** 0.5
    first, *factors = (
        fw.tensor((rng.random((size, size)) - 0.5) * scale, "float32", device).to(dtype)
        for _ in range(3)
    )
    fw.eval(first, *factors)

    def run() -> Sequence[Tensor]:
        product = first
        for number in range(length):
            product = product @ factors[number % len(factors)]
        return [product]

    return Chain(run, length)


def times_of(device: Any, chains: Mapping[int, Chain], rounds: int) -> dict[int, float]:
    """Return the median seconds of a GEMM of each size, all measured in turns."""
    gpu = device.gpu
    clock = wall_seconds if gpu.info.kind == "software" else device_seconds
    largest = chains[max(chains)].run
    repeats = {}
    for size, chain in chains.items():
        clock(gpu, chain.run, 1)  # compiles
        once = clock(gpu, chain.run, 1)
        repeats[size] = max(1, min(200, round(_BATCH_SECONDS / max(once, 1e-9))))
    found: dict[int, list[float]] = {size: [] for size in chains}
    for _ in range(rounds):
        start = time.perf_counter()
        while time.perf_counter() - start < _WARM_SECONDS:
            clock(gpu, largest, 1)
            gpu.synchronize()
        for size, chain in chains.items():
            seconds = clock(gpu, chain.run, repeats[size])
            found[size].append(seconds / chain.length)
    return {size: statistics.median(row) for size, row in found.items()}


def steps(times: Times) -> list[tuple[float, int, int]]:
    """Return by how much the rate falls from each round size to the next, worst first.

    Returns
    -------
    list of (float, int, int)
        The smaller one's rate over the larger one's, and both sizes.
    """
    rounds = sorted(size for size in times if size in ROUND)
    rate = {size: size**3 / times[size] for size in rounds}
    falls = ((rate[a] / rate[b], a, b) for a, b in pairwise(rounds))
    return sorted(falls, reverse=True)


def beside_round(times: Times) -> list[tuple[float, int, int]]:
    """Return how much longer each odd size takes than the next round one, worst first.

    Returns
    -------
    list of (float, int, int)
        Time over time, the odd size, and the round one above it.
    """
    rounds = sorted(size for size in times if size in ROUND)
    found = []
    for size in times:
        above = [each for each in rounds if each > size]
        if size in ODD and above:
            found.append((times[size] / times[above[0]], size, above[0]))
    return sorted(found, reverse=True)


def _print(dtype: str, times: Times) -> None:
    print(dtype, "us:", *(f"{n}:{times[n] * 1e6:.1f}" for n in sorted(times)))
    falls = [f"{ratio:.2f} ({a} to {b})" for ratio, a, b in steps(times)]
    print(f"{dtype} steps:", ", ".join(falls[:_SHOWN]) or "none")
    odd = [f"{ratio:.2f} ({n} beside {b})" for ratio, n, b in beside_round(times)]
    print(f"{dtype} odd:", ", ".join(odd[:_SHOWN]) or "none", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m vkbackend.tools.bench.gemm_sweep",
        description="Time products of many sizes, and find the uneven ones.",
    )
    parser.add_argument("--dtype", nargs="+", choices=DTYPES, default=list(DTYPES))
    parser.add_argument("--sizes", nargs="+", type=int, help="instead of all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", help="an index or part of a name")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables; the exit status is 1 where there is no device."""
    options = _parser().parse_args(arguments)
    return outcome("bench.sizes", lambda: _run(options))


def _run(options: argparse.Namespace) -> int:
    device = device_to_measure(options.device)
    if device is None:
        return 1
    print(device)
    rng = np.random.default_rng(0)
    sizes = sorted(options.sizes or (*ROUND, *ODD))
    for dtype in options.dtype:
        chains = {size: chain_of(size, dtype, device, rng) for size in sizes}
        _print(dtype, times_of(device, chains, options.rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
