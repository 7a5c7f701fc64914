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


def buckets_of(tensors: Sequence[Tensor], limit: int) -> list[list[int]]:
    """Return places of tensors by the buckets that they are exchanged in.

    Parameters
    ----------
    tensors : sequence of Tensor
        In the order in which they are ready.
    limit : int
        Bytes that a bucket has at most, if it has more than one tensor.

    Returns
    -------
    list of list of int
        Each of one dtype and device, in the order in which they are complete.
    """
    opened: dict[Any, tuple[list[int], int]] = {}
    found: list[list[int]] = []
    for place, each in enumerate(tensors):
        key = each.dtype, each.device
        size = each.numel() * each.element_size()
        bucket, used = opened.get(key, ([], 0))
        if not bucket or used + size > limit:
            bucket, used = [], 0
            found.append(bucket)
        bucket.append(place)
        opened[key] = bucket, used + size
    return sorted(found, key=lambda bucket: bucket[-1])
