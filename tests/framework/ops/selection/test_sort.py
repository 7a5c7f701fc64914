"""Sorting: order of equals and NaN, long rows, parts of the order, searching."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.ops.selection import sort

Make = Callable[..., fw.Tensor]
NAN, INF = np.nan, np.inf


def torch_sort(data: np.ndarray, dim: int, descending: bool) -> Any:
    """Return PyTorch's stable order."""
    given = torch.from_numpy(data)
    return torch.sort(given, dim=dim, descending=descending, stable=True)


def check(x: fw.Tensor, data: np.ndarray, dim: int, descending: bool) -> None:
    found, wanted = ops.sort(x, dim, descending), torch_sort(data, dim, descending)
    assert_close(found.values, wanted.values.numpy(), exact=True)
    assert_close(found.indices, wanted.indices.numpy())


@pytest.mark.parametrize("descending", [False, True])
def test_special_values(descending: bool, make: Make) -> None:
    row = [3, NAN, -0.0, INF, 0.0, -INF, NAN, 3, -0.0]
    data = np.array([row, row[::-1]], np.float32)
    check(make(data), data, 1, descending)
    found = ops.sort(make(data), 1, descending).values.numpy()
    assert np.signbit(found).sum() == 6


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((10_007,), 0), ((3, 1500), 1), ((700, 3), 0), ((70_001, 3), 1), ((2, 257, 2), 1)],
)
def test_sizes(shape: tuple[int, ...], dim: int, descending: bool, make: Make) -> None:
    # Few different numbers, so that the order of equal ones shows.
    data = np.random.default_rng(0).integers(-99, 99, shape).astype(np.float32)
    check(make(data), data, dim, descending)


@pytest.mark.parametrize(
    ("shape", "order", "dim"),
    [((30, 200), (1, 0), 0), ((3, 5, 200), (2, 1, 0), 0), ((2, 200, 5), (0, 1, 2), 1)],
)
def test_lines_that_are_rows_in_memory_or_are_copied_to_rows(
    shape: tuple[int, ...],
    order: tuple[int, ...],
    dim: int,
    quads: GpuDevice,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results are in memory as PyTorch's."""
    monkeypatch.setattr(sort, "LEAST_MOVED", 1)
    data = np.random.default_rng(0).integers(-99, 99, shape).astype(np.float32)
    x = fw.tensor(data, device=quads, requires_grad=True)
    twin = torch.from_numpy(data).requires_grad_()
    found = ops.sort(ops.permute(x, order), dim)
    wanted = torch.sort(twin.permute(order), dim=dim, stable=True)
    assert_close(found.values, wanted.values.detach().numpy(), exact=True)
    assert_close(found.indices, wanted.indices.numpy())
    assert found.indices.stride() == wanted.indices.stride()
    scale = np.random.default_rng(1).random(data.size).astype(np.float32)
    scale = scale.reshape(wanted.values.shape)
    (found.values * fw.tensor(scale, device=quads)).sum().backward()
    (wanted.values * torch.from_numpy(scale)).sum().backward()
    assert_close(x.grad, twin.grad.numpy())


@pytest.mark.parametrize("k", [0, 1, 3, 40, 1000])
@pytest.mark.parametrize("largest", [False, True])
def test_topk(k: int, largest: bool, make: Make) -> None:
    data = np.random.default_rng(0).permutation(3003).astype(np.float32).reshape(3, -1)
    x = make(data, grad=True)
    found = ops.topk(x, k, 1, largest)
    twin = torch.from_numpy(data).requires_grad_()
    wanted = torch.topk(twin, k, 1, largest)
    assert_close(found.values, wanted.values.detach().numpy())
    assert_close(found.indices, wanted.indices.numpy())
    found.values.sum().backward()
    wanted.values.sum().backward()
    assert_close(x.grad, twin.grad.numpy())


@pytest.mark.parametrize("keepdim", [False, True])
def test_kthvalue(keepdim: bool, make: Make) -> None:
    data = np.random.default_rng(0).permutation(77).astype(np.float32).reshape(7, 11)
    for k, dim in ((1, 0), (7, 0), (4, 1)):
        found = ops.kthvalue(make(data), k, dim, keepdim)
        values, places = torch.kthvalue(torch.from_numpy(data), k, dim, keepdim)
        assert_close(found.values, values.numpy())
        assert_close(found.indices, places.numpy())


@pytest.mark.parametrize("count", [1, 4, 5])
def test_median(count: int, make: Make) -> None:
    data = np.random.default_rng(0).permutation(3 * count).reshape(3, count)
    data = data.astype(np.float32)
    if count == 5:
        data[1, 2] = NAN
    found, wanted = ops.median(make(data), 1), torch.median(torch.from_numpy(data), 1)
    assert isinstance(found, tuple)
    assert_close(found[0], wanted.values.numpy())
    assert_close(found[1], wanted.indices.numpy())
    whole = ops.median(make(data))
    assert isinstance(whole, fw.Tensor)
    assert_close(whole, torch.median(torch.from_numpy(data)).numpy())


def test_of_one_number_or_none(make: Make) -> None:
    assert [each.item() for each in ops.sort(make(3.0))] == [3, 0]
    assert [each.item() for each in ops.kthvalue(make(3.0), 1)] == [3, 0]
    assert ops.topk(make(3.0), 0).values.shape == (0,)
    empty = make(np.zeros((2, 0), np.float32), grad=True)
    ops.sort(empty).values.sum().backward()
    assert empty.grad.shape == (2, 0)
    assert ops.argsort(empty).shape == (2, 0)


def test_argsort(make: Make) -> None:
    x = make(np.array([2, 1, 2, 0], np.uint8))
    assert ops.argsort(x).tolist() == [3, 1, 0, 2]
    assert ops.argsort(x, descending=True).tolist() == [0, 2, 1, 3]


@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right: bool, make: Make) -> None:
    steps = np.array([1, 3, 3, 5, INF, NAN], np.float32)
    sought = np.array([[0, 1, 3], [4, INF, NAN]], np.float32)
    found = ops.searchsorted(make(steps), make(sought), right=right)
    side = "right" if right else "left"
    wanted = np.searchsorted(steps, sought, side).astype(np.int64)
    wanted[1, 2] = 6  # NaN comes behind NaN, as in PyTorch
    assert_close(found, wanted)
    assert ops.searchsorted(make(steps), 3, right=right).item() == (3 if right else 1)
    assert_close(ops.bucketize(make(sought), make(steps), right=right), found.numpy())
    assert ops.searchsorted(make(steps[:0]), make(sought)).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_in_numpys_words(side: Any, make: Make) -> None:
    data, values = np.array([[3, 1, 2, 2], [2, 0, 9, 4]], np.float32)
    order = np.argsort(data)
    found = ops.searchsorted(
        make(data),
        make(values),
        side=side,
        sorter=make(order.astype(np.int32)),
    )
    assert found.tolist() == np.searchsorted(data, values, side, order).tolist()


def test_searchsorted_of_contradictions() -> None:
    x = fw.ones(3)
    with pytest.raises(ShapeError) as raised:
        ops.searchsorted(x, x, right=True, side="left")
    assert str(raised.value) == (
        "searchsorted: side is 'left' and right True; side must be None, \"left\" or"
        ' "right", and "left" goes with right=False'
    )
    with pytest.raises(ShapeError) as raised:
        ops.searchsorted(x, x, sorter=fw.arange(2))
    assert str(raised.value) == (
        "searchsorted: sorter is (2,), sorted_sequence (3,); they must be the same"
    )


@pytest.mark.parametrize("values", [[2, 2, 1, 2, 3], [0, 0], [NAN, 1, NAN], [4.0]])
def test_equal_elements_share_the_gradient_of_their_median(
    values: list[float], place: Device
) -> None:
    x = fw.tensor(np.array(values, np.float32), device=place, requires_grad=True)
    its = torch.tensor(values, dtype=torch.float32, requires_grad=True)
    ops.median(x).backward()
    its.median().backward()
    assert x.grad is not None
    assert its.grad is not None
    assert x.grad.tolist() == its.grad.tolist()
