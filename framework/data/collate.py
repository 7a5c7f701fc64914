"""Collation: one batch of many samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import ShapeError
from ..tensor.tensor import Tensor


def collate(samples: Sequence[Any]) -> Any:
    """Return samples stacked along a new first dimension, as NumPy arrays on the host.

    Parameters
    ----------
    samples : sequence
        Numbers, NumPy arrays or tensors; or tuples, lists or dicts of such.

    Returns
    -------
    numpy.ndarray, tuple, list or dict
        In the structure of one sample; Python floats become float32.

    Raises
    ------
    ShapeError
        If arrays of different shapes meet.
    TypeError
        If a sample is made of something else.
    """
    first = samples[0]
    if isinstance(first, Mapping):
        return {key: collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, tuple | list):
        if len({len(sample) for sample in samples}) != 1:
            raise ShapeError("collate: samples have different numbers of members")
        members = [collate(member) for member in zip(*samples)]
        return tuple(members) if isinstance(first, tuple) else members
    if isinstance(first, float):
        return np.array(samples, np.float32)
    if isinstance(first, Tensor | np.ndarray | np.generic | int):
        return _stacked([np.asarray(sample) for sample in samples])
    raise TypeError(
        f"collate: a sample is made of {type(first).__name__}; it may be made of"
        " numbers, NumPy arrays, tensors, and tuples, lists or dicts of these"
    )


def _stacked(arrays: list[np.ndarray]) -> np.ndarray:
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1:
        raise ShapeError(
            f"collate: samples have shapes {sorted(shapes)}; they must be equal,"
            " or pass collate_fn"
        )
    return np.stack(arrays)


def map_arrays(function: Callable[[np.ndarray], Tensor], batch: Any) -> Any:
    """Return a batch with a function applied to its NumPy arrays."""
    if isinstance(batch, np.ndarray):
        return function(batch)
    if isinstance(batch, Mapping):
        return {key: map_arrays(function, value) for key, value in batch.items()}
    if isinstance(batch, tuple | list):
        members = [map_arrays(function, value) for value in batch]
        return tuple(members) if isinstance(batch, tuple) else members
    return batch
