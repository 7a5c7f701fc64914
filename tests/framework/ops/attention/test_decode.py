"""Decode attention: what tokens that are added to a cache see, and what they write."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.large import forget_plans
from tests.framework.ops.twin import draw
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import IndexRangeError, ShapeError
from vkbackend.framework.kernels.attention import split
from vkbackend.framework.ops.attention.cached import extend_cache
from vkbackend.framework.ops.attention.decode import decode_attention
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
    # Of the cache only tokens before are read.
    old = [each.copy() for each in (k, v)]
    for each in old:
        each[:, :, position:] = NOTHING
    q, k, v, *old = (fw.tensor(each).to(dtype) for each in (q, k, v, *old))
    new = (each[:, :, position : position + count] for each in (k, v))
    found, *_ = decode_attention(
        *(each.to(half_place) for each in (q.transpose(1, 2), *new)),
        None,
        *(each.to(half_place) for each in old),
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
    q, k, v = (fw.tensor(each).to(dtype).float().numpy() for each in (q, k, v))
    q = q.swapaxes(1, 2)
    new = [
        np.stack([x[n, :, at : at + count] for n, at in enumerate(positions)])
        for x in (k, v)
    ]
    old = [each.copy() for each in (k, v)]
    for row, position in enumerate(positions):
        for each in old:
            each[row, :, position:] = NOTHING
    pools = [in_pages(each, tables, page, len(order)) for each in old]
    q_, k_, v_, *pools_ = (
        fw.tensor(each, device=half_place).to(dtype) for each in (q, *new, *pools)
    )
    found, *_ = decode_attention(
        *(q_, k_, v_),
        None,
        *pools_,
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


def step_of(
    place: Device, dtype: str, turned: int, count: int, head: int, pages: bool
) -> tuple[list[Any], dict[str, Any]]:
    """Return tokens with a cache that has others, and where they begin."""
    batch, heads, shared, room = 2, 6, 2, 96
    shapes = [(batch, count, n, head) for n in (heads, shared, shared)]
    q, k, v = (
        fw.tensor(draw(*each, seed=n), device=place).to(dtype).transpose(1, 2)
        for n, each in enumerate(shapes)
    )
    angles = None
    if turned:
        angles = tuple(
            fw.tensor(draw(batch, count, turned, seed=n), device=place).to(dtype)
            for n in (5, 6)
        )
    size = (8, shared, room // 4, head) if pages else (batch, shared, room, head)
    cache = [fw.tensor(draw(*size, seed=n), device=place).to(dtype) for n in (3, 4)]
    at, tables = fw.tensor(70, device=place), None
    if pages:
        at = fw.tensor([70, 23], device=place)
        order = np.random.default_rng(0).permutation(8).reshape(2, 4)
        tables = fw.tensor(order, device=place)
    return [q, k, v, angles, *cache, at], {"tables": tables}


@pytest.mark.parametrize("pages", [False, True])
@pytest.mark.parametrize(
    ("dtype", "turned", "count", "head"),
    [
        ("float32", 32, 1, 32),
        ("float16", 16, 3, 64),
        ("bfloat16", 6, 2, 10),
        ("bfloat16", 0, 1, 128),
    ],
)
def test_is_rotation_writing_and_attention(
    dtype: str, turned: int, count: int, head: int, pages: bool, half_place: Device
) -> None:
    given, tables = step_of(half_place, dtype, turned, count, head, pages)
    found, *cache = decode_attention(*given, None, head**-0.5, **tables)
    query, *wanted = extend_cache(*given, **tables)
    for one, other in zip(cache, wanted, strict=True):
        np.testing.assert_array_equal(one.float().numpy(), other.float().numpy())
    # The same tokens once more, which are neither rotated nor other ones.
    _, _, _, _, *_, at = given
    new = []
    for each in wanted:
        lines = each.float().numpy()
        starts = at.numpy().reshape(-1)
        table = None if tables["tables"] is None else tables["tables"].numpy()
        rows = [
            [
                lines[row, :, starts[0] + n]
                if table is None
                else lines[
                    table[row, (starts[row] + n) // lines.shape[2]],
                    :,
                    (starts[row] + n) % lines.shape[2],
                ]
                for n in range(count)
            ]
            for row in range(2)
        ]
        again = fw.tensor(np.array(rows), device=half_place).to(dtype)
        new.append(again.transpose(1, 2))
    same, *_ = decode_attention(
        query, *new, None, *wanted, at, None, head**-0.5, **tables
    )
    # The host does not round rotated vectors before it multiplies them.
    bound = 0 if half_place.is_gpu else 4 * BOUND[dtype]
    np.testing.assert_allclose(
        found.float().numpy(), same.float().numpy(), rtol=0, atol=bound
    )


@pytest.mark.wide
@pytest.mark.parametrize("position", [-1, 5, 1 << 31, (1 << 40) + 2, -(1 << 40)])
def test_a_full_cache_is_an_error(position: int, place: Device) -> None:
    def call() -> list[np.ndarray]:
        x = fw.ones(1, 1, 2, 4, device=place)
        keys = fw.zeros(1, 1, 6, 4, device=place)
        at = fw.tensor(position, device=place)
        found = decode_attention(x, x, x, None, keys, keys, at, None, 1.0)
        return [each.numpy() for each in found]

    with pytest.raises(IndexRangeError, match="is out of range: the room has size 6"):
        call()


@pytest.mark.parametrize("page", [3, -(1 << 40)])
def test_a_page_that_is_none(page: int, place: Device) -> None:
    def call() -> np.ndarray:
        x, pool = fw.ones(1, 1, 1, 4, device=place), fw.zeros(3, 1, 4, 4, device=place)
        at, table = (fw.tensor(each, device=place) for each in ([5], [[0, page]]))
        found = decode_attention(x, x, x, None, pool, pool, at, None, 1.0, tables=table)
        return found[1].numpy()

    message = "out of range: the pool of pages has size 3"
    with pytest.raises(IndexRangeError, match=message):
        call()


def test_positions_of_other_sequences() -> None:
    x, pool = fw.ones(2, 1, 1, 4), fw.zeros(2, 1, 4, 4)
    position = fw.zeros(2, dtype="int64")
    with pytest.raises(ShapeError, match="with no tables; it must be without"):
        decode_attention(x, x, x, None, pool, pool, position, None, 1.0)


def test_a_step_is_one_dispatch(gpu: GpuDevice) -> None:
    """Whatever the number of slices; the cache is changed in its memory."""
    given, _ = step_of(gpu, "float32", 8, 1, 16, False)
    fw.eval(*given[:3], *given[3], *given[4:])
    before = [each.array.value.buffer for each in given[4:6]]
    with built_plans() as plans:
        found = decode_attention(*given, None, 1.0)
        del given
        fw.eval(*found)
    launches = [each for plan in plans for each, _ in plan.execution_plan.steps]
    assert len(launches) == 1
    assert [each.array.value.buffer for each in found[1:]] == before


@pytest.mark.parametrize("name", ["slices", "all"])
def test_rows_in_a_subgroup(
    name: str, half_place: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Greatest scores and totals by shuffles, where a row has eight invocations."""
    monkeypatch.setattr(split, "full_subgroup", lambda gpu, _: gpu.subgroup_size)
    monkeypatch.setattr(split, "CACHED_INVOCATIONS_OF_ROWS", 64)
    forget_plans()
    test_sees_what_is_before(name, "float16", half_place)
    forget_plans()
