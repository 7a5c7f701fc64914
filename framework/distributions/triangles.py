"""Lower triangles of matrices as vectors."""

from __future__ import annotations

import itertools

import numpy as np

from ..tensor.from_data import tensor
from ..tensor.tensor import Tensor


def _places(size: int, diag: int) -> np.ndarray:
    rows, columns = np.tril_indices(size, diag)
    found: np.ndarray = rows * size + columns
    return found


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return matrices whose lower triangles are filled by rows from vectors.

    Parameters
    ----------
    vec : Tensor, shape (..., d)
        The triangle of n rows up to `diag` has d elements.
    diag : int, default 0
        The last diagonal of the triangle; -1 leaves the main one out.

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    ValueError
        If no triangle has d elements.
    """
    count = vec.shape[-1]
    for size in itertools.count(max(1, 1 - diag)):
        places = _places(size, diag)
        if len(places) >= count:
            break
    if len(places) != count:
        raise ValueError(
            f"vec_to_tril_matrix: vec has {count} elements, which fill no triangle up"
            f" to diagonal {diag}; {len(places)} would"
        )
    flat = vec.new_zeros((*vec.shape[:-1], size * size))
    flat = flat.index_copy(-1, tensor(places, device=vec.device), vec)
    return flat.reshape(*vec.shape[:-1], size, size)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return lower triangles by rows as vectors.

    Parameters
    ----------
    mat : Tensor, shape (..., n, n)
    diag : int, default 0
        The last diagonal of the triangle; -1 leaves the main one out.

    Raises
    ------
    ValueError
        If the matrices have no such diagonal.
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(
            f"tril_matrix_to_vec: diag is {diag}; it must be from {-size} to {size - 1}"
        )
    places = tensor(_places(size, diag), device=mat.device)
    return mat.reshape(*mat.shape[:-2], size * size).index_select(-1, places)
