"""Collation: one batch of many samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..base.errors import ShapeError
from ..tensor.from_data import as_tensor
from ..tensor.tensor import Tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Return samples stacked along a new first dimension.

    Parameters
    ----------
    batch : sequence
        Numbers, strings, NumPy arrays or tensors; or tuples, lists or mappings of
        such, nested.

    Returns
    -------
    Tensor, list or mapping
        In the structure of one sample: numbers, arrays and tensors become one tensor
        each (float64 for Python floats), tuples become lists, named tuples and
        mappings stay what they are, strings and bytes stay a list.

    Raises
    ------
    ShapeError
        If arrays of different shapes meet, or samples have different numbers of
        members.
    TypeError
        If a sample is made of something else.
    """
    return map_arrays(as_tensor, stack_samples(batch))


def stack_samples(batch: Sequence[Any]) -> Any:
    """Return what `default_collate` does, with NumPy arrays for tensors of the host.

    Tensors on a device are stacked there.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        if first.is_gpu:
            return _stack_on_device(batch)
        return _stacked([each.detach().numpy() for each in batch])
    if isinstance(first, bool | int | float | np.ndarray | np.generic):
        if isinstance(first, np.ndarray) and first.dtype.kind in "OSUV":
            raise TypeError(
                f"default_collate: an array has dtype {first.dtype}; it must hold"
                " numbers"
            )
        return _stacked([np.asarray(each) for each in batch])
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        return _like(
            first, {key: stack_samples([s[key] for s in batch]) for key in first}
        )
    if isinstance(first, tuple | list):
        if len({len(sample) for sample in batch}) != 1:
            raise ShapeError(
                "default_collate: samples have different numbers of members; they must"
                " be equal, or pass collate_fn"
            )
        parts = [stack_samples(part) for part in zip(*batch)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    raise TypeError(
        f"default_collate: a sample is made of {type(first).__name__}; it may be made"
        " of numbers, strings, NumPy arrays, tensors, and tuples, lists or mappings of"
        " these, or pass collate_fn"
    )


def _like(mapping: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """Return values in a mapping's own class, if that takes a dictionary."""
    try:
        return type(mapping)(values)  # type: ignore[call-arg]  # most classes do
    except TypeError:
        return values


def _stack_on_device(tensors: Sequence[Tensor]) -> Tensor:
    _check_shapes({tuple(each.shape) for each in tensors})
    made: Tensor = ops.stack(list(tensors))
    return made


def _stacked(arrays: list[np.ndarray]) -> np.ndarray:
    _check_shapes({array.shape for array in arrays})
    return np.stack(arrays)


def _check_shapes(shapes: set[tuple[int, ...]]) -> None:
    if len(shapes) != 1:
        raise ShapeError(
            f"default_collate: samples have shapes {sorted(shapes)}; they must be"
            " equal, or pass collate_fn"
        )


def default_convert(data: Any) -> Any:
    """Return a sample with its NumPy arrays and numbers as tensors.

    Parameters
    ----------
    data : object
        A sample; what is no array stays as it is.
    """
    if isinstance(data, np.generic):
        return as_tensor(np.asarray(data))
    if isinstance(data, np.ndarray) and data.dtype.kind in "OSUV":
        return data
    return map_arrays(as_tensor, data)


def map_arrays(function: Callable[[Any], Tensor], batch: Any) -> Any:
    """Return a batch with a function applied to its NumPy arrays and tensors."""
    if isinstance(batch, np.ndarray | Tensor):
        return function(batch)
    if isinstance(batch, Mapping):
        return _like(
            batch, {key: map_arrays(function, each) for key, each in batch.items()}
        )
    if isinstance(batch, tuple | list):
        members = [map_arrays(function, value) for value in batch]
        if hasattr(batch, "_fields"):
            return type(batch)(*members)
        return tuple(members) if isinstance(batch, tuple) else members
    return batch
