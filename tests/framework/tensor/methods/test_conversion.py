"""Moves and casts in the forms that PyTorch takes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend import NoVulkanError
from vkbackend.framework.base.device import CPU, GpuDevice

FORMS: list[Callable[[Any, Any], Any]] = [
    lambda t, x: x.to(t.float64),
    lambda t, x: x.to("cpu"),
    lambda t, x: x.to("cpu", t.float16),
    lambda t, x: x.to(t.device("cpu"), t.int64, True),
    lambda t, x: x.to(t.zeros(1, dtype=t.int16)),
    lambda t, x: x.to(tensor=t.zeros(1, dtype=t.int16)),
    lambda t, x: x.to(dtype=t.bool, non_blocking=True),
    lambda t, x: x.to(device="cpu", dtype=t.half, copy=True),
    lambda t, x: x.to(t.float64, False, True),
    lambda t, x: x.to(memory_format=t.preserve_format),
    lambda t, x: x.type(t.int32),
    lambda t, x: x.type("torch.DoubleTensor"),
    lambda t, x: x.type_as(t.zeros(1, dtype=t.uint8)),
    lambda t, x: x.cpu().long(),
    lambda t, x: x.bool(),
]


@pytest.mark.parametrize("form", FORMS)
def test_as_pytorch(form: Callable[[Any, Any], Any]) -> None:
    ours = form(fw, fw.tensor([1.5, 0.0]))
    theirs = form(torch, torch.tensor([1.5, 0.0]))
    assert str(ours.dtype) == str(theirs.dtype)
    assert ours.tolist() == theirs.tolist()


def test_itself_where_nothing_changes() -> None:
    x = fw.ones(2)
    assert x.to("cpu", fw.float32) is x.to(x) is x.float() is x.cpu() is x.to() is x
    copied = x.to("cpu", copy=True)
    assert copied is not x
    copied += 1
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.core
def test_devices(gpu: GpuDevice) -> None:
    x = fw.ones(2, dtype=fw.int32, requires_grad=False)
    there = x.to(gpu, fw.float32, non_blocking=True)
    assert (there.device, there.dtype) == (gpu, fw.float32)
    assert x.to(str(gpu)).device is x.to(there).device is gpu
    assert there.to(x).device is CPU
    with pytest.raises(NoVulkanError, match=r"^device: 'cuda' is no device of this"):
        x.cuda()
    with pytest.raises(TypeError, match=r"^to: 5 arguments are given"):
        x.to("cpu", fw.float32, True, True, True)
