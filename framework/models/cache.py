"""Key-value cache: keys and values of tokens, at a position on the device."""

from __future__ import annotations

from vkbackend.errors import ArgumentError

from .. import ops
from ..base.dtype import DType, DTypeLike, as_dtype, float32, int64
from ..tensor.factories import DeviceLike, zeros
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor


class KeyValueCache:
    """Keys and values of each layer, with room for a fixed number of tokens.

    What is computed has the same shapes at every position, and the position itself is
    an element on the device: `jit` replays one recording for all tokens.

    Parameters
    ----------
    layers, batch, heads, length, head : int
        Number of layers, sequences, heads of keys, tokens in all, elements of a head.
    device : Device, str or None, default the host
    dtype : DType or str, default float32

    Attributes
    ----------
    position : Tensor, int64, no dimensions
        Number of tokens that are held.
    """

    def __init__(
        self,
        layers: int,
        batch: int,
        heads: int,
        length: int,
        head: int,
        device: DeviceLike = None,
        dtype: DTypeLike = float32,
    ) -> None:
        self.length = length
        kind: DType = as_dtype(dtype)
        shape = (batch, heads, length, head)
        self._keys = [zeros(shape, dtype=kind, device=device) for _ in range(layers)]
        self._values = [zeros(shape, dtype=kind, device=device) for _ in range(layers)]
        self.position = zeros((), dtype=int64, device=device)
        self._places = arange(length, device=device)

    def places(self, count: int) -> Tensor:
        """Return the positions of the next tokens, int64 (count,).

        Raises
        ------
        ArgumentError
            If there is no room for as many.
        """
        if count > self.length:
            raise ArgumentError(
                f"KeyValueCache: {count} tokens are to be added; it has room for"
                f" {self.length} in all"
            )
        return ops.narrow(self._places, 0, 0, count) + self.position

    def extend(
        self, layer: int, places: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Write the keys and values of new tokens, and return all, (..., length, head).

        Elements past the last token are 0, or of an earlier sequence: see `mask`.
        """
        keys, values = self._keys[layer], self._values[layer]
        keys.index_copy_(2, places, key)
        values.index_copy_(2, places, value)
        return keys, values

    def mask(self, places: Tensor, window: int | None = None) -> Tensor:
        """Return which keys the queries at some positions see, bool (count, length)."""
        return visible(places, self._places, window)

    def advance(self, count: int) -> None:
        """Count tokens that every layer has written."""
        self.position.add_(count)

    def clear(self) -> None:
        """Begin with another sequence."""
        self.position.zero_()


def visible(queries: Tensor, keys: Tensor, window: int | None = None) -> Tensor:
    """Return which keys each query sees: those before it, and itself.

    Parameters
    ----------
    queries, keys : Tensor, shapes (count,) and (length,)
        Their positions.
    window : int or None
        Number of keys that a query sees at most, the nearest ones.

    Returns
    -------
    Tensor, bool, shape (count, length)
    """
    ahead = ops.reshape(queries, (-1, 1)) - keys
    seen = ahead >= 0
    return seen if window is None else seen & (ahead < window)
