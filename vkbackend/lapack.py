"""Eigenvalues of general matrices by the LAPACK library that NumPy has loaded.

NumPy computes in double precision whatever the dtype is. Single precision takes less
than half of the time: 512 rows of float32 0.13 s where NumPy took 0.31 s, and 0.16 s
where it took 0.37 s with eigenvectors (one thread of OpenBLAS 0.3.31, 2026-11-30).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numpy as np

from .blas_threads import AFFIXES, loaded_library, one_blas_thread

Routine = Callable[..., object]

ROUTINES = {"f": "sgeev", "F": "cgeev"}
"""Routines by the character of a dtype; NumPy has those of double precision."""

LEAST_ROWS = 16
"""Rows from which the time of a call from Python is small beside the routine's."""


@cache
def found_routine(name: str) -> Routine | None:
    """Return a routine of the library, by its name in LAPACK, if it has that."""
    library = loaded_library()
    for prefix, suffix in AFFIXES:
        # Fortran's names end with an underscore, before which a suffix has its own.
        ending = f"_{suffix}" if suffix else "_"
        symbol = f"{prefix}{name}{ending}"
        if hasattr(library, symbol):
            routine: Routine = getattr(library, symbol)
            return routine
    return None


def eigenvalues(x: np.ndarray) -> np.ndarray:
    """Return the eigenvalues of square matrices.

    Parameters
    ----------
    x : ndarray, shape (..., n, n)

    Returns
    -------
    ndarray, shape (..., n)
        Complex, or real where NumPy finds that all of them are.

    Raises
    ------
    LinAlgError
        NumPy's: if an element is not finite, or the iteration does not converge.
    """
    routine = _routine(x)
    with one_blas_thread(x.shape[-1]):
        if routine is None:
            return np.linalg.eigvals(x)
        return _computed(routine, x, False)[0]


def eigenvectors(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the eigenvalues of square matrices, and eigenvectors as columns.

    Parameters
    ----------
    x : ndarray, shape (..., n, n)

    Returns
    -------
    tuple of ndarray, shapes (..., n) and (..., n, n)
        As `eigenvalues`; the vectors are of length 1.

    Raises
    ------
    LinAlgError
        As `eigenvalues`.
    """
    routine = _routine(x)
    with one_blas_thread(x.shape[-1]):
        if routine is None:
            found = np.linalg.eig(x)
            return found.eigenvalues, found.eigenvectors
        return _computed(routine, x, True)


def _routine(x: np.ndarray) -> Routine | None:
    name = ROUTINES.get(x.dtype.char)
    if name is None or not x.size or x.shape[-1] < LEAST_ROWS:
        return None
    return found_routine(name)


def _computed(
    routine: Routine, x: np.ndarray, wanted: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return what a routine finds of each matrix; no vectors but if they are wanted."""
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError("Array must not contain infs or NaNs")
    size = x.shape[-1]
    # Fortran's matrices are columns one after another.
    given = np.swapaxes(x, -1, -2).reshape(-1, size, size).copy()
    parts = [np.empty(given.shape[:2], x.dtype) for _ in range(2 - _is_complex(x))]
    found = np.empty(given.shape if wanted else (0, size, size), x.dtype)
    _run(routine, given, parts, found)
    values: np.ndarray = parts[0].astype(np.complex64)
    if not _is_complex(x):
        values.imag = parts[1]
    vectors = np.swapaxes(_vectors(found, parts[-1]), -1, -2)
    shape = x.shape if wanted else vectors.shape
    return values.reshape(x.shape[:-1]), vectors.reshape(shape)


def _is_complex(x: np.ndarray) -> bool:
    return x.dtype.kind == "c"


def _run(
    routine: Routine, given: np.ndarray, parts: list[np.ndarray], found: np.ndarray
) -> None:
    """Call a routine for each matrix, which is lost; results are in the other arrays.

    Raises
    ------
    LinAlgError
        If the iteration does not converge.
    """
    size = given.shape[-1]
    # Where integers have 32 bits these are the lower half, of what stays below.
    order, one, length, info = (ctypes.c_int64(each) for each in (size, 1, -1, 0))
    steps = (given, *parts, *([found] if len(found) else []))
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in steps]
    work = np.empty(1, given.dtype)
    place = ctypes.c_void_p(work.ctypes.data)
    more = np.empty(2 * size, np.float32)
    arguments: list[object] = [b"N", b"V" if len(found) else b"N", ctypes.byref(order)]
    arguments += [pointers[0], ctypes.byref(order), *pointers[1 : 1 + len(parts)]]
    arguments += [None, ctypes.byref(one)]
    arguments += [pointers[-1], ctypes.byref(order), place, ctypes.byref(length)]
    if _is_complex(given):
        arguments.append(ctypes.c_void_p(more.ctypes.data))
    # At the end are the lengths of the two letters.
    arguments += [ctypes.byref(info), ctypes.c_size_t(1), ctypes.c_size_t(1)]
    routine(*arguments)
    length.value = int(work[0].real)
    work = np.empty(length.value, given.dtype)
    place.value = work.ctypes.data
    for _ in given:
        routine(*arguments)
        if info.value:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        for pointer, each in zip(pointers, steps, strict=True):
            pointer.value = (pointer.value or 0) + each.strides[0]


def _vectors(found: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Return eigenvectors, as rows, by the parts that a routine has found.

    Those of a conjugate pair are the sum and the difference of the two that a real
    routine gives, the second times the imaginary unit.
    """
    if _is_complex(found) or not len(found):
        return found
    made: np.ndarray = found.astype(np.complex64)
    batch, first = np.nonzero(imaginary > 0)
    made[batch, first] += np.complex64(1j) * found[batch, first + 1]
    made[batch, first + 1] = made[batch, first].conj()
    return made
