"""Times of `all_sum` among several processes, of tensors on their devices.

`python -m vkbackend.tools.launch -n 2 -m vkbackend.tools.bench.collectives` prints a
row for each size: medians of the slowest rank, and bytes of the tensor by time, of a
sum by itself, of one within a replayed function, and of the exchange alone, which adds
nothing. A time counts once times have stopped falling.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import vkbackend.framework as fw
from vkbackend.framework.communication.transport import Call

from .clock import settled

_LEAST, _MOST = 4 << 10, 256 << 20
_STEP = 4
_WORD = 4

_SMALL, _MANY = 1 << 20, 10
"""Bytes up to which so many times as many rounds are measured."""

_MOST_WARM = 200
"""Rounds after which times count, whatever they are."""


def seconds_of(
    group: fw.distributed.Group, run: Callable[[], object], rounds: int
) -> float:
    """Return the median time of some work, of the slowest rank in each round.

    Parameters
    ----------
    group : Group
    run : callable
        What all ranks do; the device is waited for after it.
    rounds : int
        Times that are measured, after those that have not settled.
    """
    times: list[float] = []
    most = _MOST_WARM
    while len(times) < most + rounds:
        group.device.synchronize()
        group.barrier()
        start = time.perf_counter()
        run()
        group.device.synchronize()
        times.append(max(group.gather_objects(time.perf_counter() - start)))
        if len(times) < most and settled(times):
            most = len(times)
    found: float = statistics.median(times[most:])
    return found


def times_of(group: fw.distributed.Group, size: int, rounds: int) -> list[float]:
    """Return the times of a sum, of a replayed one, and of the exchange alone.

    Parameters
    ----------
    group : Group
    size : int
        Bytes of the tensor, of float32.
    rounds : int
        See `seconds_of`.
    """
    x = fw.ones(size // _WORD, device=group.device) * (1 + group.rank)
    fw.eval(x)
    # Without arguments, which a replay copies.
    step = fw.jit(lambda: group.all_sum(x * 2))
    runs: list[Callable[[], object]] = [
        lambda: fw.eval(group.all_sum(x)),
        step,
        exchange_of(group, size),
    ]
    rounds *= _MANY if size <= _SMALL else 1
    found = [seconds_of(group, run, rounds) for run in runs]
    expected = group.size * (group.size + 1) / 2
    for factor, total in ((1, group.all_sum(x)), (2, step())):
        ends = float(total[0]) / factor, float(total[-1]) / factor
        if ends != (expected, expected):
            raise AssertionError(
                f"all_sum: {size} bytes: the ends are {ends[0]} and {ends[1]}; they"
                f" must be {expected}"
            )
    return found


def exchange_of(group: fw.distributed.Group, size: int) -> Callable[[], None]:
    """Return what gives bytes to all ranks, in memory that suits the transport.

    Parameters
    ----------
    group : Group
    size : int
    """
    pages = group.pages_of(group.device)
    if pages is None:

        def meet() -> None:
            group.barrier()

        return meet
    gpu, count = group.device.gpu, group.size
    source, target = (
        group.allocate(gpu, each) or gpu.allocate(each) for each in (size, size * count)
    )
    goals = [(target, size * rank) for rank in range(count)]
    call = Call("exchange", f"{size} bytes")

    def run() -> None:
        fill = pages.filler([(source, 0)])
        group.exchange(call, size, fill, pages.writer(goals, group.rank, None))

    return run


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
        times = times_of(group, size, given.rounds)
        if group.rank == 0:
            if size == sizes[0]:
                print(f"{group.size} ranks, {group.device}, {group.transport}")
                print(
                    "| bytes | sum, ms | GB/s | replayed, ms | GB/s | exchange, ms |"
                    " GB/s |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
                )
            cells = [f"{1e3 * each:.3f} | {size / each / 1e9:.2f}" for each in times]
            print(f"| {size} | {' | '.join(cells)} |", flush=True)


def _sizes(most: int) -> list[int]:
    """Return sizes in steps of `_STEP`, up to the largest."""
    found = [_LEAST]
    while found[-1] * _STEP <= most:
        found.append(found[-1] * _STEP)
    return found


if __name__ == "__main__":
    main()
