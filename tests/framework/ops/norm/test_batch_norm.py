"""Batch normalisation: running statistics, modes, and numbers that cancel."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import as_in_torch
from vkbackend.framework import ops

Make = Callable[..., fw.Tensor]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2, shape).astype(np.float32)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", [(7, 3), (5, 3, 4), (2, 3, 4, 5), (1, 3, 2, 2)])
def test_is_as_in_torch(
    shape: tuple[int, ...], affine: bool, training: bool, make: Make
) -> None:
    data = [draw(*shape), draw(3, seed=1), draw(3, seed=2)]
    inputs = [make(each, grad=True) for each in data]
    twins = [torch.from_numpy(each).double().requires_grad_() for each in data]
    running = [make(draw(3, seed=k)) for k in (3, 4)]
    twin_running = [torch.from_numpy(draw(3, seed=k)).double() for k in (3, 4)]
    extra, twin_extra = (inputs[1:], twins[1:]) if affine else ([], [])
    found = ops.batch_norm(
        inputs[0], *running, *extra, training=training, momentum=0.25, eps=1e-3
    )
    wanted = F.batch_norm(
        twins[0], *twin_running, *twin_extra, training=training, momentum=0.25, eps=1e-3
    )
    # Deviations from a mean, divided by their size.
    assert_close(found, wanted.detach().float().numpy(), scale=10)
    for one, other in zip(running, twin_running):
        assert_close(one, other.float().numpy(), scale=2)
    weights = draw(*shape, seed=5)
    found.backward(make(weights))
    wanted.backward(torch.from_numpy(weights).double())
    for one, twin in zip(inputs[: 3 if affine else 1], twins):
        assert twin.grad is not None
        assert_close(one.grad, twin.grad.float().numpy(), scale=20)


def test_large_mean_does_not_cancel(make: Make) -> None:
    # As a difference of squares, a variance of 1 beside 10^6 would be lost.
    data = np.random.default_rng(0).standard_normal((64, 2, 16)) + 1000.0
    x = make(data.astype(np.float32))
    mean, variance = ops.REGISTRY["batch_norm_moments"](x)
    exact = x.numpy().astype(np.float64)
    assert_close(mean, exact.mean((0, 2)).astype(np.float32))
    assert_close(variance, exact.var((0, 2)).astype(np.float32), scale=30)


def test_running_statistics_are_no_part_of_the_graph(make: Make) -> None:
    x, mean, var = make(draw(7, 3), grad=True), make(draw(3)), make(draw(3))
    ops.batch_norm(x, mean, var, training=True).sum().backward()
    assert not mean.requires_grad
    assert mean.array.version == var.array.version == 1
    ops.batch_norm(x, mean, var, training=False)
    assert mean.array.version == 1


@pytest.mark.parametrize(
    ("p", "dim"), [(2.0, 1), (1.0, -1), (3.0, (1, 2)), (float("inf"), 0)]
)
def test_normalize(p: float, dim: int | tuple[int, ...], make: Make) -> None:
    as_in_torch(
        make,
        lambda x: ops.normalize(x, p, dim),
        lambda x: F.normalize(x, p, dim),  # type: ignore[arg-type]
        (3, 5, 4),
    )


def test_normalize_of_zeros(make: Make) -> None:
    x = make(np.zeros((2, 3), np.float32), grad=True)
    out = ops.normalize(x)
    out.sum().backward()
    assert (out.detach().numpy() == 0).all()
    assert np.isfinite(x.grad.numpy()).all()
