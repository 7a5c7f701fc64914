"""Tensors like another one, beside PyTorch's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import CPU, GpuDevice

CALLS: list[Callable[[Any, Any], Any]] = [
    lambda t, x: x.new_tensor([1.5, 2]),
    lambda t, x: x.new_tensor([1.5], dtype=t.float32, requires_grad=True).detach(),
    lambda t, x: x.new_full((2,), 3, layout=t.strided),
    lambda t, x: x.new_zeros(2, 3, dtype=t.bool),
    lambda t, x: x.new_ones((2,), device="cpu", pin_memory=False),
    lambda t, x: x.new_empty(2, 2).fill_(1),
    lambda t, x: x.new_empty_strided((2, 2), (1, 2)).fill_(1),
]


@pytest.mark.parametrize("call", CALLS)
def test_as_pytorch(call: Callable[[Any, Any], Any]) -> None:
    ours = call(fw, fw.tensor([1], dtype=fw.int16))
    theirs = call(torch, torch.tensor([1], dtype=torch.int16))
    assert str(ours.dtype) == str(theirs.dtype)
    assert ours.tolist() == theirs.tolist()
    assert ours.stride() == theirs.stride()


@pytest.mark.core
def test_devices(gpu: GpuDevice) -> None:
    x = fw.ones(2, device=gpu)
    assert x.new_zeros(1).device is x.new_tensor([1]).device is gpu
    assert x.new_empty(1).device is gpu
    assert x.new_ones(1, device="cpu").device is CPU
