"""Regular tensors beside PyTorch's."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.hardware import as_hardware
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.errors import ShapeError

CALLS: list[Callable[[Any], Any]] = [
    lambda t: t.arange(end=5),
    lambda t: t.arange(2, 9, 3),
    lambda t: t.arange(0, 1, 0.25, dtype=t.float64),
    lambda t: t.linspace(0, 1, steps=5, layout=t.strided),
    lambda t: t.logspace(start=0, end=2, steps=3, base=2.0),
    lambda t: t.eye(2, 3, dtype=t.int64, pin_memory=False),
    lambda t: t.eye(2, out=t.ones(2, 2)),
    lambda t: t.arange(3.0, requires_grad=True).detach(),
]


@pytest.mark.parametrize("call", CALLS)
def test_as_pytorch(call: Callable[[Any], Any]) -> None:
    ours, theirs = call(fw), call(torch)
    assert str(ours.dtype) == str(theirs.dtype)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


def test_range_includes_its_end() -> None:
    assert fw.range(1, 3).tolist() == [1.0, 2.0, 3.0]
    assert fw.range(0, 1, 0.5).tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(ShapeError, match=r"^range: from 1 to 0 in steps of 1"):
        fw.range(1, 0)


def test_out_has_the_shape_of_the_result() -> None:
    with pytest.raises(ShapeError, match=r"^arange: out is \(2,\), the result \(3,\)"):
        fw.arange(3, out=fw.zeros(2))


FACTORIES = (
    *("empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint"),
    *("randn", "randperm", "zeros", "arange", "normal"),
)
KEYWORDS = {"dtype", "layout", "device", "requires_grad", "pin_memory", "out"}


@pytest.mark.parametrize("name", FACTORIES)
def test_keywords_of_factories(name: str) -> None:
    assert inspect.signature(getattr(fw, name)).parameters.keys() >= KEYWORDS


@pytest.mark.parametrize(
    "name", ["empty", "full", "ones", "rand", "randint", "randn", "zeros"]
)
def test_keywords_of_factories_like_others(name: str) -> None:
    keywords = KEYWORDS - {"out"} | {"memory_format", "input"}
    function = getattr(fw, f"{name}_like")
    assert inspect.signature(function).parameters.keys() >= keywords


LINES = [(-1, 1, 101), (0.3, 7.7, 58), (2, 100, 1000), (1, 0, 29), (5, 9, 1)]


@pytest.mark.parametrize(
    "name", ["float32", "float64", "float16", "bfloat16", "int64", "int8"]
)
def test_lines_have_the_bits_of_pytorch(name: str, place: Device) -> None:
    if name in ("float32", "float64") and place.is_gpu:
        pytest.skip("a software device may round in fma")
    for line in LINES:
        wanted = torch.linspace(*line, dtype=getattr(torch, name)).double()
        found = fw.linspace(*line, dtype=name, device=place).cpu().double()
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())


@pytest.mark.parametrize("line", [(-0.0, 1, 5), (-1, -0.0, 9), (1, -0.0, 8)])
def test_lines_have_the_zeros_of_pytorch(
    line: tuple[float, float, int], place: Device
) -> None:
    for name in ("float16", "bfloat16"):
        wanted = torch.linspace(*line, dtype=getattr(torch, name)).float()
        found = fw.linspace(*line, dtype=name, device=place).cpu().float()
        assert (np.signbit(found.numpy()) == np.signbit(wanted.numpy())).all()


def test_gpus_compute_lines_of_integers(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not gpu.gpu.info.shader_float64:
        pytest.skip("no float64")
    # Of these a device that does not fuse has the same.
    lines = [(0, 100, 11), (-7, 9, 17), (5, 2, 4), (3, 3, 1), (0, 9, 0), (7, -70, 100)]
    monkeypatch.setattr(gpu.gpu, "info", as_hardware(gpu.gpu.info, vendor_id=0x10DE))
    before = gpu.gpu.counters.snapshot()
    for line in lines:
        for name in ("int64", "int32", "int8"):
            wanted = torch.linspace(*line, dtype=getattr(torch, name))
            found = fw.linspace(*line, dtype=name, device=gpu)
            assert found.tolist() == wanted.tolist()
    assert (gpu.gpu.counters.snapshot() - before).uploads == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_powers_are_rounded_once(dtype: str, place: Device) -> None:
    exact = torch.logspace(4.3, 1.2, 7, dtype=torch.float64)
    found = fw.logspace(4.3, 1.2, 7, dtype=dtype, device=place)
    wanted = exact.to(getattr(torch, dtype)).float()
    assert found.float().tolist() == wanted.tolist()
    assert fw.logspace(4.3, 1.2, 1, dtype=dtype, device=place).item() == wanted[0]
