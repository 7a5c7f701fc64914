"""Times of `all_sum` among several processes, of tensors on their devices.

`python -m vkbackend.tools.launch -n 2 -m vkbackend.tools.bench.collectives` prints a
row for each size: the median of the slowest rank, and bytes of the tensor by time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import vkbackend.framework as fw

_LEAST, _MOST = 4 << 10, 256 << 20
_STEP = 4
_WORD = 4


def seconds_of(group: fw.distributed.Group, size: int, rounds: int) -> float:
    """Return the median time of `all_sum`, of the slowest rank in each round.

    Parameters
    ----------
    group : Group
    size : int
        Bytes of the tensor, of float32.
    rounds : int
        Times that are measured, after two that are not.
    """
    x = fw.ones(size // _WORD, device=group.device) * (1 + group.rank)
    times = []
    for _ in range(rounds + 2):
        fw.eval(x)
        group.device.synchronize()
        group.barrier()
        start = time.perf_counter()
        total = group.all_sum(x)
        fw.eval(total)
        group.device.synchronize()
        times.append(max(group.gather_objects(time.perf_counter() - start)))
    expected = group.size * (group.size + 1) / 2
    if float(total[0]) != expected or float(total[-1]) != expected:
        raise AssertionError(
            f"all_sum: {size} bytes: the ends are {float(total[0])} and"
            f" {float(total[-1])}; they must be {expected}"
        )
    found: float = statistics.median(times[2:])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each size.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the command line.
    """
    parser = argparse.ArgumentParser(description="Time all_sum among processes.")
    parser.add_argument("--most", type=int, default=_MOST, help="bytes of the largest")
    parser.add_argument("--sizes", type=int, nargs="+", help="bytes, rather than all")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--transport", default="any", help="any, host, cuda or mpi")
    given = parser.parse_args(arguments)
    group = fw.distributed.init(transport=given.transport)
    sizes = given.sizes or _sizes(given.most)
    for size in sizes:
        seconds = seconds_of(group, size, given.rounds)
        if group.rank == 0:
            if size == sizes[0]:
                print(f"{group.size} ranks, {group.device}, {group.transport}")
                print("| bytes | ms | GB/s |\n| ---: | ---: | ---: |")
            print(
                f"| {size} | {1e3 * seconds:.3f} | {size / seconds / 1e9:.2f} |",
                flush=True,
            )


def _sizes(most: int) -> list[int]:
    """Return sizes in steps of `_STEP`, up to the largest."""
    found = [_LEAST]
    while found[-1] * _STEP <= most:
        found.append(found[-1] * _STEP)
    return found


if __name__ == "__main__":
    main()
