"""Max pooling as users call it, against PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.framework.ops.twin import Make, as_in_torch, draw
from vkbackend.framework import ops

WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7, 11), {"kernel_size": 2}),
    ((3, 9, 9), {"kernel_size": 3}),
    ((2, 3, 8, 8), {"kernel_size": 3, "stride": 2, "padding": 1}),
    (
        (2, 3, 8, 9),
        {"kernel_size": (3, 2), "stride": 2, "padding": (1, 0), "ceil_mode": True},
    ),
    (
        (2, 3, 9, 10),
        {
            "kernel_size": 3,
            "stride": (2, 4),
            "padding": 1,
            "dilation": 2,
            "ceil_mode": True,
        },
    ),
    # The last window would begin beyond the image, so there is none.
    ((1, 1, 6, 6), {"kernel_size": 2, "stride": 3, "ceil_mode": True}),
]


@pytest.mark.parametrize(("shape", "options"), WINDOWS)
def test_images(shape: tuple[int, ...], options: dict[str, Any], make: Make) -> None:
    as_in_torch(make, ops.max_pool2d, F.max_pool2d, shape, **options)


@pytest.mark.parametrize("shape", [(2, 3, 11), (3, 11)])
def test_signals(shape: tuple[int, ...], make: Make) -> None:
    options = {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}
    as_in_torch(make, ops.max_pool1d, F.max_pool1d, shape, **options)


@pytest.mark.parametrize("size", [1, (3, 4), (None, 5), (7, 11), (9, 13)])
def test_parts(size: Any, make: Make) -> None:
    options = {"output_size": size}
    as_in_torch(
        make, ops.adaptive_max_pool2d, F.adaptive_max_pool2d, (2, 3, 7, 11), **options
    )


def test_parts_of_signals(make: Make) -> None:
    as_in_torch(
        make,
        ops.adaptive_max_pool1d,
        F.adaptive_max_pool1d,
        (2, 3, 11),
        output_size=4,
    )


def test_indices(make: Make) -> None:
    x = draw(2, 3, 7, 9)
    found, places = ops.max_pool2d_with_indices(make(x), 3, stride=2, padding=1)
    wanted, where = F.max_pool2d(
        torch.from_numpy(x), 3, stride=2, padding=1, return_indices=True
    )
    assert np.array_equal(found.numpy(), wanted.numpy())
    assert np.array_equal(places.numpy(), where.numpy())


def test_second_derivative(make: Make) -> None:
    data = draw(1, 2, 5, 5)
    x = make(data, grad=True)
    (fw.ops.max_pool2d(x, 2, stride=1) ** 2).sum().backward(create_graph=True)
    first, x.grad = x.grad, None
    (first * first).sum().backward()
    twin = torch.tensor(data, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(
        (F.max_pool2d(twin, 2, stride=1) ** 2).sum(), twin, create_graph=True
    )
    (grad * grad).sum().backward()
    assert twin.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), twin.grad.numpy(), rtol=1e-5)
