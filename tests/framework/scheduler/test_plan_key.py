"""Equal graphs have one plan, wherever the tensors in memory that they read start."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ir.lazy_graph import Value
from vkbackend.framework.nn.utils import parameters_to_vector, vector_to_parameters
from vkbackend.framework.scheduler.plan_key import plan_key


def in_memory(gpu: GpuDevice, array: np.ndarray) -> fw.Tensor:
    x = fw.tensor(array, device=gpu)
    fw.eval(x)
    return x


def tensor(gpu: GpuDevice, *shape: int) -> fw.Tensor:
    data = np.random.default_rng(0).uniform(0.5, 1.5, shape).astype(np.float32)
    return fw.tensor(data, device=gpu)


@pytest.mark.core
@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "uint8", "bool"])
def test_rows_share_a_plan(gpu: GpuDevice, dtype: str) -> None:
    rng = np.random.default_rng(0)
    array = rng.integers(0, 5, (40, 3, 32)).astype(dtype)
    x = in_memory(gpu, array)

    def check(row: int) -> None:
        found = (x[row].float() * 2 + x[0].float()).sum(1).numpy()
        expected = (array[row].astype("f4") * 2 + array[0].astype("f4")).sum(1)
        assert np.array_equal(found, expected)

    for row in (1, 2, 3):
        check(row)
    plans = len(gpu.plans)
    for row in range(4, 40):
        check(row)
    assert len(gpu.plans) == plans


@pytest.mark.core
def test_batches_of_a_training_share_a_plan(gpu: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    array = rng.normal(size=(64, 16)).astype("f4")
    x = in_memory(gpu, array)
    weight = rng.normal(size=(16, 16)).astype("f4")
    w = nn.Parameter(in_memory(gpu, weight))
    optimizer = fw.optim.SGD([w], lr=0.01)
    plans = []
    for start in (4, 8, 0, 12, 16, 20, 36, 60):
        loss = (x[start : start + 4] @ w).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        y = array[start : start + 4] @ weight
        assert loss.item() == pytest.approx(float((y * y).sum()), rel=1e-4)
        weight -= 0.01 * (array[start : start + 4].T @ (2 * y))
        plans.append(len(gpu.plans))
    np.testing.assert_allclose(w.detach().numpy(), weight, rtol=1e-3, atol=1e-4)
    assert plans[-1] == plans[3]


def test_parts_of_one_value_beside_it(gpu: GpuDevice) -> None:
    array = np.arange(6 * 64, dtype="f4").reshape(6, 64)
    x = in_memory(gpu, array)
    for a, b in ((1, 2), (5, 3), (4, 4)):
        found = (x[a] * x[b] + x).numpy()
        assert np.array_equal(found, array[a] * array[b] + array)
    columns = in_memory(gpu, np.arange(4 * 300, dtype="f4").reshape(4, 300))
    for start in (0, 64, 65, 130, 255):
        found = (columns[:, start : start + 45] + 1).numpy()
        assert np.array_equal(found, columns.numpy()[:, start : start + 45] + 1)


def test_changes_between_reads_are_seen(gpu: GpuDevice) -> None:
    array = np.arange(4 * 64, dtype="f4").reshape(4, 64)
    x = in_memory(gpu, array)
    for row in (3, 1, 2):
        before = x[row] * 2
        x[row] = x[row] + 1
        after = x[row] * 2
        assert np.array_equal(before.numpy(), array[row] * 2)
        array[row] += 1
        assert np.array_equal(after.numpy(), array[row] * 2)
        assert np.array_equal(x.numpy(), array)


def test_a_value_that_nothing_refers_to_is_still_donated(gpu: GpuDevice) -> None:
    for row in (1, 2, 3):
        x = in_memory(gpu, np.full((4, 64), row, "f4"))
        y = x[row] + x[1]
        z = x * 3
        del x
        fw.eval()
        assert np.array_equal(y.numpy(), np.full(64, 2 * row, "f4"))
        assert np.array_equal(z.numpy(), np.full((4, 64), 3 * row, "f4"))


def test_optimizers_update_parameters_that_are_parts(gpu: GpuDevice) -> None:
    """Their recorded plans run on other values, which are then whole."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=size).astype("f4") for size in ((8, 16), (64,), (96,))]
    params = [nn.Parameter(in_memory(gpu, array)) for array in arrays]
    vector_to_parameters(parameters_to_vector(params), params)
    optimizer = fw.optim.SGD(params, lr=0.5)
    for _ in range(4):
        optimizer.zero_grad()
        sum((p * p).sum() for p in params).backward()
        nn.utils.clip_grad_norm_(params, 1e6)
        optimizer.step()
        arrays = [array - 0.5 * (2 * array) for array in arrays]
        for p, array in zip(params, arrays):
            np.testing.assert_allclose(p.detach().numpy(), array, atol=1e-6)


def test_a_long_loop_has_the_same_steps_from_wherever(gpu: GpuDevice) -> None:
    array = np.random.default_rng(0).normal(size=(60, 8, 16)).astype("f4")
    x, w = in_memory(gpu, array), in_memory(gpu, np.eye(16, dtype="f4") / 2)

    def check(first: int) -> None:
        h, expected = x[first], array[first]
        for step in range(first + 1, first + 7):
            h = (h @ w + x[step]).tanh()
            expected = np.tanh(expected / 2 + array[step])
        np.testing.assert_allclose(h.numpy(), expected, rtol=1e-4, atol=1e-5)

    check(1)
    plans = len(gpu.plans)
    for first in (9, 30, 53):
        check(first)
    assert len(gpu.plans) == plans


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
def test_starts_that_are_alike_share_a_plan(dtype: str, gpu: GpuDevice) -> None:
    """Each reads its own elements, also where neighbours share a word."""
    data = np.arange(240).reshape(40, 6) % 50
    whole = fw.tensor(data, device=gpu).to(getattr(fw, dtype))
    fw.eval(whole)
    known = len(gpu.plans)
    for start in range(37):
        rows = whole[start : start + 3]
        found = rows + 1, rows.sum(), fw.cat([rows, rows]), rows.T + rows.T
        fw.eval(*found)
        part = data[start : start + 3]
        wanted = part + 1, part.sum(), np.concatenate([part, part]), 2 * part.T
        for ours, theirs in zip(found, wanted):
            assert np.array_equal(ours.numpy().astype(np.int64), theirs)
    # Rows of 6 begin at 8 places of 16 at most; the first one is the whole's start.
    assert len(gpu.plans) - known <= 9


@pytest.mark.core
def test_wiring_makes_a_schedule(gpu: GpuDevice) -> None:
    x, y = tensor(gpu, 5), tensor(gpu, 5)
    assert_close(x - y, x.numpy() - y.numpy())
    assert_close(y - x, y.numpy() - x.numpy())
    assert_close(x - x, x.numpy() * 0)
    assert_close((x + y) * (x - y), x.numpy() ** 2 - y.numpy() ** 2)
    assert_close((x + y) * (y - x), y.numpy() ** 2 - x.numpy() ** 2)


@pytest.mark.core
def test_what_is_held_makes_a_schedule(gpu: GpuDevice) -> None:
    x = tensor(gpu, 5)
    kept = x * 3
    assert_close(kept + 1, x.numpy() * np.float32(3) + np.float32(1))
    assert_close(x * 3 + 1, x.numpy() * np.float32(3) + np.float32(1))
    assert_close(kept, x.numpy() * np.float32(3))


@pytest.mark.core
def test_values_are_numbered_by_wiring(gpu: GpuDevice) -> None:
    x = tensor(gpu, 3)
    fw.eval()
    y = x + x * 2
    slots: dict[Value, int] = {}
    key = plan_key(gpu.pending, slots)
    assert (slots[x.array.value], slots[y.array.value], len(slots)) == (0, 2, 3)
    times, plus = (node.signature for node in gpu.pending)
    assert key == (times, 0, False, plus, 0, 1, True)
    fw.eval()
    assert_close(y.numpy(), x.numpy() * 3)
