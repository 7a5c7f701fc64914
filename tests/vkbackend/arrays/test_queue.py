"""What a command batch accepts: handles, dtypes and sizes, checked when queued."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from vkbackend import ArgumentError, CommandBatch, Device


@pytest.fixture
def batch(device: Device) -> CommandBatch:
    return CommandBatch(device)


def test_counts(batch: CommandBatch) -> None:
    handles = [batch.upload([1.0, 2.0]) for _ in range(3)]
    assert (batch.num_operations, batch.num_buffers) == (0, 3)
    result = batch.add(batch.scale(batch.relu(handles[0]), 2.0), handles[1])
    assert (batch.num_operations, batch.num_buffers) == (3, 6)
    assert (result.size, result.nbytes, repr(result)) == (
        2,
        8,
        "<Handle 5: float32 (2,)>",
    )


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "dot"])
def test_sizes_of_pairs(batch: CommandBatch, name: str) -> None:
    x, y = batch.upload([1.0, 2.0, 3.0]), batch.upload([1.0, 2.0])
    with pytest.raises(ArgumentError, match=f"{name}: sizes differ: 3 and 2 elements"):
        getattr(batch, name)(x, y)
    assert batch.num_operations == 0


@pytest.mark.parametrize(
    ("m", "k", "n"), [(2, 3, 3), (3, 2, 2), (0, 3, 2), (-2, -3, 2)]
)
def test_sizes_of_products(batch: CommandBatch, m: int, k: int, n: int) -> None:
    a, b = batch.upload([[1.0] * 3] * 2), batch.upload([1.0] * 6)
    with pytest.raises(ArgumentError, match="matmul: sizes do not fit: a has 6"):
        batch.matmul(a, b, m, k, n)


@pytest.mark.parametrize("columns", [0, -1, 4, 7])
def test_rows(batch: CommandBatch, columns: int) -> None:
    x = batch.upload([1.0] * 6)
    operations: tuple[Callable[..., object], ...]
    operations = (batch.softmax, batch.layer_norm, batch.rms_norm)
    for operation in operations:
        with pytest.raises(ArgumentError, match="must divide the number of elements"):
            operation(x, columns)


def test_what_no_kernel_can_take_is_refused_when_queued(
    batch: CommandBatch, device: Device
) -> None:
    x, buffer = batch.upload([1.0] * 6), device.allocate(16)
    calls: list[tuple[str, Callable[[], object]]] = [
        ("matmul: n is 2.0; it must be an int", lambda: batch.matmul(x, x, 3, 2, 2.0)),
        ("softmax: columns is 1.5; it must be an int", lambda: batch.softmax(x, 1.5)),
        ("scale: factor is None; it must be a number", lambda: batch.scale(x, None)),
        ("scale: factor is 1e+300; it must", lambda: batch.scale(x, 1e300)),
        ("factor is an int too long to print", lambda: batch.scale(x, 10**5000)),
        ("scale: factor is array(", lambda: batch.scale(x, np.ones(2))),
        (
            "layer_norm: eps is 'a'; it must be a number",
            lambda: batch.layer_norm(x, eps="a"),
        ),
        (
            "import_buffer: size is 2.0; it must be an int",
            lambda: batch.import_buffer(buffer, 2.0),
        ),
        ("import_buffer: 3 is no Buffer", lambda: batch.import_buffer(3, 2)),
        ("the cache is for None", lambda: batch.execute_with_cache(None)),
        ("upload: the dtype is complex128", lambda: batch.upload([1j])),
    ]
    for message, call in calls:
        with pytest.raises(ArgumentError, match=re.escape(message)):
            call()
    y = batch.scale(x, np.float32(2))
    batch.execute()
    assert batch.read(y).tolist() == [2.0] * 6


def test_handles_of_another_batch(batch: CommandBatch, device: Device) -> None:
    foreign = CommandBatch(device).upload([1.0])
    batch.upload([1.0])
    with pytest.raises(
        ArgumentError, match=r"relu: <Handle 0.* no array of this batch"
    ):
        batch.relu(foreign)
    with pytest.raises(ArgumentError, match="relu: 7 is no array of this batch"):
        batch.relu(7)  # type: ignore[arg-type]


def test_dtypes(batch: CommandBatch, device: Device) -> None:
    assert batch.upload(np.arange(3)).dtype == np.float32
    assert batch.upload([True, False]).dtype == np.float32
    for array in (np.ones(3), np.ones(3, np.complex64)):
        with pytest.raises(ArgumentError, match="it must be float32 or float16"):
            batch.upload(array)
    half = np.ones(3, np.float16)
    if device.info.storage_16bit:
        with pytest.raises(ArgumentError, match="dtypes differ: float32 and float16"):
            batch.add(batch.upload([1.0] * 3), batch.upload(half))
    else:
        with pytest.raises(ArgumentError, match="cannot store float16"):
            batch.upload(half)


def test_empty_arrays(batch: CommandBatch) -> None:
    with pytest.raises(ArgumentError, match="0 elements; there must be from 1"):
        batch.upload([])


def test_elements_are_copied_when_queued(batch: CommandBatch) -> None:
    array = np.array([1, 2, 3], np.float32)
    x = batch.upload(array)
    array[:] = 0
    batch.execute()
    assert batch.read(x).tolist() == [1, 2, 3]


def test_imported_buffers(batch: CommandBatch, device: Device) -> None:
    buffer = device.allocate(16)
    device.upload(np.array([1, 2, 3, 4], np.float32), buffer)
    weights = batch.import_buffer(buffer, 4)
    with pytest.raises(ArgumentError, match="5 elements of float32 are 20 bytes"):
        batch.import_buffer(buffer, 5)
    with pytest.raises(ArgumentError, match="there must be from 1"):
        batch.import_buffer(buffer, 0)
    with pytest.raises(ArgumentError, match="a handle made by `upload`"):
        batch.replace(weights, [0, 0, 0, 0])
    before = device.counters.snapshot()
    doubled = batch.scale(weights, 2.0)
    batch.execute()
    assert (device.counters - before).uploads == 0
    assert batch.read(doubled).tolist() == [2, 4, 6, 8]
    del batch, weights, doubled
    assert np.frombuffer(device.read(buffer), np.float32).tolist() == [1, 2, 3, 4]


def test_replace(batch: CommandBatch) -> None:
    x = batch.upload([1.0, 2.0])
    y = batch.scale(x, 3.0)
    batch.execute()
    batch.replace(x, [5.0, 7.0])
    assert batch.read(y).tolist() == [3, 6]
    batch.execute()
    assert batch.read(y).tolist() == [15, 21]
    with pytest.raises(ArgumentError, match="replace: the elements do not fit"):
        batch.replace(x, [1.0])
    with pytest.raises(ArgumentError, match="replace: the elements do not fit"):
        batch.replace(y, [1.0, 2.0])
