"""Sums and products: dtypes, zeros, long and wide inputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.agree import need
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import DTypeError
from vkbackend.framework.ops.reduce.common import whole_dtype

Make = Callable[..., fw.Tensor]
NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("shape", "dim"),
    [
        ((100_003,), 0),
        ((3, 50_021), 1),
        ((50_021, 3), 0),
        ((70_001, 3), 1),  # more rows than workgroups in one dimension
        ((3, 5, 7, 11, 2), (0, 2, 4)),
        ((3, 5, 7, 11, 2), (1, 3)),
        ((7, 1, 113), (0, 1)),
    ],
)
def test_sizes(shape: tuple[int, ...], dim: int, make: Make) -> None:
    data = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x = make(data)
    wanted = data.sum(dim, dtype=np.float64).astype(np.float32)
    # A sum of n terms of size 1 is of size sqrt(n), and so is its error.
    assert_close(ops.sum(x, dim), wanted, scale=max(10, data.size**0.5))
    assert_close(ops.amax(x, dim), data.max(dim))


@pytest.mark.parametrize("view", ["transposed", "stepped", "broadcast", "offset"])
@pytest.mark.parametrize("dim", [0, 1])
def test_views(view: str, dim: int, make: Make) -> None:
    x = make(np.random.default_rng(0).standard_normal((14, 15)).astype(np.float32))
    x = {
        "transposed": lambda: x.T,
        "stepped": lambda: x[1::3, ::2],
        "broadcast": lambda: x[:, :1].expand(14, 15),
        "offset": lambda: x[3:],
    }[view]()
    assert_close(x.sum(dim), x.numpy().sum(dim), scale=10)
    assert_close(x.argmin(dim), x.numpy().argmin(dim).astype(np.int64))


def test_mean(make: Make) -> None:
    data = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert_close(ops.mean(make(data)), data.mean())
    assert_close(ops.mean(make(data), (0, 2)), data.mean((0, 2)))
    assert_close(ops.mean(make(data), 1, keepdim=True), data.mean(1, keepdims=True))
    assert np.isnan(ops.mean(make(np.zeros((0,), np.float32))).item())
    x = make(data, grad=True)
    x.mean().backward()
    assert_close(x.grad, np.full((2, 3, 4), 1 / 24, np.float32))
    with pytest.raises(DTypeError) as raised:
        make(np.zeros(3, np.uint8)).mean()
    assert str(raised.value) == (
        "mean: `x` is uint8; it must be a float dtype; call x.float() first"
    )


def test_no_dimensions_to_reduce(make: Make) -> None:
    x = make(2.5, grad=True)
    assert (x.sum().item(), x.amax().item(), x.argmax().item()) == (2.5, 2.5, 0)
    x.sum().backward()
    assert x.grad.item() == 1
    y = make([1.0, 2.0])
    # As in PyTorch, none are all.
    assert (y.sum(()).item(), y.amax(()).item()) == (3, 2)
    assert y.any(()).tolist() == [True, True]


def test_integers_wrap(make: Make) -> None:
    data = np.full(5, 2**30, np.int32)
    assert ops.sum(make(data), dtype="int32").item() == data.sum(dtype=np.int32)


def test_long_integers_wrap(make: Make) -> None:
    if whole_dtype(make(0)) is fw.int32:
        pytest.skip("the device has no 64-bit integers")
    data = np.full((5, 3), 2**62, np.int64)
    assert_close(make(data).sum(0), data.sum(0))
    assert_close(ops.prod(make(data), 0), data.prod(0))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint32"])
def test_integers_are_summed_as_whole_numbers(dtype: str, make: Make) -> None:
    data = np.full((3, 9001), np.iinfo("int8" if dtype == "bool" else dtype).max)
    data = data.astype(dtype)
    for name in ("sum", "prod", "count_nonzero"):
        found = getattr(ops, name)(make(data), 1)
        wanted = getattr(np, name)(data.astype(np.int64), axis=1)
        # int64, or on a device without it int32, in which they wrap.
        assert found.dtype is whole_dtype(found)
        assert_close(found, wanted.astype(found.dtype.name))
    assert_close(ops.sum(make(data), 1, dtype="float32") > 0, np.ones(3, bool))


def test_half_floats_are_summed_in_float32(make: Make) -> None:
    x = make(np.full(5000, 1.0, np.float16))
    assert x.sum().item() == 5000
    assert x.mean().item() == 1
    assert ops.sum(x, dtype="float32").item() == 5000


def test_count_nonzero(make: Make) -> None:
    x = make(np.array([[0, NAN, 3], [0, -0.0, INF]], np.float32))
    assert ops.count_nonzero(x).item() == 3
    assert ops.count_nonzero(x, 1).tolist() == [2, 1]
    assert ops.count_nonzero(make(2.0)).item() == 1


def test_nansum(make: Make) -> None:
    x = make([[1.0, NAN], [NAN, NAN]], grad=True)
    assert ops.nansum(x, 1).tolist() == [1, 0]
    ops.nansum(x).backward()
    assert x.grad.tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("dim", [None, 0, 1, -1, (0, 2)])
@pytest.mark.parametrize("name", ["nansum", "nanmean"])
def test_rows_columns_and_all_without_nan(
    name: str, dim: Any, dtype: str, place: Device
) -> None:
    need(dtype, place)
    data = np.random.default_rng(0).integers(-9, 9, (3, 40, 70)).astype(dtype)
    data.flat[::7], data[1, :, 5], data[:, 2] = NAN, NAN, NAN
    x = fw.tensor(data, device=place, requires_grad=True)
    y = torch.tensor(data, requires_grad=True)
    for a, b in ((x, y), (x.mT, y.mT)):
        x.grad = y.grad = None
        found, right = getattr(ops, name)(a, dim), getattr(torch, name)(b, dim)
        assert_close(found, right.detach().numpy())
        found.sum().backward()
        right.sum().backward()
        assert x.grad is not None
        assert y.grad is not None
        assert_close(x.grad, y.grad.numpy())


def test_product_of_zeros(make: Make) -> None:
    x = make([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0], [2.0, 3.0, 4.0]], grad=True)
    ops.prod(x, 1).sum().backward()
    assert x.grad.tolist() == [[0, 6, 0], [0, 0, 0], [12, 8, 6]]


@pytest.mark.parametrize("dim", [None, 0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_gradients_of_products(dtype: str, dim: int | None, place: Device) -> None:
    """With no, one and several zeros; again where the gradient is recorded."""
    need(dtype, place)
    data = np.random.default_rng(0).uniform(0.9, 1.1, (3, 4, 30)).astype(dtype)
    data[1, 2, 3], data[2, 0, :2], data[0, 1, 5] = 0, 0, -0.0
    weights = np.arange(1, 91).reshape(3, 30).astype(dtype)
    for zeros in (data, np.where(data == 0, 1, data).astype(dtype)):
        x = fw.tensor(zeros, device=place, requires_grad=True)
        y = torch.tensor(zeros.astype("f8"), requires_grad=True)
        found, right = (t.prod() if dim is None else t.prod(dim) for t in (x, y))
        shape = right.shape
        grad = np.resize(weights / 90, shape).astype(dtype)
        found.backward(fw.tensor(grad, device=place), retain_graph=True)
        right.backward(torch.tensor(grad.astype("f8")))
        assert x.grad is not None
        assert y.grad is not None
        assert_close(x.grad, y.grad.numpy().astype(dtype), scale=20)  # many factors
        (again,) = fw.autograd.grad(
            found, x, fw.tensor(grad, device=place), create_graph=True
        )
        assert_close(again, y.grad.numpy().astype(dtype), scale=20)


@pytest.mark.parametrize(
    ("name", "value"),
    [("sum", 0), ("prod", 1), ("mean", NAN), ("nansum", 0), ("nanmean", NAN)],
)
def test_no_elements(name: str, value: float, make: Make) -> None:
    x = make(np.zeros((3, 0), np.float32), grad=True)
    out = getattr(ops, name)(x, 1)
    assert_close(out, np.full(3, value, np.float32))
    out.sum().backward()
    assert x.grad.shape == (3, 0)
    assert getattr(ops, name)(x, 0).shape == (0,)


@pytest.mark.core
def test_dimensions_that_alternate(gpu: GpuDevice) -> None:
    data = np.arange(2.0**10, dtype=np.float32).reshape((2,) * 10)
    x = fw.tensor(data, device=gpu, requires_grad=True)
    every_other = (0, 2, 4, 6, 8)
    out = x.sum(every_other)
    assert_close(out, data.sum(every_other))
    assert_close(ops.amax(x, every_other, True), data.max(every_other, keepdims=True))
    out.backward(fw.ones(out.shape, device=gpu) * 3)
    assert_close(x.grad, np.full_like(data, 3))


def test_nan_counts_nothing(make: Make) -> None:
    x = make([[1.0, NAN, 3.0], [NAN, NAN, NAN]], grad=True)
    out = ops.nanmean(x, 1)
    assert_close(out, np.array([2, NAN], np.float32))
    out[0].backward()
    assert x.grad[0].tolist() == [0.5, 0, 0.5]
    assert_close(
        ops.nanmean(make(np.array([1, 2], np.int32)), dtype="float32"), np.float32(1.5)
    )
    with pytest.raises(DTypeError, match="it must be a float dtype"):
        ops.nanmean(make(np.array([1, 2], np.int32)))
