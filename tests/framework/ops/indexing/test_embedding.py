"""Embedding: shapes, dtypes of numbers, padding, numbers that are no row."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import as_in_torch, draw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice

Make = Callable[..., fw.Tensor]


@pytest.mark.parametrize("padding", [None, 2, -1])
@pytest.mark.parametrize("shape", [(7,), (2, 3), (), (500,), (0,), (3, 0)])
def test_is_as_in_torch(
    shape: tuple[int, ...], padding: int | None, make: Make
) -> None:
    index = np.asarray(np.random.default_rng(0).integers(0, 11, shape))
    as_in_torch(
        make,
        lambda weight: ops.embedding(make(index), weight, padding),
        lambda weight: F.embedding(torch.from_numpy(index), weight, padding),
        (11, 5),
    )


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "uint32", "int64"])
def test_dtypes_of_numbers(dtype: str, make: Make) -> None:
    weight, index = draw(5, 3), np.array([[4, 0], [2, 2]])
    found = ops.embedding(make(index.astype(dtype)), make(weight))
    assert_close(found, weight[index], exact=True)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_halves_are_summed_in_float32(dtype: str, make: Make) -> None:
    weight = make(np.zeros((3, 2), np.float32)).to(dtype).detach().requires_grad_()
    index = make(np.zeros(1000, np.int32))
    ops.embedding(index, weight).sum().backward()
    # One after the other, sums of halves would stop growing at 256.
    assert weight.grad.float().numpy().tolist() == [[1000, 1000], [0, 0], [0, 0]]


def test_numbers_that_are_no_row(gpu: GpuDevice, unchecked_indices: None) -> None:
    weight = fw.ones((4, 3), device=gpu, requires_grad=True)
    index = fw.tensor(np.array([-1, 4, 2, 1 << 40]), device=gpu)
    out = ops.embedding(index, weight)
    out.sum().backward()
    expected = np.full((4, 3), np.nan, np.float32)
    expected[2] = 1
    assert_close(out, expected, exact=True)
    assert weight.grad.numpy()[:, 0].tolist() == [0, 0, 1, 0]


def test_rows_are_one_dispatch(gpu: GpuDevice) -> None:
    weight, index = (fw.tensor(each, device=gpu) for each in (draw(8, 4), [3, 0, 7]))
    fw.eval(weight, index)
    before = gpu.gpu.counters.dispatches
    fw.eval(ops.embedding(index, weight))
    assert gpu.gpu.counters.dispatches == before + 1
