"""Running sums and products: chunks and carries, both ways, dtypes, zeros."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import as_in_torch
from vkbackend.framework import ops
from vkbackend.framework.dispatch.op import REGISTRY
from vkbackend.framework.ops.reduce.common import whole_dtype

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("shape", [(300_007,), (2, 40_009), (40_009, 2), (70_001, 3)])
@pytest.mark.parametrize("reverse", [False, True])
def test_long(shape: tuple[int, ...], reverse: bool, make: Make) -> None:
    data = np.random.default_rng(0).integers(-9, 9, shape).astype(np.int32)
    at = int(np.argmax(shape))
    rows = make(data).reshape((*shape[:at], shape[at], -1))
    rows = rows.reshape((-1, shape[at], data.size // shape[at] if at == 0 else 1))
    found = REGISTRY["cumsum"](rows, reverse).reshape(shape)
    wanted = np.flip(np.flip(data, at).cumsum(at), at) if reverse else data.cumsum(at)
    assert_close(found, wanted.astype(np.int32))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32"])
def test_integers_are_added_as_whole_numbers(dtype: str, make: Make) -> None:
    data = np.ones((2, 9001), dtype) if dtype == "bool" else np.full((2, 9001), 100)
    data = data.astype(dtype)
    found = ops.cumsum(make(data), 1)
    assert found.dtype is whole_dtype(found)
    wanted = data.astype(np.int64).cumsum(1)
    assert_close(found, wanted.astype(found.dtype.name))
    assert ops.cumsum(make(data), 1, dtype="float32").dtype is fw.float32


def test_half_floats_are_added_in_float32(make: Make) -> None:
    found = ops.cumsum(make(np.ones(9001, np.float16)), 0)
    assert_close(found, np.arange(1, 9002).astype(np.float16))


def test_of_one_number_or_none(make: Make) -> None:
    assert ops.cumsum(make(3.0), 0).item() == 3
    empty = make(np.zeros((0, 2), np.float32), grad=True)
    ops.cumprod(empty, 0).sum().backward()
    assert empty.grad.shape == (0, 2)


def test_gradient_of_products_with_zeros(make: Make) -> None:
    x = make([2.0, 0.0, 3.0, 0.0, 5.0], grad=True)
    ops.cumprod(x, 0).sum().backward()
    assert x.grad.tolist() == [1, 8, 0, 0, 0]


@pytest.mark.parametrize("dim", [0, 1])
def test_second_gradient_of_products_with_zeros(dim: int, make: Make) -> None:
    rng = np.random.default_rng(0)
    values = rng.uniform(0.5, 2, (5, 4)).astype(np.float32)
    values[[1, 3, 0, 2], [0, 0, 1, 1]] = 0
    values[2, 3] = 0
    weights = rng.uniform(0.5, 2, (5, 4)).astype(np.float32)
    theirs, mine = torch.tensor(values, requires_grad=True), make(values, grad=True)
    seed, own_seed = torch.tensor(weights, requires_grad=True), make(weights, grad=True)
    wanted = torch.autograd.grad(theirs.cumprod(dim), theirs, seed, create_graph=True)
    found = fw.autograd.grad(mine.cumprod(dim), mine, own_seed, create_graph=True)
    assert_close(found[0].detach(), wanted[0].detach().numpy())
    wanted = torch.autograd.grad((wanted[0] * seed).sum(), [theirs, seed])
    found = fw.autograd.grad((found[0] * own_seed).sum(), [mine, own_seed])
    for one, two in zip(found, wanted, strict=True):
        assert_close(one, two.numpy(), scale=10)


@pytest.mark.parametrize(("n", "dim"), [(0, 0), (1, -1), (2, 1), (9, 0)])
def test_diff(n: int, dim: int, make: Make) -> None:
    as_in_torch(
        make, lambda x: ops.diff(x, n, dim), lambda x: torch.diff(x, n, dim), (3, 5)
    )
    truth = np.array([[True, False, False], [True, True, False]])
    if dim < 2 and n < 3:
        assert_close(ops.diff(make(truth), n, dim), np.diff(truth, n, dim))
