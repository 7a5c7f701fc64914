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
from vkbackend.framework.base.errors import IndexRangeError
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
