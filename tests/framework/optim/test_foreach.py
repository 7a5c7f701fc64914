"""Foreach assignment of many tensors at once."""

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import MAX_PENDING, Device, GpuDevice
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.ops.elementwise.optimizer_step import sgd_step
from vkbackend.framework.optim.foreach import assign_, assign_each, snapshot


def test_assign_replaces_all_or_a_part(place: Device) -> None:
    x = fw.tensor(np.zeros((2, 3), np.float32), device=place)
    view = x[1]
    version = x.array.version
    assign_(x, fw.ones_like(x))
    assert_close(view, np.ones(3, np.float32))
    assign_(view, fw.ones_like(view) * 2)
    assert x.tolist() == [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]]
    assert x.array.version == version + 2


@pytest.mark.parametrize("times", [1, 3])
def test_each_row_gets_its_own(place: Device, times: int) -> None:
    """Also views, other dtypes and shapes that broadcast, which have no short way."""
    base = [np.full((n, 3), n, np.float32) for n in range(1, 6)]
    xs = [fw.tensor(each, device=place) for each in base]
    whole = fw.tensor(np.ones((4, 6), np.float32), device=place)
    rows = [(x, fw.ones_like(x)) for x in xs]
    rows.append((whole[:, 2:4], fw.ones((4, 2), device=place)))
    rows.append((fw.ones(5, device=place), fw.tensor(1.0, device=place)))
    rows.append((fw.ones(5, dtype=fw.float16, device=place), fw.ones(5, device=place)))
    held = [x.alias() for x in xs]
    for _ in range(times):
        assign_each(sgd_step, rows, (0.5,))
    for x, each, old in zip(xs, base, held):
        assert_close(x, each - 0.5 * times)
        assert_close(old, each)
    left = np.ones((4, 6), np.float32)
    left[:, 2:4] -= 0.5 * times
    assert_close(whole, left)
    assert_close(rows[-2][0], np.full(5, 1 - 0.5 * times, np.float32))
    assert rows[-1][0].dtype is fw.float16
    assert_close(rows[-1][0], np.full(5, 1 - 0.5 * times, np.float16))


def test_more_rows_than_a_graph_holds(gpu: GpuDevice) -> None:
    xs = [fw.tensor(np.full(3, n, np.float32), device=gpu) for n in range(MAX_PENDING)]
    for _ in range(2):
        assign_each(sgd_step, [(x, x) for x in xs], (0.5,))
    for n in range(0, MAX_PENDING, 50):
        assert_close(xs[n], np.full(3, n / 4, np.float32))


def test_a_saved_tensor_was_changed(gpu: GpuDevice) -> None:
    x = fw.tensor(np.ones(3, np.float32), device=gpu, requires_grad=True)
    y = (x * x).sum()
    assign_each(sgd_step, [(x, fw.ones_like(x))], (0.5,))
    assign_each(sgd_step, [(x, fw.ones_like(x))], (0.5,))
    with pytest.raises(GradError, match="changed in place"):
        y.backward()


def test_content_stays_when_the_tensor_changes(place: Device) -> None:
    x = fw.tensor([1.0, 2.0], device=place)
    view, before = x.detach(), snapshot(x)
    x.mul_(2)
    assert (view.tolist(), before.tolist()) == ([2, 4], [1, 2])
