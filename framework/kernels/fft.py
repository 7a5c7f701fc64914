"""Fourier transforms of rows: which lengths, and launch parameters."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from ..base.shape import ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    Scratch,
    StridedSpec,
    divisor,
    fold_grid,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

RADICES = (4, 2, 3, 5, 7, 11, 13)
"""Factors of lengths that the shader has, in the order of its passes."""

LONGEST = 2048
"""Elements of the longest row that 32 KiB of shared memory hold twice."""

LONGEST_IN_PASSES = 1 << 28
"""Elements of the longest row of which all angles fit into 32 bits."""

WORKGROUP = 256
ELEMENTS = 256
"""Elements of a workgroup, of several rows where they are short."""

MOST_AT_ONCE = 32
"""Numbers that one invocation transforms in a pass of its own."""

PASS_WORKGROUP = 64
"""Invocations of a workgroup of such a pass."""


@functools.lru_cache(maxsize=1024)
def radices_of(n: int) -> tuple[int, ...] | None:
    """Return the factors of a length that the shader has; None if there are others."""
    found = []
    for radix in RADICES:
        while n % radix == 0 and n > 1:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else None


def longest_row(gpu: DeviceInfo) -> int:
    """Return the elements of the longest row that is transformed without steps."""
    if not gpu.target.cheap_barriers:
        return LONGEST_IN_PASSES
    # Two copies of 8 bytes an element.
    return min(LONGEST, gpu.max_shared_memory // 16)


@functools.lru_cache(maxsize=1024)
def split_length(n: int, longest: int) -> tuple[int, int] | None:
    """Return two factors of a length of which the second fits; None without."""
    if radices_of(n) is None:
        return None
    fitting = (size for size in range(min(longest, math.isqrt(n)), 1, -1))
    second = next((size for size in fitting if n % size == 0), 1)
    return (n // second, second) if second > 1 else None


@functools.lru_cache(maxsize=4096)
def pass_radices(n: int) -> tuple[tuple[int, int], ...]:
    """Return the radices of as few passes as transform rows of `n`, of even sizes.

    Each is a product of two of the shader's.
    """
    if n == 1:
        return ()
    factors = (8, *RADICES)
    pairs = {
        a * b: (a, b)
        for a in factors
        for b in (1, *factors)
        if a >= b and a * b <= MOST_AT_ONCE
    }
    found = [
        (pair, *pass_radices(n // radix))
        for radix, pair in pairs.items()
        if n % radix == 0
    ]
    return min(
        found, key=lambda made: (len(made), sum(math.prod(each) for each in made))
    )


def fft_dispatches(
    gpu: DeviceInfo, x: StridedSpec, inverse: bool, scale: float
) -> list[Dispatch]:
    """Return the dispatches that transform the rows of (rows, n)."""
    rows, n = x.shape
    radices = radices_of(n)
    assert radices is not None, f"fft: {n} has a factor that there is no radix for"
    assert n <= longest_row(gpu), f"fft: rows of {n} do not fit into shared memory"
    if n > 1 and not gpu.target.cheap_barriers:
        return _passes(gpu, rows, n, inverse, scale)
    each = max(1, min(ELEMENTS, longest_row(gpu)) // n)
    push: dict[str, Argument] = {"x": "x", "table": "table", "out_": "out"}
    push |= {"rows": rows, "scale": scale}
    push["radices"] = sum(radix << 4 * k for k, radix in enumerate(radices))
    constants = {"N": n, "ROWS": each, "INVERSE": int(inverse)}
    constants["LOCAL_X"] = min(WORKGROUP, gpu.max_workgroup_invocations)
    grid = fold_grid(ceil_div(rows, each))
    return [Dispatch("fft/stockham", grid, push, constants)]


def _passes(
    gpu: DeviceInfo, rows: int, n: int, inverse: bool, scale: float
) -> list[Dispatch]:
    """Return a dispatch for each pass; between them numbers are in memory."""
    between = Scratch("numbers", 8 * rows * n)
    radices = pass_radices(n)
    local = min(PASS_WORKGROUP, gpu.max_workgroup_invocations)
    # A device without 64-bit integers moves the parts of a number.
    defines = {"PAIRED": str(int(gpu.shader_int64))}
    dispatches: list[Dispatch] = []
    source: str | Scratch = "x"
    done = 1
    for left, (first, second) in zip(
        range(len(radices) - 1, -1, -1), radices, strict=True
    ):
        radix = first * second
        apart = n // (done * radix)
        target: str | Scratch = between if left % 2 else "out"
        push: dict[str, Argument] = {"x": source, "out_": target, "n": n, "done": done}
        push |= {"apart": apart, "count": rows * (n // radix)}
        push["scale"] = 1.0 if left else scale
        for k, number in enumerate((n // radix, apart)):
            push[f"magic[{k}]"], push[f"shift[{k}]"] = divisor(number)
        constants = {"LOCAL_X": local, "FIRST": first, "SECOND": second}
        constants["INVERSE"] = int(inverse)
        grid = fold_grid(ceil_div(rows * (n // radix), local))
        dispatches.append(Dispatch("fft/pass", grid, push, constants, defines))
        source, done = target, done * radix
    return dispatches
