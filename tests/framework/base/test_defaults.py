"""Defaults of factories: dtype and device."""

from collections.abc import Iterator

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import CPU, GpuDevice
from vkbackend.framework.base.errors import DTypeError, TraceError


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    fw.set_default_dtype(fw.float32)
    fw.set_default_device(None)


def test_dtype_of_what_has_none() -> None:
    whole = fw.tensor([1, 2])
    assert (whole / 2).dtype is fw.float32
    fw.set_default_dtype(fw.float64)
    assert fw.get_default_dtype() is fw.float64
    made = [fw.zeros(1), fw.tensor(1.0), fw.rand(1), fw.linspace(0, 1, 2), fw.eye(2)]
    made += [whole / 2, whole * 0.5, fw.full((1,), 0.5), fw.arange(1.0)]
    assert {each.dtype for each in made} == {fw.float64}
    assert (fw.ones(1, dtype=fw.float16) * 0.5).dtype is fw.float16
    assert fw.tensor([1]).dtype is fw.int64


def test_only_float_dtypes() -> None:
    with pytest.raises(DTypeError, match=r"^set_default_dtype: int64 is no float"):
        fw.set_default_dtype(fw.int64)


@pytest.mark.core
def test_device_of_factories(gpu: GpuDevice) -> None:
    with gpu:
        assert fw.get_default_device() is gpu
        assert fw.zeros(1).device is gpu
        assert fw.tensor([1.0]).device is gpu
        with fw.device("cpu"):
            assert fw.randn(1).device is CPU
        assert fw.nn.Linear(1, 1).weight.device is gpu
    assert fw.zeros(1).device is CPU
    fw.set_default_device(gpu)
    assert fw.arange(2).device is gpu
    assert fw.zeros(1, device="cpu").device is CPU


@pytest.mark.core
def test_traces_know_the_defaults(gpu: GpuDevice) -> None:
    step = fw.jit(lambda x: (x > 0) / 2)
    x = fw.ones(2, device=gpu)
    assert step(x).dtype is fw.float32
    fw.set_default_dtype(fw.float16)
    assert step(x).dtype is fw.float16
    with pytest.raises(TraceError, match="default dtype is set"):
        fw.jit(lambda x: fw.set_default_dtype(fw.float32) or x + 1)(x)
