"""Softmax and logarithms of sums of exponentials: long rows, infinities, registers."""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.ops.twin import as_in_torch, draw
from tests.hardware import skip_where_it_crashes
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice

Make = Callable[..., fw.Tensor]
NAN, INF = np.nan, np.inf
SPECIAL = [[1, NAN, 2], [INF, 0, 1], [-INF, 0, 1], [-INF, -INF, -INF], [90, 0, -90]]


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_special_values(name: str, make: Make) -> None:
    data = np.array(SPECIAL, np.float32)
    wanted = getattr(torch, name)(torch.from_numpy(data), 1)
    assert_close(getattr(ops, name)(make(data), 1), wanted.numpy())


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
@pytest.mark.parametrize(
    ("shape", "dim"),
    [((3, 20_011), 1), ((20_011, 3), 0), ((70_001, 5), 1), ((2, 9), 0)],
)
def test_sizes(name: str, shape: tuple[int, ...], dim: int, make: Make) -> None:
    data = np.random.default_rng(0).uniform(-5, 5, shape).astype(np.float32)
    wanted = getattr(torch, name)(torch.from_numpy(data).double(), dim)
    found = getattr(ops, name)(make(data), dim)
    assert_close(found, wanted.numpy().astype(np.float32), scale=4)


# What a GPU runs, on whatever device there is.
@pytest.mark.core
@pytest.mark.parametrize("count", [1, 3, 64, 700, 4096, 9001])
@pytest.mark.parametrize("inner", [1, 5])
def test_rows_in_registers(
    count: int, inner: int, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    info = dataclasses.replace(gpu.gpu.info, kind="discrete")
    monkeypatch.setattr(gpu.gpu, "info", info)
    monkeypatch.setattr(gpu, "plans", OrderedDict())
    data = np.random.default_rng(0).uniform(-5, 5, (3, count, inner)).astype(np.float32)
    for name in ("softmax", "log_softmax"):
        x = fw.tensor(data, device=gpu, requires_grad=True)
        twin = torch.from_numpy(data).double().requires_grad_()
        out, wanted = getattr(ops, name)(x, 1), getattr(torch, name)(twin, 1)
        assert_close(out, wanted.detach().numpy().astype(np.float32), scale=4)
        out.backward(out.detach() * x.detach())
        wanted.backward(wanted.detach() * twin.detach())
        # Sums of up to nine thousand logarithms of size 10.
        expected = twin.grad.numpy().astype(np.float32)
        scale = 20 if name == "softmax" else 10 * count**0.5
        assert_close(x.grad, expected, scale=scale)


def test_of_nothing(make: Make) -> None:
    empty = make(np.zeros((2, 0), np.float32), grad=True)
    out = ops.logsumexp(empty, 1)
    assert out.tolist() == [-INF, -INF]
    ops.softmax(empty, 1).sum().backward()
    assert empty.grad.shape == (2, 0)


def test_dtype_is_cast_to_first(make: Make) -> None:
    x = make(np.array([1, 2], np.float16))
    assert ops.softmax(x, 0, dtype="float32").dtype is fw.float32
    assert ops.log_softmax(x, 0).dtype is fw.float16


def test_gradient_of_minus_infinity_is_0(make: Make) -> None:
    x = make([[-INF, -INF], [-INF, 1.0]], grad=True)
    ops.logsumexp(x, 1).sum().backward()
    assert x.grad.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("shape", [(5, 128), (2, 3, 1031), (9, 33), (40, 64)])
def test_quads_in_registers(
    name: str, shape: tuple[int, ...], registers: GpuDevice
) -> None:
    def make(data: object, grad: bool = False) -> fw.Tensor:
        return fw.tensor(data, device=registers, requires_grad=grad)

    ours, twin = getattr(ops, name), getattr(torch, name)
    as_in_torch(make, lambda x: ours(x, -1), lambda x: twin(x, -1), shape)
    half = make(draw(*shape).astype(np.float16))
    wanted = twin(torch.from_numpy(half.numpy()).float(), -1).half()
    assert_close(ours(half, -1), wanted.numpy())


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_results_without_elements_are_other_tensors(name: str, make: Make) -> None:
    x = make(np.zeros((2, 0), np.float32), grad=True) * 2
    out = getattr(ops, name)(x, 1)
    assert out is not x
    node = out.grad_fn
    assert node.name() == {"softmax": "Softmax", "log_softmax": "LogSoftmax"}[name] + (
        "Backward0"
    )
    assert [each.name() for each, _ in node.next_functions] == ["MulBackward0"]
