"""Threads of the BLAS library that NumPy's factorisations call.

OpenBLAS shares each product with a vector among as many threads as there are
processors. Eigenvalues take thousands of products that are over before all threads have
begun, which wait for each other then: on 2 busy processors 512 rows took 0.6 s by one
thread, 2 to 4 by two (OpenBLAS 0.3.31, 2026-11-30).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

from numpy.linalg import _umath_linalg

from . import fork_safety

SERIAL = 1024
"""Rows of matrices up to which one thread is to find eigenvalues."""

AFFIXES = tuple((prefix, suffix) for prefix in ("scipy_", "") for suffix in ("64_", ""))
"""What builds of OpenBLAS put before and behind the names of functions."""


class Threads(NamedTuple):
    """Functions that read and change the number of threads of a library."""

    number: Callable[[], int]
    change: Callable[[int], object]


@cache
def loaded_library() -> ctypes.CDLL | None:
    """Return what NumPy has loaded for linear algebra, with the functions of BLAS."""
    try:
        return ctypes.CDLL(_umath_linalg.__file__)
    except OSError:
        return None


@cache
def found_threads() -> Threads | None:
    """Return the functions of the library that NumPy has loaded, if it is OpenBLAS."""
    library = loaded_library()
    for prefix, suffix in AFFIXES:
        read, write = (
            getattr(library, f"{prefix}openblas_{verb}_num_threads{suffix}", None)
            for verb in ("get", "set")
        )
        if read and write:
            write.restype = None
            return Threads(read, write)
    return None


class _Blocks:
    """Blocks that run now, and the number of threads before the first."""

    def __init__(self) -> None:
        self.running = 0
        self.before = 1
        self.lock = threading.Lock()
        fork_safety.renew(self, "lock", threading.Lock)


_blocks = _Blocks()


@contextmanager
def one_blas_thread(rows: int) -> Iterator[None]:
    """Let one thread factorise matrices of so many rows, if they are few.

    The number is the process's: other threads' products have one meanwhile, too. It
    becomes what it was as the last block ends, unless it was changed in between.
    """
    threads = found_threads() if rows <= SERIAL else None
    if threads is None:
        yield
        return
    with _blocks.lock:
        if not _blocks.running:
            _blocks.before = threads.number()
            if _blocks.before > 1:
                threads.change(1)
        _blocks.running += 1
    try:
        yield
    finally:
        with _blocks.lock:
            _blocks.running -= 1
            if not _blocks.running and _blocks.before > 1 and threads.number() == 1:
                threads.change(_blocks.before)
