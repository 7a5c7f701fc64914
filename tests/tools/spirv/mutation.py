"""Broken modules without end, and what must hold for each of them.

    python -m tests.tools.spirv.mutation COUNT [FIRST]

runs by hand what the gate runs a little of.
"""

import random
import re
import resource
import struct
import sys
import time
from collections.abc import Sequence

from vkbackend import ShaderError
from vkbackend.tools.spirv import disassemble
from vkbackend.tools.spirv.lint import lint
from vkbackend.tools.spirv.report import report

MAX_SECONDS = 1.0
MAX_BYTES = 256 << 20
REASON = re.compile(r"^SPIR-V word \d+: .{8,}")
INTERESTING = (
    0,
    1,
    2,
    3,
    5,
    17,
    255,
    256,
    5349,
    65535,
    1 << 16,
    1 << 31,
    (1 << 32) - 1,
)


def mutate(words: bytes, seed: int) -> bytes:
    """Return a module with one to four things wrong with it."""
    choose = random.Random(seed)
    values = list(struct.unpack(f"<{len(words) // 4}I", words))
    for _ in range(choose.choice((1, 1, 2, 4))):
        at = choose.randrange(len(values))
        kind = choose.randrange(8)
        if kind == 0:
            values[at] ^= 1 << choose.randrange(32)
        elif kind == 1:
            values[at] = choose.choice(INTERESTING)
        elif kind == 2:
            values[at] = values[choose.randrange(len(values))]
        elif kind == 3:
            values[at] = values[at] + choose.choice((-1, 1)) & 0xFFFFFFFF
        elif kind == 4:
            length = values[at] >> 16 or 1
            del values[at : at + min(length, 9)]
        elif kind == 5:
            end = at + choose.randrange(1, 12)
            values[at:at] = values[at:end]
        elif kind == 6 and choose.random() < 0.2:
            del values[at:]
        else:
            values[at] = choose.randrange(
                1, max(2, values[3] if len(values) > 3 else 2)
            )
        if not values:
            values = [0]
    return struct.pack(f"<{len(values)}I", *values)


def inspect(words: bytes) -> str:
    """Return what became of a module: `whole`, or the reason of its rejection."""
    try:
        report("mutated", words)
        lint(words)
        disassemble.listing(words)
    except ShaderError as error:
        return str(error)
    return "whole"


def run(seeds: Sequence[bytes], first: int, count: int) -> tuple[int, float]:
    """Inspect so many mutated modules; return how many were whole, and the slowest."""
    whole, slowest = 0, 0.0
    for number in range(first, first + count):
        words = mutate(seeds[number % len(seeds)], number)
        start = time.thread_time()
        try:
            verdict = inspect(words)
        except Exception as error:
            raise AssertionError(f"mutation {number}") from error
        seconds = time.thread_time() - start
        whole += verdict == "whole"
        assert verdict == "whole" or REASON.match(verdict), verdict
        assert seconds < MAX_SECONDS, f"mutation {number} took {seconds:.2f} s"
        slowest = max(slowest, seconds)
    return whole, slowest


def main() -> None:
    """Run by hand, with a limit on memory."""
    from tests.tools.spirv.shaders import small

    count = int(sys.argv[1])
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    seeds = small()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    begin = time.time()
    whole = 0
    slowest = 0.0
    for start in range(first, first + count, 10_000):
        part, worst = run(seeds, start, min(10_000, first + count - start))
        whole, slowest = whole + part, max(slowest, worst)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - used
        assert grown < MAX_BYTES, f"memory grew by {grown} bytes"
        print(
            f"{min(start + 10_000 - first, count)}: {whole} whole,"
            f" slowest {slowest:.3f} s, memory +{grown >> 20} MiB,"
            f" {time.time() - begin:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
