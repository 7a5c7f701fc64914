"""Workloads of the benchmarks, by name and size, and the cases that they make."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import Tensor

from .baseline import Peer

_BLOCK = 5_000_011
"""Random numbers that are drawn; larger inputs repeat them, out of step with rows."""

SIZES = ("full", "small")
"""For a GPU, with inputs larger than its caches; for a software device."""


@dataclass(frozen=True)
class Case:
    """Benchmark case: a workload with its inputs made.

    Attributes
    ----------
    ours, theirs : callable
        One run, here and in the peer; both return the results that are compared.
        `theirs` is None where the peer cannot.
    moved : int
        Bytes that have to be read and written at least.
    operations : int
        Multiplications and additions, if these could be the limit.
    tolerance : float or None
        Largest difference of results, as a share of the largest result; None where they
        are random.
    wall : bool
        Whether the time is that of the host's clock, from the call to the end.
    runs : int
        Times that one call does the work, on inputs that take turns.
    """

    ours: Callable[[], Sequence[Tensor]]
    theirs: Callable[[], Sequence[Any]] | None
    moved: int = 0
    operations: int = 0
    tolerance: float | None = 1e-5
    wall: bool = False
    runs: int = 1


class Bench:
    """Input generator: the same numbers for the device and for the peer."""

    def __init__(self, peer: Peer, device: Any = None, seed: int = 0) -> None:
        self.peer = peer
        self.device = device
        self._rng = np.random.default_rng(seed)

    def uniform(
        self, *shape: int, low: float = -1, high: float = 1, dtype: str = "float32"
    ) -> tuple[Tensor, Any]:
        """Return random numbers here and in the peer."""
        count = math.prod(shape)
        block = self._rng.random(min(count, _BLOCK), np.float32)
        block *= high - low
        block += low
        return self.both(np.resize(block, shape), dtype)

    def whole(self, *shape: int, below: int) -> tuple[Tensor, Any]:
        """Return random int64 numbers from 0 here and in the peer."""
        return self.both(self._rng.integers(0, below, shape), "int64")

    def both(self, values: np.ndarray[Any, Any], dtype: str) -> tuple[Tensor, Any]:
        """Return an array here and in the peer, converted."""
        here = fw.tensor(values, device=self.device).to(dtype)
        return here, self.peer.array(values, dtype)

    def choose(
        self,
        torch: Callable[[Any], Sequence[Any]] | None = None,
        numpy: Callable[[], Sequence[Any]] | None = None,
    ) -> Callable[[], Sequence[Any]] | None:
        """Return how the peer does it; `torch` is given the module."""
        module = self.peer.torch
        if module is None:
            return numpy
        return None if torch is None else lambda: torch(module)


Make = Callable[..., Case]


@dataclass(frozen=True)
class Workload:
    """Workload with a name and sizes.

    Attributes
    ----------
    name : str
        With `{}` for each of the sizes.
    dtype : str
        Of its inputs.
    sizes : dict of str to tuple of int
        What `make` is given after the `Bench`, for each of `SIZES` that there is.
    make : callable
        Makes the inputs and says what to run.
    """

    name: str
    dtype: str
    sizes: dict[str, tuple[int, ...]]
    make: Make

    def title(self, size: str) -> str:
        """Return its name at one of its sizes."""
        return self.name.format(*map(_short, self.sizes[size]))


WORKLOADS: list[Workload] = []


def workload(
    name: str,
    *,
    full: Sequence[int] | None = None,
    small: Sequence[int] | None = None,
    dtype: str = "float32",
) -> Callable[[Make], Make]:
    """Add a function that makes a `Case` to the workloads."""
    given = {"full": full, "small": small}
    sizes = {size: tuple(numbers) for size, numbers in given.items() if numbers}

    def add(make: Make) -> Make:
        WORKLOADS.append(Workload(name, dtype, sizes, make))
        return make

    return add


def _short(number: int) -> str:
    """Return a count as names have it: 64M, 4M, 1024."""
    return f"{number >> 20}M" if number % (1 << 20) == 0 and number else str(number)
