"""Conversions of modules, in every form in which they are asked for."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.base.device import GpuDevice

FORMS: dict[str, tuple[Callable[[nn.Module], nn.Module], str]] = {
    "half": (lambda m: m.half(), "float16"),
    "double": (lambda m: m.double(), "float64"),
    "bfloat16": (lambda m: m.bfloat16(), "bfloat16"),
    "float": (lambda m: m.double().float(), "float32"),
    "type": (lambda m: m.type("float64"), "float64"),
    "dtype": (lambda m: m.to(fw.float16), "float16"),
    "name": (lambda m: m.to("float16", True), "float16"),
    "device and dtype": (lambda m: m.to("cpu", fw.float64), "float64"),
    "device alone": (lambda m: m.to(fw.device("cpu")), "float32"),
    "tensor": (lambda m: m.to(fw.zeros(1, dtype="float64")), "float64"),
    "keywords": (
        lambda m: m.to(device="cpu", dtype=fw.float64, non_blocking=True),
        "float64",
    ),
    "none": (lambda m: m.to(None, fw.float64), "float64"),
    "empty": (lambda m: m.to_empty(device="cpu"), "float32"),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    convert, dtype = FORMS[form]
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    weight = module[0].weight
    assert convert(module) is module
    assert module[0].weight is weight
    assert {each.dtype.name for each in module.parameters()} == {dtype}
    count = "float64" if form == "type" else "int64"
    buffers = [each.dtype.name for each in module.buffers()]
    assert buffers in ([dtype, dtype, "int64"], [dtype, dtype, count])


@pytest.mark.parametrize(
    "arguments", [[fw.int64], ["cpu", fw.int32], [3.5], ["cpu", "float64", "x"]]
)
def test_what_is_refused_changes_nothing(arguments: list[Any]) -> None:
    module = nn.Linear(2, 2)
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        module.to(*arguments)
    with pytest.raises(TypeError, match="unknown keywords size"):
        module.to(size=3)
    assert module.weight.dtype is fw.float32


def test_gradients_move_along(gpu: GpuDevice) -> None:
    module = nn.Linear(2, 2)
    module(fw.ones((1, 2))).sum().backward()
    module.to(gpu, "float16", non_blocking=True)
    assert module.weight.grad is not None
    assert module.weight.grad.device is gpu
    assert module.weight.grad.dtype is fw.float16


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_complex_modules() -> None:
    """They are cast by `to` alone, as in PyTorch; counters stay integers."""
    for library in (fw, torch):
        layer = library.nn.BatchNorm1d(2).to(library.complex64)
        assert layer.weight.dtype is layer.running_mean.dtype is library.complex64
        assert layer.num_batches_tracked.dtype is library.int64
        assert layer.double().weight.dtype is library.complex64
        assert layer.to(library.float64).weight.dtype is library.float64
