"""Checks that places of a sparse tensor are within its sizes; off unless asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from ..base.errors import DomainError
from ..tensor.tensor import Tensor


class check_sparse_tensor_invariants:  # noqa: N801 - PyTorch's name
    """Block, decorator or switch: whether new sparse tensors are checked.

    A check reads the places, which waits for them.

    Parameters
    ----------
    enable : bool, default True

    Examples
    --------
    >>> with fw.sparse.check_sparse_tensor_invariants():
    ...     x = fw.sparse_coo_tensor([[0], [1]], [1.0], (2, 2))
    """

    _enabled: ClassVar[bool] = False

    def __init__(self, enable: bool = True) -> None:
        self._wanted = enable
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Return whether new sparse tensors are checked."""
        return check_sparse_tensor_invariants._enabled

    @staticmethod
    def enable() -> None:
        """Check new sparse tensors."""
        check_sparse_tensor_invariants._enabled = True

    @staticmethod
    def disable() -> None:
        """Check new sparse tensors no more."""
        check_sparse_tensor_invariants._enabled = False

    def __enter__(self) -> None:
        kind = check_sparse_tensor_invariants
        self._before.append(kind._enabled)
        kind._enabled = self._wanted

    def __exit__(self, *_: object) -> None:
        check_sparse_tensor_invariants._enabled = self._before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs within the block."""

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self._wanted):
                return function(*args, **kwargs)

        return call


def checking(given: bool | None) -> bool:
    """Return whether to check, by an argument that may be None."""
    return check_sparse_tensor_invariants.is_enabled() if given is None else given


def check_places(where: str, places: Tensor, shape: Sequence[int]) -> None:
    """Raise `DomainError` if a place is outside of a shape."""
    found = places.host_copy()
    for dim, size in enumerate(shape[: len(found)]):
        if found.shape[1] and not 0 <= found[dim].min() <= found[dim].max() < size:
            wrong = found[dim].min() if found[dim].min() < 0 else found[dim].max()
            raise DomainError(
                f"{where}: an index is {wrong} for dimension {dim} of size {size}; it"
                f" must be from 0 to {size - 1}"
            )


def check_bounds(where: str, ends: Tensor, others: Tensor, shape: Any) -> None:
    """Raise `DomainError` if compressed rows are not those of a matrix of a shape."""
    bounds, numbers = ends.host_copy(), others.host_copy()
    lines, wide = shape
    if len(bounds) != lines + 1 or bounds[0] or bounds[-1] != len(numbers):
        raise DomainError(
            f"{where}: bounds are {len(bounds)} from {bounds[0]} to {bounds[-1]}; for"
            f" {lines} rows and {len(numbers)} values they must be {lines + 1}, from 0"
            f" to {len(numbers)}"
        )
    if (np.diff(bounds) < 0).any() or (np.diff(bounds) > wide).any():
        raise DomainError(f"{where}: bounds fall, or a row has more than {wide} values")
    if len(numbers) and not 0 <= numbers.min() <= numbers.max() < wide:
        raise DomainError(
            f"{where}: an index is outside of 0 to {wide - 1}; it must be within"
        )
