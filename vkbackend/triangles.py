"""Triangular systems by the BLAS library that NumPy has loaded.

NumPy has no function for them: a step for each row in Python takes longer than small
systems do.
"""

from __future__ import annotations

import ctypes

import numpy as np

from .blas_threads import one_blas_thread
from .lapack import Routine, found_routine

ROUTINES = {"f": "strsm", "d": "dtrsm", "F": "ctrsm", "D": "ztrsm"}
"""Routines by the character of a dtype."""


def solve_in_place(
    matrix: np.ndarray, found: np.ndarray, upper: bool, unit: bool
) -> bool:
    """Put X of A X = B in the place of B, and return whether a routine could.

    None can where the inverse of a number on the diagonal would overflow.

    Parameters
    ----------
    matrix : ndarray, shape (..., n, n)
        Of which one triangle is read.
    found : ndarray, shape (..., n, k)
        B, in row-major order, of the same dtype and batch.
    upper : bool
        Which triangle.
    unit : bool
        Whether the diagonal is taken as 1.
    """
    name = ROUTINES.get(matrix.dtype.char)
    alike = matrix.dtype == found.dtype and matrix.shape[:-2] == found.shape[:-2]
    if name is None or not alike or not found.flags.c_contiguous:
        return False
    routine = found_routine(name)
    if routine is None:
        return False
    diagonal = np.diagonal(matrix, 0, -2, -1)
    if not unit and (np.abs(diagonal) < np.finfo(matrix.dtype).tiny).any():
        return False
    if found.size:
        _run(routine, matrix, found, upper, unit)
    return True


def _run(
    routine: Routine, matrix: np.ndarray, found: np.ndarray, upper: bool, unit: bool
) -> None:
    # Of columns one after another, which Fortran reads, rows are the transposed matrix.
    is_turned = np.swapaxes(matrix, -1, -2).flags.c_contiguous
    given = matrix if is_turned else np.ascontiguousarray(matrix)
    size, columns = found.shape[-2:]
    one = np.ones((), matrix.dtype)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (given, found, one)]
    order, count = (ctypes.byref(ctypes.c_int64(each)) for each in (size, columns))
    arguments: list[object] = [b"R", b"U" if upper == is_turned else b"L"]
    arguments += [b"T" if is_turned else b"N", b"U" if unit else b"N", count, order]
    arguments += [pointers[2], pointers[0], order, pointers[1], count]
    # At the end are the lengths of the four letters.
    arguments += [ctypes.c_size_t(1)] * 4
    steps = [size * each * matrix.itemsize for each in (size, columns)]
    with one_blas_thread(size):
        for _ in range(found.size // (size * columns)):
            routine(*arguments)
            for pointer, step in zip(pointers, steps, strict=False):
                pointer.value = (pointer.value or 0) + step
