"""Tokens that are added to a cache: what is rotated and written, and where."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import draw
from vkbackend.framework.base.device import Device, GpuDevice, find_device
from vkbackend.framework.base.errors import IndexRangeError, ShapeError
from vkbackend.framework.ops.attention.cached import extend_cache
from vkbackend.framework.scheduler.plan import built_plans


@pytest.mark.parametrize("turned", [0, 4, 8])
@pytest.mark.parametrize("batches", [1, 2])
def test_rotates_and_writes(turned: int, batches: int, place: Device) -> None:
    count, head, room, position = 3, 8, 9, 4
    q, k, v = (draw(2, count, n, head, seed=n) for n in (4, 2, 2))
    keys, values = draw(2, 2, room, head, seed=3), draw(2, 2, room, head, seed=4)
    tables = [draw(batches, count, turned, seed=seed) for seed in (5, 6)]
    inputs = [fw.tensor(each, device=place) for each in (q, k, v)]
    cosine, sine = (fw.tensor(each, device=place) for each in tables)
    found = extend_cache(
        *(each.transpose(1, 2) for each in inputs),
        (cosine, sine) if turned else None,
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


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("head", "turned"), [(32, 32), (32, 16), (32, 8), (12, 12)])
def test_halves_in_words_and_one_by_one(
    head: int, turned: int, dtype: str, half_place: Device
) -> None:
    """Each rounded once, whether 16 bytes are a word of one half or not."""
    arrays = [draw(1, n, 3, head, seed=n) for n in (4, 2, 3)]
    arrays[2] = arrays[2][:, :2]
    arrays += [draw(1, 3, turned, seed=seed) for seed in (5, 6)]
    given = [fw.tensor(each, dtype) for each in arrays]
    caches = [fw.zeros(1, 2, 9, head, dtype=fw.float32) for _ in range(2)]

    def extended(device: Device, dtype: str, *x: fw.Tensor) -> list[np.ndarray]:
        q, k, v, cosine, sine, *room = (each.to(dtype).to(device) for each in x)
        position = fw.tensor(5, device=device)
        found = extend_cache(q, k, v, (cosine, sine), *room, position)
        return [each.float().numpy() for each in found]

    wanted = extended(find_device("cpu"), "float32", *given, *caches)
    found = extended(half_place, dtype, *given, *caches)
    bound = 2.0**-11 if dtype == "float16" else 2.0**-8
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=bound, atol=bound)


def test_writes_into_pages(place: Device) -> None:
    count, head, page = 3, 8, 4
    q, k, v = (draw(2, n, count, head, seed=n) for n in (4, 2, 2))
    pools = [draw(5, 2, page, head, seed=seed) for seed in (3, 4)]
    tables, positions = np.array([[4, 0, 2], [1, 3, 1]]), [6, 2]
    tables_of_turns = [draw(2, count, head, seed=seed) for seed in (5, 6)]
    given = (q, k, v, *tables_of_turns, *pools, np.array(positions), tables)
    q_, k_, v_, *rest = (fw.tensor(each, device=place) for each in given)
    found = extend_cache(q_, k_, v_, (rest[0], rest[1]), *rest[2:])
    for row, position in enumerate(positions):
        own = [each[row : row + 1] for each in (q, k, v, *tables_of_turns)]
        room = np.zeros((1, 2, 3 * page, head), np.float32)
        q_, k_, v_, *turns = map(fw.tensor, own)
        alone = extend_cache(
            *(q_, k_, v_),
            (turns[0], turns[1]),
            *map(fw.tensor, (room, room)),
            fw.tensor(position, dtype="int64"),
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
        _, keys, _ = extend_cache(x, x, x, None, pool, pool, at, table)
        return keys.numpy()

    with pytest.raises(IndexRangeError, match=message):
        call()


def test_tables_of_other_sequences() -> None:
    x, pool = fw.ones(2, 1, 1, 4), fw.zeros(3, 1, 4, 4)
    position, table = fw.zeros(2, dtype="int64"), fw.zeros((1, 2), dtype="int64")
    message = r"position is \(2,\), with tables \(1, 2\); it must be \(2,\), tables"
    with pytest.raises(ShapeError, match=f"extend_cache: {message}"):
        extend_cache(x, x, x, None, pool, pool, position, table)


@pytest.mark.parametrize("position", [-1, 5, 1 << 31, (1 << 40) + 2, -(1 << 40)])
def test_a_full_cache_is_left_as_it_is(position: int, place: Device) -> None:
    def call() -> list[np.ndarray]:
        x = fw.ones(1, 1, 2, 4, device=place)
        keys = fw.zeros(1, 1, 6, 4, device=place)
        at = fw.tensor(position, device=place)
        _, *cache = extend_cache(x, x, x, None, keys, keys, at)
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
        _, new_keys, new_values = extend_cache(x, x, x, None, keys, values, position)
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
