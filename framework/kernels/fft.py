"""Fourier transforms in shared memory: which lengths, and launch parameters."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from ..base.shape import ceil_div
from ..ir.kernel_call import Argument, Dispatch, StridedSpec, fold_grid

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

RADICES = (4, 2, 3, 5, 7, 11, 13)
"""Factors of lengths that the shader has, in the order of its passes."""

LONGEST = 2048
"""Elements of the longest row that 32 KiB of shared memory hold twice."""

WORKGROUP = 256
ELEMENTS = 256
"""Elements of a workgroup, of several rows where they are short."""


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
    """Return the elements of the longest row that a workgroup transforms."""
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


def fft_dispatch(
    gpu: DeviceInfo, x: StridedSpec, inverse: bool, scale: float
) -> Dispatch:
    """Return the dispatch that transforms the rows of (rows, n)."""
    rows, n = x.shape
    radices = radices_of(n)
    assert radices is not None, f"fft: {n} has a factor that there is no radix for"
    assert n <= longest_row(gpu), f"fft: rows of {n} do not fit into shared memory"
    each = max(1, min(ELEMENTS, longest_row(gpu)) // n)
    push: dict[str, Argument] = {"x": "x", "table": "table", "out_": "out"}
    push |= {"rows": rows, "scale": scale}
    push["radices"] = sum(radix << 4 * k for k, radix in enumerate(radices))
    constants = {"N": n, "ROWS": each, "INVERSE": int(inverse)}
    constants["LOCAL_X"] = min(WORKGROUP, gpu.max_workgroup_invocations)
    return Dispatch("fft/stockham", fold_grid(ceil_div(rows, each)), push, constants)
