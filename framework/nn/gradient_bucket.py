"""Gradients as they are exchanged: those of several parameters, one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..tensor.tensor import Tensor


class GradBucket:
    """Gradients that ranks exchange at once, and that a hook is given.

    Parameters
    ----------
    index : int
        Which bucket of the module it is, in the order of the exchanges.
    is_last : bool
        Whether none comes after it.
    parameters : sequence of Parameter
        Of one dtype and device.
    buffer : Tensor, shape (n,)
        Their gradients, one after the other.
    """

    def __init__(
        self, index: int, is_last: bool, parameters: Sequence[Tensor], buffer: Tensor
    ) -> None:
        self._index = index
        self._is_last = is_last
        self._parameters = list(parameters)
        self._buffer = buffer

    def index(self) -> int:
        """Return which bucket of the module it is."""
        return self._index

    def is_last(self) -> bool:
        """Return whether it is the last bucket of the module."""
        return self._is_last

    def buffer(self) -> Tensor:
        """Return the gradients, of shape (n,), one after the other."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Set the gradients.

        Parameters
        ----------
        buffer : Tensor, shape (n,)
        """
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Return the gradients in the shapes of their parameters."""
        return pieces(self._buffer, self._parameters)

    def parameters(self) -> list[Tensor]:
        """Return the parameters."""
        return list(self._parameters)


def pieces(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Return views of a tensor of one dimension, in the shapes of others."""
    found, start = [], 0
    for each in like:
        stop = start + math.prod(each.shape)
        found.append(flat[start:stop].view(each.shape))
        start = stop
    return found


def buckets_of(
    tensors: Sequence[Tensor], limit: int, least: int | None = None
) -> list[list[int]]:
    """Return places of tensors by the buckets that they are exchanged in.

    Parameters
    ----------
    tensors : sequence of Tensor
        In the order in which they are ready.
    limit : int
        Bytes that a bucket has at most, if it has more than one tensor.
    least : int, optional
        Then buckets become smaller towards the end, down to so many bytes: each has at
        most half of what is left. What is ready when nothing is left to compute is
        exchanged while all wait, so the last bucket is to be small. Tensors above the
        limit do not count: they have buckets of their own.

    Returns
    -------
    list of list of int
        Each of one dtype and device, in the order in which they are complete.
    """
    sizes = [each.numel() * each.element_size() for each in tensors]
    keys: list[Any] = [(each.dtype, each.device) for each in tensors]
    left: dict[Any, int] = {}
    for key, size in zip(keys, sizes):
        left[key] = left.get(key, 0) + size * (size <= limit)
    opened: dict[Any, tuple[list[int], int, int]] = {}
    found: list[list[int]] = []
    for place, (key, size) in enumerate(zip(keys, sizes)):
        bucket, used, most = opened.get(key, ([], 0, 0))
        # One of less than the least takes another tensor.
        short = used < (least or 0) and used + size <= limit
        if not bucket or (used + size > most and not short):
            bucket, used, most = [], 0, limit
            if least is not None:
                most = min(limit, max(least, left[key] // 2))
            found.append(bucket)
        bucket.append(place)
        left[key] -= size * (size <= limit)
        opened[key] = bucket, used + size, most
    return sorted(found, key=lambda bucket: bucket[-1])
