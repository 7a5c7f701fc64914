"""Key-value cache: keys and values of tokens, at a position on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbackend.errors import ArgumentError

from .. import ops
from ..autograd.engine import is_grad_enabled, no_grad
from ..base.dtype import DType, DTypeLike, as_dtype, float32, float64, int64
from ..nn.functional import scaled_dot_product_attention
from ..ops.attention.cached import extend_cache
from ..ops.attention.decode import decode_attention, decodes
from ..ops.attention.prefill import prefill_attention, prefills
from ..tensor.factories import DeviceLike, zeros
from ..tensor.inplace import assign
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .rotary import rotated

if TYPE_CHECKING:
    from ..communication.group import Group


def heads_of_rank(heads: int, projection: object) -> int:
    """Return how many of the heads of keys and values a projection computes here.

    Parameters
    ----------
    heads : int
        Of the model.
    projection : Module
        Of keys; `nn.tensor_parallel` gives each rank equally many heads.
    """
    group: Group | None = getattr(projection, "group", None)
    return heads if group is None else heads // group.size


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

    @property
    def layers(self) -> int:
        """Number of layers."""
        return len(self._keys)

    def pair(self, layer: int) -> tuple[Tensor, Tensor]:
        """Return the keys and values of a layer, (batch, heads, length, head).

        Elements past the last token are 0, or of an earlier sequence: see `mask`.
        """
        return self._keys[layer], self._values[layer]

    def step(self, count: int, window: int | None = None) -> CacheStep:
        """Return the next tokens, which see `window` others at most.

        Raises
        ------
        ArgumentError
            If there is no room for as many.
        """
        return CacheStep(self, count, window)

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


class CacheStep:
    """Tokens that are added to a cache together, in each layer.

    Parameters
    ----------
    cache : KeyValueCache
    count : int
        Number of tokens.
    window : int or None
        Number of tokens that each sees at most, the nearest ones.

    Attributes
    ----------
    positions : Tensor, int64, shape (count,), or with padding (batch, count)
        Positions within sequences.
    """

    def __init__(
        self, cache: KeyValueCache, count: int, window: int | None = None
    ) -> None:
        self._cache = cache
        self._window = window
        self._places = cache.places(count)
        self.positions = cache.positions(self._places)
        self._mask: Tensor | None = None

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        angles: tuple[Tensor, Tensor] | None = None,
        *,
        scale: float | None = None,
        cap: float | None = None,
    ) -> Tensor:
        """Add the keys and values of a layer, and return what each token attends to.

        Parameters
        ----------
        layer : int
        query : Tensor, shape (batch, heads, count, head)
        key, value : Tensor, shape (batch, key_heads, count, head)
        angles : (Tensor, Tensor) or None
            What queries and keys are rotated by; see `Rotary.angles`.
        scale : float or None
            As of `scaled_dot_product_attention`.
        cap : float or None
            Limit of the scores; see `capped`.

        Returns
        -------
        Tensor, shape (batch, heads, count, head)

        Raises
        ------
        IndexRangeError
            If the cache is full: on the host at once, on a device by the next read.

        Notes
        -----
        Of few tokens, without gradients, only those are read that they see; of many on
        tensor cores without padding, too.
        """
        keys, values = self._cache.pair(layer)
        given = query, key, value
        if is_grad_enabled() and any(x.needs_grad for x in (*given, keys, values)):
            return self._recorded(layer, *given, angles, scale, cap)
        on_device = query.is_gpu and query.dtype is float64
        if on_device or not query.dtype is key.dtype is value.dtype is keys.dtype:
            return self._recorded(layer, *given, angles, scale, cap)
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        with no_grad():
            tables = None if angles is None else tables_of_angles(angles)
            at = self._cache.position
            if decodes(query, keys):
                found, new_keys, new_values = decode_attention(
                    *given,
                    tables,
                    keys,
                    values,
                    at,
                    self._cache.padding,
                    scale,
                    self._window,
                    cap,
                )
                assign(keys, new_keys)
                assign(values, new_values)
                return found.transpose(1, 2)
            query, new_keys, new_values = extend_cache(*given, tables, keys, values, at)
            assign(keys, new_keys)
            assign(values, new_values)
            if self._cache.padding is None and prefills(query, keys, scale):
                found = prefill_attention(
                    query, keys, values, at, None, scale, self._window, cap
                )
                return found.transpose(1, 2)
            return attention(query, keys, values, self._seen(), scale, cap)

    def _recorded(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        angles: tuple[Tensor, Tensor] | None,
        scale: float | None,
        cap: float | None,
    ) -> Tensor:
        """Return the same with ops that have gradients, and take every dtype."""
        if angles is not None:
            query, key = rotated(query, angles), rotated(key, angles)
        keys, values = self._cache.pair(layer)
        keys.index_copy_(2, self._places, key)
        values.index_copy_(2, self._places, value)
        return attention(query, keys, values, self._seen(), scale, cap)

    def _seen(self) -> Tensor:
        if self._mask is None:
            self._mask = self._cache.mask(self._places, self._window)
        return self._mask


def tables_of_angles(angles: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return cosines and sines as (1 or batch, count, size)."""
    cosine, sine = (ops.reshape(each, (-1, *each.shape[-2:])) for each in angles)
    return cosine, sine


def capped(x: Tensor, cap: float | None) -> Tensor:
    """Return values squeezed smoothly between -cap and cap."""
    return x if cap is None else ops.tanh(x / cap) * cap


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float | None,
    cap: float | None,
) -> Tensor:
    """Return the mean of the values for each query, its scores capped.

    Parameters
    ----------
    query : Tensor, shape (batch, heads, count, head)
    key, value : Tensor, shape (batch, key_heads, length, head)
    mask : Tensor or None, bool, shape (count, length) or (batch, 1, count, length)
        None hides nothing.
    scale, cap : float or None

    Returns
    -------
    Tensor, shape of `query`
    """
    if cap is None:
        return scaled_dot_product_attention(
            query, key, value, mask, scale=scale, enable_gqa=True
        )
    batch, heads, length, head = query.shape
    shared = key.shape[1]
    q = query.reshape(batch, shared, heads // shared, length, head)
    k, v = ops.unsqueeze(key, 2), ops.unsqueeze(value, 2)
    scale = head**-0.5 if scale is None else scale
    scores = capped((q @ k.transpose(-2, -1)) * scale, cap)
    if mask is not None:
        seen = ops.unsqueeze(mask, 2) if mask.ndim == 4 else mask
        scores = ops.where(seen, scores, float("-inf"))
    weights = ops.softmax(scores, -1, dtype=float32).to(q.dtype)
    return (weights @ v).reshape(batch, heads, length, head)


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
