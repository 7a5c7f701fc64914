"""Primitives: what their kernels may rely on, and what they refuse."""

import dataclasses

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import DTypeError, ShapeError
from vkbackend.framework.dispatch.op import REGISTRY


@pytest.mark.core
@pytest.mark.parametrize(
    ("dtype", "feature"),
    [
        ("int64", "shader_int64"),
        ("uint64", "shader_int64"),
        ("float64", "shader_float64"),
    ],
)
def test_dtype_that_a_device_lacks(
    dtype: str, feature: str, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = gpu.gpu.info
    reduced = dataclasses.replace(info, supported=info.supported - {feature})
    monkeypatch.setattr(gpu.gpu, "info", reduced)
    # Storage needs no feature.
    x = fw.tensor(np.arange(3).astype(dtype), device=gpu)
    assert x.tolist() == [0, 1, 2]
    text = (
        f"{{}}: {gpu.name} has no {feature}, which {dtype} needs; use a 32-bit dtype"
        " there, or the cpu device"
    )
    for name, call in {
        "add": lambda: x + 1,
        "eq": lambda: x == x,
        "copy": lambda: x.clone(),
        "cast": lambda: x.float(),
        "fill_like": lambda: fw.zeros_like(x),
    }.items():
        with pytest.raises(DTypeError) as raised:
            call()
        assert str(raised.value) == text.format(name)
    assert gpu.pending == []
    assert x.cpu().tolist() == [0, 1, 2]


@pytest.mark.core
def test_dtype_that_a_kernel_lacks(gpu: GpuDevice) -> None:
    logits = fw.tensor(np.ones((2, 2), np.float64), device=gpu)
    labels = fw.zeros(2, "int32", gpu)
    fw.eval()
    with pytest.raises(DTypeError) as raised:
        REGISTRY["cross_entropy_rows"](logits, labels, -100, 0.0)
    assert str(raised.value) == (
        f"cross_entropy_rows: `logits` is float64, which the kernel for {gpu.name} does"
        " not take; accepted there: float16, bfloat16, float32"
    )
    assert gpu.pending == []


@pytest.mark.core
def test_loops_too_long_are_refused_when_called(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    software = dataclasses.replace(gpu.gpu.info, kind="software")
    monkeypatch.setattr(gpu.gpu, "info", software)
    x = fw.zeros((1, 1, 401, 401), device=gpu)
    with pytest.raises(ShapeError, match=r"^adaptive_max_pool2d: .* 40804 rounds"):
        ops.adaptive_max_pool2d(x, 2)
    assert x.sum().item() == 0


@pytest.mark.core
def test_kernels_that_need_alignment_get_it(gpu: GpuDevice) -> None:
    data = np.random.default_rng(0).standard_normal((5, 3, 4, 4)).astype(np.float32)
    weight = np.ones((2, 3, 3, 3), np.float32)
    # Starts 192 and 12 bytes into the storage.
    for x in (fw.tensor(data, device=gpu)[1:], fw.tensor(data, device=gpu)[..., 3:]):
        filters = fw.tensor(weight, device=gpu)
        found = ops.conv2d(x, filters, padding=1)
        expected = ops.conv2d(x.cpu(), filters.cpu(), padding=1)
        assert_close(found, expected.numpy(), scale=10)  # sums of 27 terms
