"""Tensors of data, beside PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import CPU, GpuDevice

DATA: list[Callable[[Any], Any]] = [
    lambda t: t.tensor([t.tensor(1.0), t.tensor(2.0)]),
    lambda t: t.tensor([t.tensor(1), 2]),
    lambda t: t.tensor(np.float64(1)),
    lambda t: t.tensor([[1, 2.0], [3, 4]]),
    lambda t: t.tensor([]),
    lambda t: t.tensor(True),
    lambda t: t.tensor(t.Size([2, 3])),
    lambda t: t.tensor([1.5], dtype=float),
    lambda t: t.as_tensor([1, 2], dtype=t.float64),
    lambda t: t.as_tensor(np.arange(3, dtype=np.int16)),
    lambda t: t.asarray([1.0, 2.0], dtype=t.half),
    lambda t: t.frombuffer(bytearray(b"abcd"), dtype=t.int16, offset=2),
    lambda t: t.frombuffer(bytearray(b"abcd"), dtype=t.uint8, count=2),
]


@pytest.mark.parametrize("make", DATA)
def test_as_pytorch(make: Callable[[Any], Any]) -> None:
    ours, theirs = make(fw), make(torch)
    assert str(ours.dtype) == str(theirs.dtype)
    assert ours.tolist() == theirs.tolist()


def test_as_tensor_is_the_tensor_itself() -> None:
    x = fw.ones(2, requires_grad=True)
    assert fw.as_tensor(x) is x
    assert fw.asarray(x) is x
    assert fw.asarray(x, copy=True) is not x
    assert fw.as_tensor(x, dtype=fw.float64).requires_grad
    with pytest.raises(ValueError, match=r"^asarray: copy is False, but a list"):
        fw.asarray([1.0], copy=False)


@pytest.mark.parametrize("data", [[[1, 2], [3]], [[1, 2], 3]])
def test_ragged_data_are_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="inhomogeneous"):
        fw.tensor(data)


@pytest.mark.core
def test_device_of_data(gpu: GpuDevice) -> None:
    x = fw.ones(2, device=gpu)
    assert fw.tensor(x).device is gpu
    assert fw.as_tensor([1.0]).device is CPU
    assert fw.as_tensor([1.0], device=gpu).device is gpu


def test_from_numpy_takes_arrays_only() -> None:
    with pytest.raises(TypeError, match=r"^from_numpy: a list is no NumPy array"):
        fw.from_numpy([1, 2])  # type: ignore[arg-type]


def test_dlpack_is_never_shared() -> None:
    source = np.ones(2, np.float32)
    assert fw.from_dlpack(ext_tensor=source, copy=True).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="the elements are copied; leave copy out"):
        fw.from_dlpack(source, copy=False)
