"""Attention over a cache: what is read, rotated and written, and where."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import draw
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import IndexRangeError, ShapeError
from vkbackend.framework.ops.attention.cached import cached_attention, extend_cache
from vkbackend.framework.scheduler.plan import built_plans

BOUND = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}
NOTHING = float("nan")


def expected(
    arrays: list[np.ndarray],
    position: int,
    padding: list[int] | None,
    window: int | None,
    cap: float | None,
) -> np.ndarray:
    """Return the result in float64, (batch, count, heads, head)."""
    q, k, v = (torch.from_numpy(each).double() for each in arrays)
    count, room, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    k, v = (each.repeat_interleave(group, 1) for each in (k, v))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    if cap is not None:
        scores = torch.tanh(scores / cap) * cap
    keys, own = torch.arange(room), position + torch.arange(count)[:, None]
    seen = (keys <= own) & (own - keys < (window or room))
    if padding is not None:
        real = keys >= torch.tensor(padding)[:, None, None, None]
        seen = seen & (real | (keys == own))
    weights = torch.softmax(scores.masked_fill(~seen, -torch.inf), -1)
    found: np.ndarray = (weights @ v.nan_to_num()).transpose(1, 2).numpy()
    return found


# batch, heads, heads of keys, queries, room, head; position, padding, window, cap
CALLS: dict[str, tuple[Any, ...]] = {
    "first": (1, 4, 2, 1, 40, 32, 0, None, None, None),
    "full": (2, 2, 2, 3, 90, 20, 87, None, None, None),
    "slices": (1, 8, 2, 1, 400, 64, 300, None, None, None),
    "padding": (2, 4, 1, 3, 300, 16, 200, [5, 202], None, None),
    "window": (1, 6, 2, 5, 300, 40, 250, None, 70, None),
    "all": (2, 8, 2, 2, 200, 24, 150, [3, 140], 30, 2.0),
    "odd": (1, 3, 1, 7, 70, 5, 33, None, 3, None),
    "long": (1, 1, 1, 1, 70, 256, 69, None, None, 50.0),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", [*BOUND])
@pytest.mark.parametrize("name", CALLS)
def test_sees_what_is_before(name: str, dtype: str, half_place: Device) -> None:
    batch, heads, shared, count, room, head, position, *options = CALLS[name]
    padding, window, cap = options
    q = draw(batch, count, heads, head)
    k, v = (draw(batch, shared, room, head, seed=seed) for seed in (1, 2))
    # What no query sees is not read.
    k[:, :, position + count :] = v[:, :, position + count :] = NOTHING
    q, k, v = (fw.tensor(each).to(dtype) for each in (q, k, v))
    found = cached_attention(
        *(each.to(half_place) for each in (q.transpose(1, 2), k, v)),
        fw.tensor(position, device=half_place),
        None if padding is None else fw.tensor(padding, device=half_place),
        head**-0.5,
        window,
        cap,
    )
    arrays = [each.float().numpy() for each in (q.transpose(1, 2), k, v)]
    wanted = expected(arrays, position, padding, window, cap)
    assert found.shape == (batch, count, heads, head)
    np.testing.assert_allclose(found.float().numpy(), wanted, atol=4 * BOUND[dtype])


@pytest.mark.parametrize("turned", [0, 4, 8])
@pytest.mark.parametrize("batches", [1, 2])
def test_rotates_and_writes(turned: int, batches: int, place: Device) -> None:
    count, head, room, position = 3, 8, 9, 4
    q, k, v = (draw(2, count, n, head, seed=n) for n in (4, 2, 2))
    keys, values = draw(2, 2, room, head, seed=3), draw(2, 2, room, head, seed=4)
    tables = [draw(batches, count, turned, seed=seed) for seed in (5, 6)]
    inputs = [fw.tensor(each, device=place) for each in (q, k, v)]
    cosine, sine = (
        fw.tensor(each, device=place) if turned else None for each in tables
    )
    found = extend_cache(
        *(each.transpose(1, 2) for each in inputs),
        cosine,
        sine,
        fw.tensor(keys, device=place),
        fw.tensor(values, device=place),
        fw.tensor(position, device=place),
    )

    def rotated(x: np.ndarray) -> np.ndarray:
        x = x.swapaxes(1, 2).copy()
        part = x[..., :turned]
        half = turned // 2
        other = np.concatenate([-part[..., half:], part[..., :half]], -1)
        x[..., :turned] = part * tables[0][:, None] + other * tables[1][:, None]
        return x

    keys[:, :, position : position + count] = rotated(k)
    values[:, :, position : position + count] = v.swapaxes(1, 2)
    for one, other in zip(found, (rotated(q), keys, values), strict=True):
        assert_close(one, other)


def in_pages(x: np.ndarray, tables: np.ndarray, page: int, pages: int) -> np.ndarray:
    """Return sequences (batch, heads, room, head) cut into pages of a pool."""
    pool = np.full((pages, x.shape[1], page, x.shape[3]), NOTHING, np.float32)
    cut = x.reshape(*x.shape[:2], -1, page, x.shape[3])
    for row, table in enumerate(tables):
        for block, number in enumerate(table):
            pool[number] = cut[row, :, block]
    return pool


# dtype; heads, heads of keys, queries, page, head; positions, window, cap
PAGED: dict[str, tuple[Any, ...]] = {
    "few": ("float32", 4, 2, 1, 8, 32, [0, 17, 39], None, None),
    "window": ("float16", 3, 1, 2, 7, 5, [20, 3, 33], 9, 5.0),
    "many": ("bfloat16", 2, 2, 3, 16, 20, [45, 0, 30], None, None),
    "slices": ("float16", 8, 2, 1, 64, 64, [300, 63, 64], None, None),
}
IN_GATE = ("few", "window")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in IN_GATE else pytest.mark.wide)
        for name in PAGED
    ],
)
def test_sequences_of_pages(name: str, half_place: Device) -> None:
    dtype, heads, shared, count, page, head, positions, window, cap = PAGED[name]
    batch, blocks = len(positions), (max(positions) + count - 1) // page + 1
    order = np.random.default_rng(0).permutation(batch * blocks + 2)
    tables = order[: batch * blocks].reshape(batch, blocks)
    q = draw(batch, count, heads, head)
    k, v = (draw(batch, shared, page * blocks, head, seed=seed) for seed in (1, 2))
    for row, position in enumerate(positions):
        k[row, :, position + count :] = v[row, :, position + count :] = NOTHING
    q, k, v = (fw.tensor(each).to(dtype).float().numpy() for each in (q, k, v))
    q = q.swapaxes(1, 2)
    pools = [in_pages(each, tables, page, len(order)) for each in (k, v)]
    found = cached_attention(
        *(fw.tensor(each, device=half_place).to(dtype) for each in (q, *pools)),
        fw.tensor(positions, device=half_place),
        None,
        head**-0.5,
        window,
        cap,
        fw.tensor(tables, device=half_place),
    )
    for row, position in enumerate(positions):
        own = [each[row : row + 1] for each in (q, k, v)]
        wanted = expected(own, position, None, window, cap)
        seen = found[row : row + 1].float().numpy()
        np.testing.assert_allclose(seen, wanted, atol=4 * BOUND[dtype])


def test_writes_into_pages(place: Device) -> None:
    count, head, page = 3, 8, 4
    q, k, v = (draw(2, n, count, head, seed=n) for n in (4, 2, 2))
    pools = [draw(5, 2, page, head, seed=seed) for seed in (3, 4)]
    tables, positions = np.array([[4, 0, 2], [1, 3, 1]]), [6, 2]
    tables_of_turns = [draw(2, count, head, seed=seed) for seed in (5, 6)]
    given = (q, k, v, *tables_of_turns, *pools, np.array(positions), tables)
    found = extend_cache(*(fw.tensor(each, device=place) for each in given))
    for row, position in enumerate(positions):
        own = [each[row : row + 1] for each in (q, k, v, *tables_of_turns)]
        room = np.zeros((1, 2, 3 * page, head), np.float32)
        alone = extend_cache(
            *map(fw.tensor, (*own, room, room)), fw.tensor(position, dtype="int64")
        )
        assert_close(found[0][row : row + 1], alone[0].numpy())
        for pool, wanted in zip(pools, alone[1:], strict=True):
            for place_of in range(position, position + count):
                written = wanted.numpy()[0, :, place_of]
                pool[tables[row, place_of // page], :, place_of % page] = written
    for one, other in zip(found[1:], pools, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize(
    ("position", "page", "message"),
    [
        (8, 0, "index 8 is out of range: the room has size 8"),
        (-1, 0, "index -1 is out of range: the room has size 8"),
        (5, 3, "index 3 is out of range: the pool of pages has size 3"),
        (5, -(1 << 40), "out of range: the pool of pages has size 3"),
    ],
)
def test_a_page_that_is_none(
    position: int, page: int, message: str, place: Device
) -> None:
    def call() -> np.ndarray:
        x, pool = fw.ones(1, 1, 1, 4, device=place), fw.zeros(3, 1, 4, 4, device=place)
        at, table = (
            fw.tensor(each, device=place) for each in ([position], [[0, page]])
        )
        _, keys, _ = extend_cache(x, x, x, None, None, pool, pool, at, table)
        return keys.numpy()

    with pytest.raises(IndexRangeError, match=message):
        call()


def test_tables_of_other_sequences() -> None:
    x, pool = fw.ones(2, 1, 1, 4), fw.zeros(3, 1, 4, 4)
    position, table = fw.zeros(2, dtype="int64"), fw.zeros((1, 2), dtype="int64")
    message = r"position is \(2,\), with tables \(1, 2\); it must be \(2,\), tables"
    with pytest.raises(ShapeError, match=f"extend_cache: {message}"):
        extend_cache(x, x, x, None, None, pool, pool, position, table)
    with pytest.raises(ShapeError, match=f"cached_attention: {message}"):
        cached_attention(x, pool, pool, position, None, 1.0, tables=table)
    with pytest.raises(ShapeError, match="with no tables; it must be without"):
        cached_attention(x, pool, pool, position, None, 1.0)


@pytest.mark.parametrize("position", [-1, 5, 1 << 31, (1 << 40) + 2, -(1 << 40)])
def test_a_full_cache_is_left_as_it_is(position: int, place: Device) -> None:
    def call() -> list[np.ndarray]:
        x = fw.ones(1, 1, 2, 4, device=place)
        keys = fw.zeros(1, 1, 6, 4, device=place)
        at = fw.tensor(position, device=place)
        _, *cache = extend_cache(x, x, x, None, None, keys, keys, at)
        return [each.numpy() for each in cache]

    with pytest.raises(IndexRangeError, match="is out of range: the room has size 6"):
        call()


@pytest.mark.usefixtures("_no_collector")
def test_a_cache_is_changed_in_its_memory(gpu: GpuDevice) -> None:
    """Unless what it was before is still to be read."""
    x = fw.tensor(draw(1, 1, 1, 4), device=gpu)
    position = fw.tensor(1, device=gpu)
    for is_read in (False, True):
        keys, values = (fw.zeros(1, 1, 3, 4, device=gpu) for _ in range(2))
        fw.eval()
        before = [keys.array.value.buffer, values.array.value.buffer]
        old = keys.alias()
        _, new_keys, new_values = extend_cache(
            x, x, x, None, None, keys, values, position
        )
        doubled = old * 2.0 + 1.0 if is_read else None
        held = old if is_read else None
        del old, keys, values
        with built_plans() as plans:
            fw.eval()
        after = [each.array.value.buffer for each in (new_keys, new_values)]
        aliases = sum(len(plan.execution_plan.aliases) for plan in plans)
        assert aliases == 2 - is_read
        assert (after[0] is before[0]) == (not is_read)
        assert after[1] is before[1]
        np.testing.assert_array_equal(new_keys.numpy()[:, :, 1:2], x.numpy())
        np.testing.assert_array_equal(new_values.numpy()[:, :, 0], 0.0)
        if doubled is not None and held is not None:
            np.testing.assert_array_equal(doubled.numpy(), 1.0)
            np.testing.assert_array_equal(held.numpy(), 0.0)
