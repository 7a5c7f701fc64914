"""Devices of the framework, and a fixed seed for each test."""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.hardware import as_hardware, skip_where_it_crashes
from vkbackend import config
from vkbackend.framework.autotune import autotune
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.kernels import rowwise

SEED = 20


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a NumPy generator that starts from the same state in each test."""
    return np.random.default_rng(SEED)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    fw.manual_seed(SEED)


@pytest.fixture(scope="session")
def discrete(device: vkbackend.Device) -> vkbackend.DeviceInfo:
    """Return what a device for speed says of itself."""
    return as_hardware(device.info)


@pytest.fixture
def quads(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the Vulkan device with kernels chosen as for hardware."""
    skip_where_it_crashes(gpu.gpu.info)
    info = dataclasses.replace(gpu.gpu.info, kind="discrete")
    monkeypatch.setattr(gpu.gpu, "info", info)
    monkeypatch.setattr(gpu, "plans", OrderedDict())
    return gpu


@pytest.fixture
def quick(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the device, which is taken for one with cheap barriers."""
    info = gpu.gpu.info
    target = dataclasses.replace(info.target, cheap_barriers=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    return gpu


@pytest.fixture
def registers(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[GpuDevice]:
    """Return the Vulkan device, with rows held in registers as hardware does."""
    if not gpu.gpu.info.subgroup_arithmetic:
        pytest.skip("the device has no subgroup arithmetic")
    skip_where_it_crashes(gpu.gpu.info)
    monkeypatch.setattr(rowwise, "uses_register_rows", lambda info: True)
    gpu.plans.clear()
    yield gpu
    fw.eval()
    gpu.plans.clear()


@pytest.fixture
def untuned(
    tmp_path: Path, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Start without settings, verdicts and schedules, and leave none."""
    monkeypatch.setattr(autotune, "_settings", None)
    monkeypatch.setattr(autotune, "measured", [])
    monkeypatch.setenv(config.CACHE.name, str(tmp_path))
    monkeypatch.delenv(config.AUTOTUNE.name, raising=False)
    gpu.plans.clear()
    yield
    fw.eval()
    gpu.plans.clear()


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.core)])
def place(request: pytest.FixtureRequest) -> Device:
    """Return each device in turn: the host, then the Vulkan device."""
    if request.param == "cpu":
        return fw.device("cpu")
    found: GpuDevice = request.getfixturevalue("gpu")
    return found


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.device)])
def half_place(request: pytest.FixtureRequest) -> Device:
    """Return each device in turn, which must store 16 bits: not every one does."""
    if request.param == "cpu":
        return fw.device("cpu")
    found: GpuDevice = request.getfixturevalue("gpu")
    return found


@pytest.fixture
def make(place: Device) -> Callable[..., fw.Tensor]:
    """Return a function that makes tensors on the device under test."""

    def tensor(data: object, dtype: str | None = None, grad: bool = False) -> fw.Tensor:
        if dtype is None and not isinstance(data, np.ndarray | np.generic):
            dtype = "float32" if np.asarray(data).dtype.kind == "f" else None
        return fw.tensor(data, dtype, place, grad)

    return tensor
