"""Command batches: the reference's examples, every operation, counts, await."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

import vkbackend
from tests.hardware import skip_where_it_crashes
from vkbackend import (
    ArgumentError,
    Buffer,
    CommandBatch,
    Device,
    KernelCache,
)
from vkbackend.arrays.kernels import DOT_CHUNK
from vkbackend.arrays.queue import Handle

Floats = NDArray[np.float32]
LAYERS = 36


@pytest.fixture
def batch(device: Device) -> CommandBatch:
    return CommandBatch(device)


def random(*shape: int, seed: int = 0) -> Floats:
    values = np.random.default_rng(seed).standard_normal(shape)
    return values.astype(np.float32)


def test_example(device: Device) -> None:
    batch = vkbackend.batch(device)
    x, half = batch.upload([1, 2, -3, 4]), batch.upload([0.5] * 4)
    result = batch.add(batch.scale(batch.relu(x), 2.0), half)
    assert (batch.num_operations, batch.num_buffers) == (3, 5)
    batch.execute()
    assert batch.read(result).tolist() == [2.5, 4.5, 0.5, 8.5]
    assert batch.read(result).tolist() == [2.5, 4.5, 0.5, 8.5]


def test_every_operation_of_the_reference(batch: CommandBatch) -> None:
    """The reference's own values, all in one run."""
    a, b = batch.upload([2, 4, 6, 8]), batch.upload([1, 1.5, 2, 2.5])
    c, d = batch.upload([5, 10, 15, 20]), batch.upload([1, 2, 3, 4])
    s, one = batch.upload([-2, 0, 2]), batch.upload([1.0])
    chain = batch.tanh(batch.sigmoid(batch.relu(c)))
    expected = [
        (batch.mul(a, b), [2, 6, 12, 20], 0),
        (batch.sub(c, d), [4, 8, 12, 16], 0),
        (batch.sigmoid(s), [0.119, 0.5, 0.881], 1e-3),
        (batch.tanh(one), [0.762], 1e-3),
        (batch.swish(one), [0.731], 1e-3),
        (batch.gelu(one), [0.841], 0.05),
        (batch.dot(a, b), [40], 0),
        (batch.matmul(a, b, 2, 2, 2), [[10, 13], [22, 29]], 0),
        (batch.div(c, d), [5, 5, 5, 5], 1e-6),
    ]
    batch.execute()
    for handle, values, tolerance in expected:
        np.testing.assert_allclose(batch.read(handle), values, atol=tolerance, rtol=0)
    assert (np.abs(batch.read(chain)) <= 1).all()


def sigmoid(x: Floats) -> Floats:
    power = np.exp(-np.abs(x.astype(np.float64)))
    return (np.where(x < 0, power, 1) / (1 + power)).astype(np.float32)


REFERENCES: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": sigmoid,
    "tanh": lambda x: np.tanh(x.astype(np.float64)).astype(np.float32),
    "swish": lambda x: x * sigmoid(x),
    "gelu": lambda x: (
        x * sigmoid(1.5957691216057308 * (x + np.float32(0.044715) * x**3))
    ),
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_functions_of_an_element(
    batch: CommandBatch, name: str, dtype: type[np.floating]
) -> None:
    if dtype is np.float16 and not batch.device.info.storage_16bit:
        pytest.skip("the device stores no float16")
    x = np.concatenate([random(1000) * 4, [0, 80, -80]]).astype(dtype)
    result = getattr(batch, name)(batch.upload(x))
    batch.execute()
    expected = REFERENCES[name](x.astype(np.float32))
    assert batch.read(result).dtype == dtype
    tolerance = 1e-3 if dtype is np.float16 else 3e-6
    np.testing.assert_allclose(
        batch.read(result), expected.astype(dtype), rtol=tolerance, atol=tolerance / 10
    )


@pytest.mark.parametrize("name", REFERENCES)
def test_extremes_stay_stable(batch: CommandBatch, name: str) -> None:
    result = getattr(batch, name)(batch.upload([np.nan, 1e30, -1e30]))
    batch.execute()
    nan, large, small = batch.read(result)
    assert np.isnan(nan)
    assert np.isfinite(large)
    assert np.isfinite(small)


@pytest.mark.parametrize(
    "count", [1, 255, 257, DOT_CHUNK, DOT_CHUNK + 1, 10 * DOT_CHUNK + 3, 4_200_001]
)
def test_dot_of_any_length(batch: CommandBatch, count: int) -> None:
    x, y = random(count), random(count, seed=1)
    result = batch.dot(batch.upload(x), batch.upload(y))
    batch.execute()
    expected = x.astype(np.float64) @ y
    np.testing.assert_allclose(batch.read(result), [expected], atol=1e-6 * count**0.5)


def test_dot_of_float16_sums_in_float32(batch: CommandBatch) -> None:
    if not batch.device.info.storage_16bit:
        pytest.skip("the device stores no float16")
    ones = batch.upload(np.full(3 * DOT_CHUNK, 0.25, np.float16))
    result = batch.dot(ones, ones)
    batch.execute()
    assert batch.read(result).tolist() == [3 * DOT_CHUNK / 16]


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (1, 300, 7), (33, 65, 40)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_matmul(
    batch: CommandBatch, m: int, k: int, n: int, dtype: type[np.floating]
) -> None:
    if dtype is np.float16 and not batch.device.info.storage_16bit:
        pytest.skip("the device stores no float16")
    a, b = random(m, k).astype(dtype), random(k, n, seed=1).astype(dtype)
    result = batch.matmul(batch.upload(a), batch.upload(b), m, k, n)
    batch.execute()
    error = 2e-3 if dtype is np.float16 else 1e-5
    np.testing.assert_allclose(
        batch.read(result),
        a.astype(np.float64) @ b,
        rtol=error,
        atol=error * k**0.5,
    )


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(1, 304, 256), (8, 129, 520), (8, 136, 520), (40, 70, 33), (5, 7, 3)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_matmul_as_on_hardware(
    device: Device,
    m: int,
    k: int,
    n: int,
    dtype: type[np.floating],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A software device runs the kernels that others take too."""
    if dtype is np.float16 and not device.info.storage_16bit:
        pytest.skip("the device stores no float16")
    skip_where_it_crashes(device.info)
    info = dataclasses.replace(device.info, kind="discrete")
    monkeypatch.setattr(device, "info", info)
    test_matmul(CommandBatch(device), m, k, n, dtype)


def test_softmax_and_norms(batch: CommandBatch) -> None:
    x = random(5, 200) * 3
    handle = batch.upload(x)
    results = [
        batch.softmax(handle, 200),
        batch.layer_norm(handle, 200, 1e-5),
        batch.rms_norm(handle, 200, 1e-6),
        batch.softmax(handle),
    ]
    batch.execute()
    wide = x.astype(np.float64)
    power = np.exp(wide - wide.max())
    centred = wide - wide.mean(1, keepdims=True)
    expected = [
        power / power.sum(1, keepdims=True),
        centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5),
        wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6),
        power / power.sum(),
    ]
    for handle, values in zip(results, expected, strict=True):
        np.testing.assert_allclose(batch.read(handle), values, rtol=1e-5, atol=1e-6)


def test_a_software_device_refuses_long_loops(batch: CommandBatch) -> None:
    wide = batch.upload(np.ones(40_000, np.float32))
    if batch.device.info.kind == "software":
        with pytest.raises(ArgumentError, match="k is too large for a software device"):
            batch.matmul(wide, wide, 1, 40_000, 1)
    else:
        result = batch.matmul(wide, wide, 1, 40_000, 1)
        batch.execute()
        assert batch.read(result) == 40_000


def test_reading_too_early(batch: CommandBatch) -> None:
    x = batch.upload([1.0])
    y = batch.relu(x)
    for handle in (x, y):
        with pytest.raises(ArgumentError, match="call execute first"):
            batch.read(handle)
    batch.execute()
    late = batch.scale(y, 4.0)
    with pytest.raises(ArgumentError, match="call execute first"):
        batch.read(late)
    batch.execute()
    assert batch.read(late) == 4


@pytest.mark.usefixtures("_no_collector")
def test_executing_again_runs_everything_in_the_same_memory(
    batch: CommandBatch, device: Device
) -> None:
    buffer = device.allocate(4)
    weight = batch.import_buffer(buffer, 1)
    x = batch.upload([3.0])
    result = batch.dot(batch.mul(x, weight), x)
    for value in (1.0, 5.0):
        device.upload(np.array([value], np.float32), buffer)
        before = device.counters.snapshot(), device.memory_stats()["total_allocations"]
        batch.execute()
        assert batch.read(result) == 9 * value
        assert (device.counters - before[0]).dispatches == 2
    assert device.memory_stats()["total_allocations"] == before[1]


def test_an_empty_batch_submits_nothing(batch: CommandBatch, device: Device) -> None:
    before = device.counters.snapshot()
    batch.execute().wait()
    assert (device.counters - before).submits == 0


def test_a_cache_is_for_one_device(batch: CommandBatch) -> None:
    class Other:
        name = "other"

    with pytest.raises(ArgumentError, match="execute_with_cache: the cache is for"):
        batch.execute_with_cache(KernelCache(Other()))  # type: ignore[arg-type]


def resident(device: Device, array: Floats) -> Buffer:
    """Return a buffer that holds an array."""
    buffer = device.allocate(array.nbytes)
    device.upload(array, buffer)
    return buffer


def ffn(
    batch: CommandBatch, buffers: Sequence[Buffer], rows: int, width: int, hidden: int
) -> Handle:
    """Queue down(swish(gate(x)) * up(x)), all of it imported."""
    x = batch.import_buffer(buffers[0], rows * width)
    gate, up, down = (batch.import_buffer(w, width * hidden) for w in buffers[1:])
    opened = batch.swish(batch.matmul(x, gate, rows, width, hidden))
    raised = batch.mul(opened, batch.matmul(x, up, rows, width, hidden))
    return batch.matmul(raised, down, rows, hidden, width)


def test_36_layers(device: Device) -> None:
    """Qwen3-4B's FFN in small: 5 operations, 3 kernels, one submission a layer."""
    rows, width, hidden = 4, 40, 96
    x = random(rows, width)
    arrays = [random(width, hidden, seed=k) / 8 for k in range(3)]
    expected = sigmoid(x @ arrays[0]) * (x @ arrays[0]) * (x @ arrays[1])
    expected = expected @ arrays[2].reshape(hidden, width)
    buffers = [resident(device, array) for array in (x, *arrays)]
    kept = KernelCache(device)
    for cache, compiles in ((None, 108), (kept, 3)):
        before = device.counters.snapshot()
        asked = 0
        for _ in range(LAYERS):
            layer = CommandBatch(device)
            result = ffn(layer, buffers, rows, width, hidden)
            if cache is None:
                layer.execute()
            else:
                layer.execute_with_cache(cache)
            asked += layer.num_compiles
        counted = device.counters - before
        assert (asked, counted.dispatches) == (compiles, 5 * LAYERS)
        assert (counted.submits, counted.uploads) == (LAYERS, 0)
        # What the device has built once it never builds again.
        assert counted.pipeline_builds <= 3
        np.testing.assert_allclose(layer.read(result), expected, rtol=1e-4, atol=1e-5)
    assert (len(kept), kept.hits) == (3, 5 * LAYERS - 3)


def test_one_submission_a_batch(device: Device) -> None:
    batch = CommandBatch(device)
    x = batch.upload(random(1000))
    for _ in range(5):
        x = batch.relu(batch.scale(x, 1.5))
    batch.execute()
    before = device.counters.snapshot()
    batch.execute()
    batch.read(x)
    counted = device.counters - before
    assert (counted.dispatches, counted.host_reads, counted.uploads) == (10, 1, 0)
    # Reading may take a copy of its own on devices whose memory is not mapped.
    assert counted.submits in (1, 2)


def test_a_chain_asks_less_than_one_submission_per_operation(device: Device) -> None:
    x, half = random(4096), np.full(4096, 0.5, np.float32)
    cache = KernelCache(device)

    def together() -> Floats:
        batch = CommandBatch(device)
        first = batch.scale(batch.relu(batch.upload(x)), 2.0)
        last = batch.add(first, batch.upload(half))
        batch.execute_with_cache(cache)
        return batch.read(last)

    def alone(name: str, *arguments: Floats | float) -> Floats:
        batch = CommandBatch(device)
        given = [batch.upload(a) if isinstance(a, np.ndarray) else a for a in arguments]
        last = getattr(batch, name)(*given)
        batch.execute_with_cache(cache)
        return batch.read(last)

    def apart() -> Floats:
        return alone("add", alone("scale", alone("relu", x), 2.0), half)

    np.testing.assert_array_equal(together(), apart())
    counted = []
    for run in (together, apart):
        before = device.counters.snapshot()
        run()
        counted.append(device.counters - before)
    chain, single = counted
    assert chain.dispatches == single.dispatches == 3
    assert (chain.uploads, chain.host_reads) == (2, 1)
    assert (single.uploads, single.host_reads) == (4, 3)
    # Staged transfers are submissions of their own: 1 and 3 without, 4 and 10 at most.
    assert 2 * chain.submits <= single.submits


def test_awaiting(batch: CommandBatch) -> None:
    async def program() -> list[list[float]]:
        x = batch.upload([1, 2, -3, 4])
        y = batch.scale(batch.relu(x), 2.0)
        point = await batch.execute_async()
        assert point.done()
        first = await batch.read_async(y)
        batch.replace(x, [-1, 1, 1, 1])
        await batch.execute_async(KernelCache(batch.device))
        second = await batch.read_async(y)
        with pytest.raises(ArgumentError, match="call execute first"):
            await batch.read_async(batch.relu(y))
        return [first.tolist(), second.tolist()]

    assert asyncio.run(program()) == [[2, 4, 0, 8], [0, 2, 2, 2]]


def test_many_batches_at_once(device: Device) -> None:
    async def one(k: int) -> float:
        batch = CommandBatch(device)
        x = batch.upload(np.full(5000, k, np.float32))
        total = batch.dot(x, x)
        await batch.execute_async()
        return float((await batch.read_async(total))[0])

    async def program() -> list[float]:
        return await asyncio.gather(*map(one, range(20)))

    assert asyncio.run(program()) == [5000.0 * k * k for k in range(20)]
