"""Collation: one batch of many samples."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from .. import ops
from ..base.dtype import default_dtype
from ..base.errors import DTypeError, ShapeError
from ..tensor.from_data import as_tensor
from ..tensor.tensor import Tensor

Collated = Callable[..., Any]
"""From a list of samples, and the functions as `collate_fn_map`, to a batch."""

_KINDS = (
    "numbers, strings, NumPy arrays, tensors, and tuples, lists or mappings of these"
)


def default_collate(batch: Sequence[Any]) -> Any:
    """Return samples stacked along a new first dimension.

    Parameters
    ----------
    batch : sequence
        Numbers, strings, NumPy arrays or tensors; or tuples, lists or mappings of
        such, nested. What `default_collate_fn_map` is told of other classes is done.

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

    Tensors on a device, or that need gradients, are stacked as such.
    """
    first = batch[0]
    if default_collate_fn_map != _OWN:
        function = _function_of(first, default_collate_fn_map)
        if function not in (None, _collate_leaves):
            return function(batch, collate_fn_map=default_collate_fn_map)
    if isinstance(first, _LEAVES):
        return _stack_leaves(batch)
    return _by_member(batch, stack_samples)


def collate(
    batch: Sequence[Any],
    *,
    collate_fn_map: dict[type | tuple[type, ...], Collated] | None = None,
) -> Any:
    """Return a batch by functions for classes; mappings and sequences by member.

    Parameters
    ----------
    batch : sequence
        Samples.
    collate_fn_map : dict of class, or tuple of classes, to callable
        A function gets a list of such samples, and this dict by its name.

    Raises
    ------
    TypeError
        If a sample is of no class that has a function, and no mapping or sequence.
    """
    known = collate_fn_map or {}
    function = _function_of(batch[0], known)
    if function is not None:
        return function(batch, collate_fn_map=known)
    return _by_member(batch, lambda part: collate(part, collate_fn_map=known))


def _function_of(
    sample: Any, known: dict[type | tuple[type, ...], Collated]
) -> Collated | None:
    if type(sample) in known:
        return known[type(sample)]
    for kind, function in known.items():
        if isinstance(sample, kind):
            return function
    return None


def _by_member(batch: Sequence[Any], stack: Callable[[Sequence[Any]], Any]) -> Any:
    """Return mappings or sequences of samples as one, of batches."""
    first = batch[0]
    if isinstance(first, Mapping):
        return _like(first, {key: stack([s[key] for s in batch]) for key in first})
    if isinstance(first, Sequence) and not isinstance(first, str | bytes):
        if len({len(sample) for sample in batch}) != 1:
            raise ShapeError(
                "default_collate: samples have different numbers of members; they must"
                " be equal, or pass collate_fn"
            )
        parts = [stack(part) for part in zip(*batch)]
        return type(first)(*parts) if hasattr(first, "_fields") else parts
    raise TypeError(
        f"default_collate: a sample is made of {type(first).__name__}; it may be made"
        f" of {_KINDS}, or pass collate_fn"
    )


_LEAVES = (Tensor, np.ndarray, np.generic, bool, int, float, str, bytes)


def _stack_leaves(batch: Sequence[Any]) -> Any:
    """Return numbers, strings, arrays or tensors as a batch."""
    first = batch[0]
    if isinstance(first, Tensor):
        return _stack_tensors(batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, np.ndarray | np.generic):
        if first.dtype.kind in "OSUV":
            raise TypeError(
                f"default_collate: an array has dtype {first.dtype}; it must hold"
                " numbers"
            )
        return _stacked([np.asarray(each) for each in batch])
    array = _stacked([np.asarray(each) for each in batch])
    if isinstance(first, int) and array.dtype == np.float64:
        # Floats after an integer, of which a tensor is made as of a list.
        return array.astype(default_dtype().numpy)
    return array


def _stack_tensors(batch: Sequence[Any]) -> Any:
    other = next((each for each in batch if not isinstance(each, Tensor)), None)
    if other is not None:
        raise DTypeError(
            f"default_collate: samples are tensors and {type(other).__name__}; they"
            " must be alike, or pass collate_fn"
        )
    _check_shapes({tuple(each.shape) for each in batch})
    if any(each.is_gpu or each.requires_grad for each in batch):
        return ops.stack(list(batch))
    return np.stack([each.host_copy() for each in batch])


def _collate_leaves(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Return leaves as `default_collate` does."""
    return map_arrays(as_tensor, _stack_leaves(batch))


default_collate_fn_map: dict[type | tuple[type, ...], Collated] = dict.fromkeys(
    _LEAVES, _collate_leaves
)
"""Functions of `default_collate` by class, to which those of other classes are added.

They are called with a list of samples, and this dict as `collate_fn_map`.
"""
_OWN = dict(default_collate_fn_map)


def _like(mapping: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """Return values in a mapping's own class, if that takes them."""
    if type(mapping) is dict:
        return values
    try:
        if isinstance(mapping, MutableMapping):
            made = copy.copy(mapping)
            for key, value in values.items():
                made[key] = value
            return made
        return type(mapping)(values)  # type: ignore[call-arg]  # most classes do
    except TypeError:
        return values


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
        A sample; what is no array stays as it is, but tuples become lists.
    """
    if isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in "OSUV" else as_tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return _like(data, {key: default_convert(each) for key, each in data.items()})
    if isinstance(data, tuple | list):
        members = [default_convert(each) for each in data]
        return type(data)(*members) if hasattr(data, "_fields") else members
    return data


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
