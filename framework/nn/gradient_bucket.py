"""Gradients as hooks of communication get them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor.tensor import Tensor


class GradBucket:
    """Gradients that are handed to a hook at once: here those of one parameter.

    Parameters
    ----------
    index : int
        Which bucket of the module it is.
    is_last : bool
        Whether none comes after it.
    parameter : Parameter
    gradient : Tensor
        The parameter's.
    """

    def __init__(
        self, index: int, is_last: bool, parameter: Tensor, gradient: Tensor
    ) -> None:
        self._index = index
        self._is_last = is_last
        self._parameter = parameter
        self._buffer = gradient.reshape(-1)

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
        return [self._buffer.view(self._parameter.shape)]

    def parameters(self) -> list[Tensor]:
        """Return the parameters."""
        return [self._parameter]


def hooked(
    hook: Callable[[Any, GradBucket], Any],
    state: Any,
    index: int,
    is_last: bool,
    parameter: Tensor,
) -> Callable[[Tensor], Tensor]:
    """Return the hook of a parameter's gradient that calls one of communication.

    Parameters
    ----------
    hook : callable
        Takes `state` and a bucket; returns the future of new gradients.
    state : object
    index, is_last, parameter
        See `GradBucket`.
    """

    def call(gradient: Tensor) -> Tensor:
        bucket = GradBucket(index, is_last, parameter, gradient)
        found = hook(state, bucket).wait()
        if isinstance(found, list | tuple):
            found = found[0]
        if not isinstance(found, Tensor) or found.numel() != gradient.numel():
            raise RuntimeError(
                f"register_comm_hook: the hook returns {found!r}; it must return the"
                f" future of a tensor of {gradient.numel()} elements"
            )
        return found.to(gradient.dtype).view(gradient.shape)

    return call
