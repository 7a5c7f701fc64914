"""Paged key-value cache: sequences of different lengths that share a pool of pages."""

from __future__ import annotations

from vkbackend.errors import ArgumentError

from .. import ops
from ..autograd.engine import is_grad_enabled, no_grad
from ..base.dtype import float64
from ..base.errors import DTypeError, GradError
from ..ops.attention.cached import extend_cache
from ..ops.attention.decode import decode_attention, decodes
from ..ops.attention.prefill import prefill_attention, prefills_pages
from ..tensor.factories import zeros_like
from ..tensor.inplace import assign
from ..tensor.sequences import arange
from ..tensor.tensor import Tensor
from .cache import CacheStep, KeyValueCache, attention, tables_of_angles


class PagedCache(KeyValueCache):
    """Rows of a batch, each a sequence at its own position, over a pool of pages.

    Parameters
    ----------
    pool : KeyValueCache
        Its sequences are the pages, its length the number of a page's tokens. Several
        caches may share one.
    tables : Tensor, int64, shape (rows, blocks)
        The pages of each sequence, in order.
    position : Tensor, int64, shape (rows,)
        Tokens that each sequence has.
    steps : Tensor or None, int64, shape (rows,)
        1 for rows whose position a token advances, 0 for those without a sequence; None
        is 1 for all.
    length : int or None
        Tokens of a sequence at most, which decides between frequencies of LongRoPE;
        None is what the tables have room for.

    Notes
    -----
    A row without a sequence has pages written, too: they must belong to no sequence.
    Without gradients alone.

    Examples
    --------
    >>> pool = model.new_cache(64, 16)  # doctest: +SKIP
    >>> tables, position = fw.tensor([[3, 1], [2, 0]]), fw.tensor([17, 5])
    >>> logits = model(newest, PagedCache(pool, tables, position))  # doctest: +SKIP
    """

    def __init__(
        self,
        pool: KeyValueCache,
        tables: Tensor,
        position: Tensor,
        steps: Tensor | None = None,
        length: int | None = None,
    ) -> None:
        self._room = tables.shape[1] * pool.length
        self.length = self._room if length is None else length
        self._keys, self._values = pool._keys, pool._values
        self.padding = None
        self.tables, self.position, self.steps = tables, position, steps

    def places(self, count: int) -> Tensor:
        """Return where the next tokens of each row are held, int64 (rows, count)."""
        if count > self._room:
            raise ArgumentError(
                f"PagedCache: {count} tokens are to be added; a sequence has room for"
                f" {self._room} in all"
            )
        first = ops.reshape(self.position, (-1, 1))
        if count == 1:
            return first
        return first + arange(count, device=self.position.device)

    def positions(self, places: Tensor) -> Tensor:
        """Return positions within sequences: the places, of those that there are.

        Tokens past the last place of a sequence are none of it, and have that place's.
        """
        return ops.clamp(places, max=self.length - 1)

    def step(self, count: int, window: int | None = None) -> CacheStep:
        """Return the next tokens of each row, which see `window` others at most."""
        return _PagedStep(self, count, window)

    def mask(self, places: Tensor, window: int | None = None) -> Tensor:
        """Return which keys the queries see, bool (rows, 1, count, room)."""
        keys = arange(self._room, device=places.device)
        ahead = ops.reshape(places, (len(places), 1, -1, 1)) - keys
        seen = ahead >= 0
        return seen if window is None else seen & (ahead < window)

    def side_by_side(self, x: Tensor) -> Tensor:
        """Return keys or values of the pool by rows, (rows, heads, room, head)."""
        rows, blocks = self.tables.shape
        _, heads, page, head = x.shape
        taken = ops.index_select(x, 0, self.tables.reshape(-1))
        cut = taken.reshape(rows, blocks, heads, page, head).transpose(1, 2)
        return cut.reshape(rows, heads, blocks * page, head)

    def advance(self, count: int) -> None:
        """Count tokens that every layer has written, in a new tensor."""
        added = count if self.steps is None else self.steps * count
        self.position = self.position + added

    def clear(self) -> None:
        """Leave every row without a token."""
        self.position = zeros_like(self.position)


def copy_page(pool: KeyValueCache, source: Tensor, target: Tensor) -> None:
    """Copy keys and values of a page to another one, in the memory of the pool.

    Parameters
    ----------
    pool : KeyValueCache
        As of `PagedCache`.
    source, target : Tensor, int64, shape (1,)
        Numbers of the pages.
    """
    first, tables = zeros_like(target), ops.reshape(target, (1, 1))
    with no_grad():
        for layer in range(pool.layers):
            keys, values = pool.pair(layer)
            key, value = (ops.index_select(x, 0, source) for x in (keys, values))
            _, new_keys, new_values = extend_cache(
                key, key, value, None, keys, values, first, tables
            )
            assign(keys, new_keys)
            assign(values, new_values)


class _PagedStep(CacheStep):
    """Tokens that are added to the rows of a paged cache."""

    _cache: PagedCache

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
        """Add keys and values, and return what each token attends to; see `CacheStep`.

        Raises
        ------
        DTypeError
            If the cache is float64, on a device.
        GradError
            If gradients are recorded.
        IndexRangeError
            If a sequence has no room, or a table has a page that the pool has not: on
            the host at once, on a device by the next read.
        """
        cache = self._cache
        keys, values = cache.pair(layer)
        given = query, key, value
        if is_grad_enabled() and any(x.needs_grad for x in given):
            raise GradError(
                "PagedCache: the model's tokens need gradients; call it under no_grad()"
            )
        if keys.is_gpu and keys.dtype is float64:
            raise DTypeError(
                f"PagedCache: it is float64 on {keys.device}; accepted: float32,"
                " float16, bfloat16"
            )
        dtype = query.dtype
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        with no_grad():
            own = keys.dtype
            query, key, value = (x.to(own) for x in (query, key, value))
            turns = None
            if angles is not None:
                cosine, sine = tables_of_angles(angles)
                turns = cosine.to(own), sine.to(own)
            at, tables, window = cache.position, cache.tables, self._window
            given = query, key, value
            if decodes(query, keys):
                found, new_keys, new_values = decode_attention(
                    *given, turns, keys, values, at, None, scale, window, cap, tables
                )
                assign(keys, new_keys)
                assign(values, new_values)
                return found.transpose(1, 2).to(dtype)
            query, new_keys, new_values = extend_cache(
                *given, turns, keys, values, at, tables
            )
            assign(keys, new_keys)
            assign(values, new_values)
            if prefills_pages(query, keys):
                found = prefill_attention(
                    query, keys, values, at, tables, scale, window, cap
                )
                return found.transpose(1, 2).to(dtype)
            keys, values = (cache.side_by_side(x) for x in (keys, values))
            return attention(query, keys, values, self._seen(), scale, cap).to(dtype)
