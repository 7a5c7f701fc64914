"""Variance, standard deviation and norms: corrections, edges, gradients at 0."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import as_in_torch
from vkbackend.framework import ops

Make = Callable[..., fw.Tensor]
INF = np.inf


def test_nothing_cancels(make: Make) -> None:
    data = np.random.default_rng(0).standard_normal((3, 10_007)) + 1000
    x = make(data.astype(np.float32))
    wanted = x.numpy().astype(np.float64).var(1, ddof=1)
    np.testing.assert_allclose(ops.var(x, 1).numpy(), wanted, rtol=1e-5)
    np.testing.assert_allclose(ops.std(x, 1).numpy(), wanted**0.5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:var:UserWarning")
@pytest.mark.parametrize("correction", [0, 1, 2, 5])
def test_more_correction_than_elements(correction: int, make: Make) -> None:
    data = np.array([[1, 2], [3, 3]], np.float32)
    wanted = torch.var(torch.from_numpy(data), 1, correction=correction)
    assert_close(ops.var(make(data), 1, correction=correction), wanted.numpy())


def test_no_elements(make: Make) -> None:
    x = make(np.zeros((0, 3), np.float32))
    assert np.isnan(ops.var(x).item())
    assert ops.std(x, 1).shape == (0,)
    assert ops.norm(x).item() == 0
    assert np.isnan(ops.var(make(2.0)).item())


def test_gradient_is_0_where_elements_are_the_same(make: Make) -> None:
    x = make([[2.0, 2.0], [1.0, 3.0]], grad=True)
    ops.std(x, 1, correction=0).sum().backward()
    assert x.grad.tolist() == [[0, 0], [-0.5, 0.5]]


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, INF])
def test_norm_of_zeros_has_no_slope(p: float, make: Make) -> None:
    x = make([[0.0, 0.0], [3.0, 0.0]], grad=True)
    ops.norm(x, p, 1).sum().backward()
    assert_close(x.grad, np.array([[0, 0], [p > 0, 0]], np.float32))


@pytest.mark.parametrize("p", [0, 1, 2, 2.5, INF, -INF])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_norms(p: float, dtype: str, make: Make) -> None:
    data = np.random.default_rng(0).uniform(-2, 2, (3, 700)).astype(dtype)
    data[0, 5] = 0
    wanted = torch.linalg.vector_norm(torch.from_numpy(data), p, 1)
    assert_close(ops.norm(make(data), p, 1), wanted.numpy(), scale=10)


def test_squares_beyond_float16(make: Make) -> None:
    x = make(np.full(100, 1000, np.float16))
    assert ops.norm(x).item() == 10_000
    assert ops.var(x).item() == 0


def test_names_of_the_norm(make: Make) -> None:
    x = make([[3.0, 4.0]])
    assert ops.norm(x).item() == ops.norm(x, "fro").item() == 5


@pytest.mark.parametrize("name", ["var_mean", "std_mean"])
def test_with_the_mean(name: str, make: Make) -> None:
    data = np.array([[1, 2, 4], [0.5, 3, -1]], np.float32)
    x, other = make(data, grad=True), torch.tensor(data, requires_grad=True)
    found = getattr(ops, name)(x, 1, correction=0, keepdim=True)
    expected = getattr(torch, name)(other, 1, correction=0, keepdim=True)
    for mine, wanted in zip(found, expected, strict=True):
        assert_close(mine, wanted.detach().numpy())
    (found[0] * found[1]).sum().backward()
    (expected[0] * expected[1]).sum().backward()
    assert other.grad is not None
    assert_close(x.grad, other.grad.numpy())


@pytest.mark.parametrize("dim", [0, -1])
def test_cosine_similarity(dim: int, make: Make) -> None:
    as_in_torch(
        make,
        lambda x, y: ops.cosine_similarity(x, y, dim),
        lambda x, y: torch.nn.functional.cosine_similarity(x, y, dim),
        (3, 1, 5),
        (3, 4, 5),
    )
