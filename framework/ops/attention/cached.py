"""Key-value caches, whose length is a number on the device: tokens are added."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, SINGLE, int64
from ...base.errors import ShapeError
from ...base.index_checks import out_of_range
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Argument, Dispatch, IndexSlot, StridedSpec
from ...kernels.attention.split import PAGE_SITE, SITE, WORD, is_aligned
from ...kernels.linear import linear_dispatch
from ...kernels.reduce import need_countable
from ...kernels.row_copy import first_copy
from ...kernels.shader_types import check_same_dtype, storage_defines
from ..elementwise.unary import copy

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

_VECTORS = ("q", "k", "v", "keys", "values", "cosine", "sine")


@primitive(
    dtypes={
        **dict.fromkeys(_VECTORS, FLOAT),
        **dict.fromkeys(("position", "tables"), (int64,)),
    },
    device_dtypes=dict.fromkeys(_VECTORS, SINGLE),
    outputs=("turned", "new_keys", "new_values"),
    strided=True,
    typed="k",
)
def _extend_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cosine: Tensor | None,
    sine: Tensor | None,
    keys: Tensor,
    values: Tensor,
    position: Tensor,
    tables: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rotated queries, and a cache with the rotated keys, and values, of tokens.

    Parameters
    ----------
    q : Tensor, shape (batch, heads, count, head)
    k, v : Tensor, shape (batch, key_heads, count, head)
        Columns of these three are contiguous.
    cosine, sine : Tensor, shape (1 or batch, count, turned), or None
        Contiguous. Of the first elements of a vector, those of one half are pairs with
        those of the other; None rotates nothing.
    keys, values : Tensor, shape (batch, key_heads, room, head)
        The cache, contiguous; with `tables` (pages, key_heads, page, head).
    position : Tensor, int64, no dimensions, with `tables` (batch,)
        Where the first token is held, of each sequence.
    tables : Tensor, int64, shape (batch, blocks), or None
        Contiguous. The pages of each sequence, which have tokens 0 to page - 1, page to
        2 page - 1, and so on. Where sequences share a page, one of them writes it.

    Returns
    -------
    tuple of Tensor
        Without gradients. The cache is changed in its memory where nothing else needs
        what it was before.
    """


@_extend_cache.spec
def _extend_cache_spec(
    q: TensorSpec,
    k: TensorSpec,
    v: TensorSpec,
    cosine: TensorSpec | None,
    sine: TensorSpec | None,
    keys: TensorSpec,
    values: TensorSpec,
    position: TensorSpec,
    tables: TensorSpec | None,
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    check_cache("extend_cache", q, k, v, cosine, keys, values, position, tables)
    return q, keys, values


def check_cache(
    name: str,
    q: TensorSpec,
    k: TensorSpec,
    v: TensorSpec,
    cosine: TensorSpec | None,
    keys: TensorSpec,
    values: TensorSpec,
    position: TensorSpec,
    tables: TensorSpec | None,
) -> None:
    """Refuse tokens that a cache does not fit."""
    check_same_dtype(name, q=q, k=k, v=v, keys=keys, values=values, cosine=cosine)
    batch, heads, count, head = k.shape
    parts = batch if tables is None else keys.shape[0]
    fits = (
        q.shape == (batch, q.shape[1], count, head)
        and v.shape == k.shape
        and keys.shape == values.shape == (parts, heads, keys.shape[2], head)
    )
    if not fits:
        raise ShapeError(
            f"{name}: q is {tuple(q.shape)}, k {tuple(k.shape)}, v"
            f" {tuple(v.shape)}, keys {tuple(keys.shape)}, values"
            f" {tuple(values.shape)}; they must be (batch, heads, count, head), twice"
            " (batch, key_heads, count, head), and twice (batch, key_heads, room, head)"
        )
    check_tables(name, batch, position, tables)


def check_tables(
    name: str, batch: int, position: TensorSpec, tables: TensorSpec | None
) -> None:
    """Refuse positions, and tables of pages, that are not of as many sequences."""
    if tables is None:
        fits, wanted = position.shape == (), "without dimensions"
    else:
        fits = position.shape == (batch,) and tables.shape[:-1] == (batch,)
        wanted = f"({batch},), tables ({batch}, blocks)"
    if not fits:
        has = "no tables" if tables is None else f"tables {tuple(tables.shape)}"
        raise ShapeError(
            f"{name}: position is {tuple(position.shape)}, with {has}; it must be"
            f" {wanted}"
        )


@_extend_cache.kernel
def _extend_cache_kernel(
    gpu: DeviceInfo,
    q: StridedSpec,
    k: StridedSpec,
    v: StridedSpec,
    cosine: StridedSpec | None,
    sine: StridedSpec | None,
    keys: StridedSpec,
    values: StridedSpec,
    position: StridedSpec,
    tables: StridedSpec | None,
) -> list[Dispatch]:
    batch, key_heads, count, head = k.shape
    pages, _, page, _ = keys.shape
    room = page if tables is None else page * tables.shape[1]
    push: dict[str, Argument] = {"q": "q", "k": "k", "v": "v", "position": "position"}
    push |= {"cosine": "cosine" if cosine else "q", "sine": "sine" if sine else "q"}
    push |= {"turned": "turned", "keys": "new_keys", "values": "new_values"}
    push |= {"tables": "tables" if tables else "position"}
    push |= {"error": IndexSlot(SITE, room), "page_error": IndexSlot(PAGE_SITE, pages)}
    push |= {"batch": batch, "heads": q.shape[1], "key_heads": key_heads}
    push |= {"count": count, "room": room, "pages": pages}
    for name, x in (("q", q), ("k", k), ("v", v)):
        need_countable("attention/extend_cache", x)
        for label, stride in zip(("batch", "head", "row"), x.layout.strides):
            push[f"{name}_{label}"] = stride
    turned = 0 if cosine is None else cosine.shape[2]
    whole = 0 if cosine is None or cosine.shape[0] == 1 else count * turned
    push |= {"table_batch": whole, "table_row": turned}
    width = WORD // k.dtype.itemsize
    angles = [each for each in (cosine, sine) if each is not None]
    words = head > 0 and turned % (2 * width) == 0
    words = words and all(
        is_aligned(x, width) for x in (q, k, v, keys, values, *angles)
    )
    elements = batch * count * head * (q.shape[1] + 2 * key_heads)
    change = linear_dispatch(
        "attention/extend_cache",
        elements // width if words else elements,
        push,
        {
            "HEAD": max(1, head),
            "TURNED": turned,
            "PAGE": 0 if tables is None else page,
        },
        {**storage_defines(k.dtype), **({"WORDS": "1"} if words else {})},
    )
    begun = [
        first_copy(gpu, "extend_cache", x, name, f"new_{name}")
        for name, x in (("keys", keys), ("values", values))
    ]
    return [*begun, change]


@_extend_cache.reference
def _extend_cache_reference(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    cosine: np.ndarray | None,
    sine: np.ndarray | None,
    keys: np.ndarray,
    values: np.ndarray,
    position: np.ndarray,
    tables: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return extended(q, k, v, cosine, sine, keys, values, position, tables)


def extended(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    cosine: np.ndarray | None,
    sine: np.ndarray | None,
    keys: np.ndarray,
    values: np.ndarray,
    position: np.ndarray,
    tables: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rotated queries, and a cache with the rotated keys, and values."""
    batch, _, count, _ = k.shape
    pages, _, page, _ = keys.shape
    room = page if tables is None else page * tables.shape[1]
    first, last = int(position.min()), int(position.max()) + count - 1
    if first < 0 or last >= room:
        raise out_of_range(SITE, first if first < 0 else last, room)
    turned, key = _rotated(q, cosine, sine), _rotated(k, cosine, sine)
    new_keys, new_values = keys.copy(), values.copy()
    rows = np.arange(batch)[:, None]
    places = np.broadcast_to(position.reshape(-1, 1) + np.arange(count), (batch, count))
    if tables is not None:
        rows, places = tables[rows, places // page], places % page
        wrong = rows[(rows < 0) | (rows >= pages)]
        if wrong.size:
            raise out_of_range(PAGE_SITE, int(wrong[0]), pages)
    new_keys[rows, :, places] = key.swapaxes(1, 2)
    new_values[rows, :, places] = v.swapaxes(1, 2)
    return turned, new_keys, new_values


def _rotated(
    x: np.ndarray, cosine: np.ndarray | None, sine: np.ndarray | None
) -> np.ndarray:
    if cosine is None or sine is None:
        return x
    size = cosine.shape[-1]
    part = x[..., :size]
    other = np.concatenate([-part[..., size // 2 :], part[..., : size // 2]], -1)
    turned = part * cosine[:, None] + other * sine[:, None]
    return np.concatenate([turned.astype(x.dtype), x[..., size:]], -1)


def attended(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    position: np.ndarray,
    padding: np.ndarray | None,
    tables: np.ndarray | None,
    scale: float,
    window: int | None,
    cap: float | None,
) -> np.ndarray:
    """Return what queries attend to in a cache, of pages if there are tables."""
    if tables is None:
        return _attended(q, k, v, int(position), padding, scale, window, cap)
    found = [
        _attended(
            q[row : row + 1],
            _joined(k, tables[row]),
            _joined(v, tables[row]),
            int(position[row]),
            None if padding is None else padding[row : row + 1],
            scale,
            window,
            cap,
        )
        for row in range(len(q))
    ]
    return np.concatenate(found)


def _joined(x: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the keys or values of a sequence side by side, (1, heads, room, head)."""
    pages = x[table.clip(0, len(x) - 1)].swapaxes(0, 1)
    return pages.reshape(1, pages.shape[0], -1, pages.shape[-1])


def _attended(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    first: int,
    padding: np.ndarray | None,
    scale: float,
    window: int | None,
    cap: float | None,
) -> np.ndarray:
    """Return the result where sequences are contiguous, and have one position."""
    batch, heads, count, head = q.shape
    key_heads = k.shape[1]
    wide = np.result_type(q.dtype, np.float32)
    end = first + count
    grouped = q.reshape(batch, key_heads, -1, count, head).astype(wide)
    keys, values = (x[:, :, None, :end].astype(wide) for x in (k, v))
    scores = grouped @ keys.swapaxes(-1, -2) * scale
    if cap is not None:
        scores = np.tanh(scores / cap) * cap
    places, own = np.arange(end), np.arange(first, end)[:, None]
    seen = (places <= own) & (own - places < (window or end))
    if padding is not None:
        real = places >= padding[:, None, None, None, None]
        seen = seen & (real | (places == own))
    scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    found = (weights / weights.sum(-1, keepdims=True)) @ values
    ordered = found.reshape(batch, heads, count, head).swapaxes(1, 2)
    return ordered.astype(q.dtype)


def extend_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    angles: tuple[Tensor, Tensor] | None,
    keys: Tensor,
    values: Tensor,
    position: Tensor,
    tables: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rotated queries and a longer cache, as `_extend_cache`, of any layouts.

    `angles` are cosines and sines, or None.
    """
    cosine, sine = (None, None) if angles is None else map(in_order, angles)
    if tables is not None:
        position, tables = in_order(position), in_order(tables)
    return _extend_cache(
        side_by_side(q),
        side_by_side(k),
        side_by_side(v),
        cosine,
        sine,
        in_order(keys),
        in_order(values),
        position,
        tables,
    )


def side_by_side(x: Tensor) -> Tensor:
    """Return the tensor with contiguous columns."""
    return x if x.layout.strides[-1] == 1 or x.layout.shape[-1] == 1 else copy(x)


def in_order(x: Tensor) -> Tensor:
    """Return the tensor in row-major order."""
    return x if x.layout.is_contiguous else copy(x)
