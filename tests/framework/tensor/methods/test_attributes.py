"""What tensors tell of themselves, beside PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.command.transfer import Transfer
from vkbackend.framework.base.device import GpuDevice, opened_devices
from vkbackend.framework.base.errors import DTypeError, ShapeError

ATTRIBUTES = (
    *("is_cuda", "is_cpu", "is_sparse", "is_meta", "is_quantized", "itemsize"),
    *("nbytes", "ndim", "is_leaf", "shape"),
)
METHODS = (
    *("stride", "storage_offset", "dim_order", "ndimension", "nelement", "numel"),
    *("element_size", "get_device", "is_complex", "is_conj", "is_signed", "is_pinned"),
    *("is_shared", "is_floating_point", "is_contiguous", "dim", "size", "type"),
    *("is_inference", "is_neg"),
)
TENSORS: list[Callable[[Any], Any]] = [
    lambda t: t.zeros(2, 3, 4),
    lambda t: t.zeros(2, 3, 4).transpose(0, 2)[1:],
    lambda t: t.zeros((), dtype=t.int16),
    lambda t: t.empty_strided((2, 3), (1, 2), dtype=t.uint8),
    lambda t: t.zeros(2, 0),
]


@pytest.mark.parametrize("make", TENSORS)
def test_as_pytorch(make: Callable[[Any], Any]) -> None:
    ours, theirs = make(fw), make(torch)
    for name in ATTRIBUTES:
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in METHODS:
        assert getattr(ours, name)() == getattr(theirs, name)(), name
    assert ours.layout == fw.strided
    assert repr(ours.size()) == repr(theirs.size())


def test_memory_formats() -> None:
    for library in (fw, torch):
        x = library.zeros(2, 3, 4, 5)
        last = library.channels_last
        assert not x.is_contiguous(memory_format=last)
        assert (
            x.permute(0, 2, 3, 1)
            .contiguous()
            .permute(0, 3, 1, 2)
            .is_contiguous(memory_format=last)
        )
        assert x.contiguous(memory_format=last).shape == x.shape
        assert x.clone(memory_format=library.preserve_format).shape == x.shape


def test_real_numbers() -> None:
    x = fw.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.real is x.conj() is x.resolve_conj() is x
    assert x.H.tolist() == x.mH.tolist() == x.T.tolist()
    with pytest.raises(DTypeError, match=r"^imag: the tensor is float32"):
        x.imag  # noqa: B018
    with pytest.raises(ShapeError, match=r"^H: the tensor is 1-D; it must be 2-D"):
        x[0].H  # noqa: B018


def test_is_nonzero() -> None:
    assert fw.tensor([2]).is_nonzero()
    assert not fw.tensor(0.0).is_nonzero()
    with pytest.raises(ShapeError, match=r"^is_nonzero: the tensor has shape \(2,\)"):
        fw.ones(2).is_nonzero()


def test_functions_of_elements() -> None:
    for library in (fw, torch):
        x = library.tensor([1.0, 2.0])
        assert x.apply_(lambda each: each + 1).tolist() == [2.0, 3.0]
        assert x.map_(x, lambda one, other: one * other).tolist() == [4.0, 9.0]


@pytest.mark.core
def test_on_a_device(gpu: GpuDevice) -> None:
    x = fw.ones(2, device=gpu)
    assert (x.is_cpu, x.is_vulkan, x.get_device()) == (False, True, gpu.index)
    with pytest.raises(TypeError, match=r"^apply_: a tensor is on vulkan"):
        x.apply_(abs)
    with pytest.raises(NotImplementedError, match=r"^share_memory_: tensors cannot"):
        x.share_memory_()
    assert x.is_set_to(x.detach())


def test_pinned_memory(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is on the host, where a card is in use, as the device is said to be."""
    if not gpu.gpu.transfer._results.imports:
        pytest.skip("the driver imports no host memory")
    x = fw.arange(60_000, dtype=fw.float32).reshape(200, 300)
    if not any(each.gpu.transfer.pins for each in opened_devices()):
        assert x.pin_memory() is x
    monkeypatch.setattr(Transfer, "pins", property(lambda self: self._results.imports))
    for each in (x, x.T, x.to(fw.bfloat16), x.to(fw.int64)[3:7, ::2]):
        assert not each.is_pinned()
        pinned = each.pin_memory()
        assert pinned.is_pinned()
        assert pinned.pin_memory() is pinned
        assert pinned.dtype is each.dtype
        np.testing.assert_array_equal(pinned.numpy(), each.numpy())
        there = pinned.to(gpu)
        np.testing.assert_array_equal(there.numpy(), each.numpy())
        assert there.pin_memory() is there
        assert not there.is_pinned()
    weight, nothing = fw.ones(3, requires_grad=True), fw.ones(0)
    assert weight.pin_memory() is weight
    assert nothing.pin_memory() is nothing
