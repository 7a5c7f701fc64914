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
        Number of tokens that are held, padding included.
    padding : Tensor or None, int64, shape (batch,)
        Number of tokens at the left of each sequence that are none of it: they are not
        seen, and positions are counted from the first after them.
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
        self.padding: Tensor | None = None
        self._places = arange(length, device=device)

    def places(self, count: int) -> Tensor:
        """Return where the next tokens are held, int64 (count,).

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

    def positions(self, places: Tensor) -> Tensor:
        """Return positions within sequences, (count,), or with padding (batch, count).

        Those of padding are 0.
        """
        if self.padding is None:
            return places
        return ops.clamp(places - ops.reshape(self.padding, (-1, 1)), 0)

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
        """Return which keys the queries at some places see.

        Returns
        -------
        Tensor, bool, shape (count, length), with padding (batch, 1, count, length)
            Padding sees itself, so that no query sees nothing.
        """
        seen = visible(places, self._places, window)
        if self.padding is None:
            return seen
        real = self._places >= ops.reshape(self.padding, (-1, 1, 1, 1))
        return seen & (real | (ops.reshape(places, (-1, 1)) == self._places))

    def advance(self, count: int) -> None:
        """Count tokens that every layer has written."""
        self.position.add_(count)

    def clear(self) -> None:
        """Begin with another sequence."""
        self.position.zero_()
        self.padding = None


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
