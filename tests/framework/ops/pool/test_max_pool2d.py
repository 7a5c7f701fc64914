"""Max pooling: ties, special values, padding that never wins."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((1, 1, 4, 4)),
        np.full((1, 1, 4, 4), -np.inf),
        np.full((1, 1, 4, 4), -1.0),
        np.array([[[[np.nan, 1], [2, np.nan]]]]),
        np.arange(50).reshape(1, 2, 5, 5) % 7,
    ],
    ids=["equal", "minus infinity", "negative", "nan", "repeating"],
)
@pytest.mark.parametrize("padding", [0, 1])
def test_choice_is_as_in_torch(data: np.ndarray, padding: int, make: Make) -> None:
    data = data.astype(np.float32)
    x, twin = make(data, grad=True), torch.from_numpy(data).requires_grad_()
    found = ops.max_pool2d(x, 2, stride=1, padding=padding)
    wanted = F.max_pool2d(twin, 2, stride=1, padding=padding)
    assert_close(found, wanted.detach().numpy(), exact=True)
    weights = np.arange(found.numel(), dtype=np.float32).reshape(found.shape)
    found.backward(make(weights))
    wanted.backward(torch.from_numpy(weights))
    assert twin.grad is not None
    assert_close(x.grad, twin.grad.numpy(), exact=True)


def test_windows_that_overlap_add_up(make: Make) -> None:
    data = np.zeros((1, 1, 3, 3), np.float32)
    data[0, 0, 1, 1] = 1
    x = make(data, grad=True)
    ops.max_pool2d(x, 2, stride=1).sum().backward()
    assert x.grad.tolist() == [[[[0, 0, 0], [0, 4, 0], [0, 0, 0]]]]


@pytest.mark.parametrize("width", [12, 15])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (2, 5), "stride": 1, "padding": (1, 2)},
        {"kernel_size": 2, "stride": (1, 3)},
        {"kernel_size": 3, "stride": (2, 1), "dilation": (1, 2)},
        {"kernel_size": (3, 2), "stride": 5},
    ],
    ids=str,
)
def test_gradients_of_four_neighbours_are_as_in_torch(
    width: int, options: dict[str, Any], make: Make
) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(-9, 10, (2, 3, 9, width)).astype(np.float32)
    x, twin = make(data, grad=True), torch.from_numpy(data).requires_grad_()
    found, wanted = ops.max_pool2d(x, **options), F.max_pool2d(twin, **options)
    weights = rng.integers(-9, 10, tuple(found.shape)).astype(np.float32)
    found.backward(make(weights))
    wanted.backward(torch.from_numpy(weights))
    assert twin.grad is not None
    assert_close(x.grad, twin.grad.numpy(), exact=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_four_neighbours_in_16_bits(dtype: str, gpu: GpuDevice) -> None:
    """Small whole numbers, whose sums are exact."""
    rng = np.random.default_rng(0)
    data = rng.integers(-9, 10, (2, 3, 7, 8)).astype(np.float32)
    x, twin = fw.tensor(data, dtype, gpu), torch.from_numpy(data)
    x.requires_grad, twin.requires_grad = True, True
    options = {"kernel_size": 3, "stride": 2, "padding": 1}
    ops.max_pool2d(x, **options).sum().backward()
    F.max_pool2d(twin, **options).sum().backward()
    assert x.grad is not None
    assert twin.grad is not None
    np.testing.assert_array_equal(x.grad.float().numpy(), twin.grad.numpy())


def test_empty_batch(make: Make) -> None:
    x = make(np.zeros((0, 2, 4, 4), np.float32), grad=True)
    out = ops.max_pool2d(x, 2)
    assert out.shape == (0, 2, 2, 2)
    out.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize(
    "data",
    [
        np.zeros((1, 1, 5, 7)),
        np.full((1, 1, 5, 7), -np.inf),
        np.where(np.arange(35) % 3 == 0, np.nan, 1.0).reshape(1, 1, 5, 7),
        (np.arange(70) % 4).reshape(1, 2, 5, 7),
    ],
    ids=["equal", "minus infinity", "nan", "repeating"],
)
@pytest.mark.parametrize("size", [(2, 3), (4, 5), (8, 9)])
def test_choice_among_parts_is_as_in_torch(
    data: np.ndarray, size: tuple[int, int], make: Make
) -> None:
    data = data.astype(np.float32)
    x, twin = make(data, grad=True), torch.from_numpy(data).requires_grad_()
    found, wanted = ops.adaptive_max_pool2d(x, size), F.adaptive_max_pool2d(twin, size)
    assert_close(found, wanted.detach().numpy(), exact=True)
    weights = np.arange(found.numel(), dtype=np.float32).reshape(found.shape)
    found.backward(make(weights))
    wanted.backward(torch.from_numpy(weights))
    assert twin.grad is not None
    assert_close(x.grad, twin.grad.numpy(), exact=True)


def test_parts_of_equal_size_are_plain_windows(make: Make) -> None:
    x = make(np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4))
    found = ops.adaptive_max_pool2d(x, 2)
    assert found.tolist() == ops.max_pool2d(x, 2).tolist()
    assert isinstance(found, fw.Tensor)
