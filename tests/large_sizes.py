"""Large tensors: each class of op on as many elements as a device takes.

    python -m tests.large_sizes                        as large as the device allows
    python -m tests.large_sizes --memory 6             at most so many GiB at once
    python -m tests.large_sizes --most 1000000         elements at most
    python -m tests.large_sizes --only cumsum --list   cases of that name

What breaks in 32 bits is found where elements lie: results are known in closed form,
and compared at both ends, on both sides of each power of two from 2^28 to 2^34 bytes
and of 2^26 to 2^31 elements, and at random places; sums are compared whole. Nothing
large is copied to the host, but for a test of that. A case takes as many elements as
its memory allows, and is skipped below `--least`. The exit status is 1 if a result is
wrong or a call fails.

A driver may allocate more at once than it promises (`maxMemoryAllocationSize`). What
it does allocate is tried first and used, but with `--promised`.
"""

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import tests.large_cases
import tests.large_layers  # noqa: F401  # adds its cases
import vkbackend.framework as fw
from tests.large_case import CASES, LargeCase, Work, WrongResultError
from vkbackend import Error
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.size_limits import MOST_COUNTED
from vkbackend.memory.memory import MemoryUsage

GIBIBYTE = 1 << 30


def elements(case: LargeCase, dtype: str, memory: int, largest: int, most: int) -> int:
    """Return how many elements a case takes.

    Parameters
    ----------
    case : LargeCase
    dtype : str
    memory, largest : int
        Bytes at once, and of one allocation.
    most : int
        Elements at most.
    """
    size = DTYPES[dtype].itemsize
    counted = MOST_COUNTED // max(1, size // 4, case.widest // 4)
    fits = int(memory // (case.tensors * size + case.others))
    return min(counted, most, fits, largest // max(size, case.widest))


def run(options: argparse.Namespace) -> int:
    """Run the cases that fit; the exit status is 1 if one failed."""
    device = fw.device(options.device)
    if not device.is_gpu:
        print("large_sizes: there is no Vulkan device", file=sys.stderr)
        return 1
    info = device.gpu.info
    largest = info.max_allocation_size
    if not options.promised:
        largest = beyond_promise(device)
    heap = max(each.size for each in info.heaps if each.device_local)
    memory = int(min(options.memory * GIBIBYTE, 0.9 * heap))
    print(
        f"{device.name} {info.name}: {memory / GIBIBYTE:.2f} GiB at once; one"
        f" allocation {info.max_allocation_size} bytes, one buffer"
        f" {info.max_buffer_size}; workgroups {info.max_workgroup_count}",
        flush=True,
    )
    counts = {"ok": 0, "WRONG": 0, "FAILED": 0, "skipped": 0}
    until = time.perf_counter() + options.seconds
    for case, dtype in chosen(options.only):
        count = elements(case, dtype, memory, largest, options.most)
        if options.list or count < min(options.least, options.most):
            outcome = "skipped", f"{count} elements fit"
        elif time.perf_counter() > until:
            outcome = "skipped", "no time is left"
        else:
            outcome = attempt(case, Work(device, dtype, count))
        counts[outcome[0]] += 1
        print(f"{outcome[0]:8}{case.name} {dtype} {count}: {outcome[1]}", flush=True)
    print(", ".join(f"{number} {what}" for what, number in counts.items()))
    return int(counts["WRONG"] + counts["FAILED"] > 0)


def beyond_promise(device: Any) -> int:
    """Let a device allocate as much at once as its driver does; return the bytes."""
    gpu = device.gpu
    promised, info = gpu.info.max_allocation_size, gpu.info
    size = min(info.max_buffer_size, MOST_COUNTED * 4 // 256 * 256 + 256)
    while size > promised:
        try:
            more = replace(info, max_allocation_size=size)
            gpu.info = gpu.memory.logical.info = more
            gpu.memory.free(gpu.memory.allocate(size, MemoryUsage.DEVICE, "probe"))
        except Error as error:
            print(f"beyond the promise: {size} bytes: {error}")
            size //= 2
        else:
            print(f"beyond the promise of {promised} bytes: {size} are allocated")
            return size
    gpu.info = gpu.memory.logical.info = info
    return promised


def chosen(text: str) -> Iterator[tuple[LargeCase, str]]:
    """Yield cases with each of their dtypes, of those with a text in their name."""
    for case in CASES:
        for dtype in case.dtypes:
            if text in f"{case.name} {dtype}":
                yield case, dtype


def attempt(case: LargeCase, work: Work) -> tuple[str, str]:
    """Run one case; return what came of it, and the words for that."""
    start = time.perf_counter()
    try:
        case.run(work, *case.numbers)
        work.device.gpu.synchronize()
        found = "ok", f"{work.compared} values, {time.perf_counter() - start:.2f} s"
    except WrongResultError as error:
        found = "WRONG", str(error)
    except Exception as error:  # a device error must not hide the other cases
        found = "FAILED", f"{type(error).__name__}: {error}"
    gc.collect()
    work.device.gpu.empty_cache()
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.large_sizes")
    parser.add_argument("--device", help="an index or part of a name")
    parser.add_argument("--memory", type=float, default=120, help="GiB at once")
    parser.add_argument("--most", type=int, default=MOST_COUNTED, help="elements")
    parser.add_argument("--least", type=int, default=1 << 28, help="elements")
    parser.add_argument("--seconds", type=float, default=150, help="begin none after")
    parser.add_argument("--only", default="", help="part of a case's name")
    parser.add_argument("--promised", action="store_true", help="no larger allocations")
    parser.add_argument("--list", action="store_true", help="run none")
    return run(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main())
