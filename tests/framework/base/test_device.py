"""Choosing devices, and saying what was chosen."""

import copy
import dataclasses
import gc
import importlib
import os
import pickle
import threading
import warnings
import weakref
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from tests.vkbackend.driver.test_instance import run_python
from vkbackend import DeviceLost, NoVulkanError, config
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import (
    CPU,
    Device,
    GpuDevice,
    begin_generation,
    change_setting,
    opened_devices,
)
from vkbackend.framework.scheduler.scheduler import unfused

# `vkbackend.framework.base.device` as an attribute is the function.
module = importlib.import_module("vkbackend.framework.base.device")


def test_host() -> None:
    assert fw.device("cpu") is CPU
    assert fw.device(CPU) is CPU
    assert (str(CPU), repr(CPU), CPU.is_gpu) == ("cpu", "device(type='cpu')", False)


def test_host_with_a_number() -> None:
    """As in PyTorch it is another device, and tensors are where they were."""
    numbered = fw.device("cpu", 0)
    assert (str(numbered), numbered.type, numbered.index) == ("cpu:0", "cpu", 0)
    assert numbered == fw.device("cpu:0") != CPU
    assert fw.zeros(1, device=numbered).to(numbered).device is CPU
    assert isinstance(numbered, fw.device)
    assert fw.device(type="cpu") is CPU


@pytest.mark.parametrize("foreign", ["cuda", "cuda:1", "mps", "xla"])
def test_devices_of_other_libraries(foreign: str) -> None:
    """They are named in default arguments, where nothing is on them."""
    device = fw.device(foreign)
    assert device is fw.device(device) == fw.device(foreign) != CPU
    assert pickle.loads(pickle.dumps(device)) is device
    assert str(device) == str(torch.device(foreign))
    assert (device.type, device.index) == (
        torch.device(foreign).type,
        torch.device(foreign).index,
    )
    assert repr(device) == repr(torch.device(foreign))
    for use in (
        lambda: fw.zeros(1).to(foreign),
        lambda: fw.zeros(1).to(device),
        lambda: fw.zeros(1, device=device),
        lambda: fw.nn.Linear(1, 1, device=device),
        lambda: fw.nn.Linear(1, 1).to(device),
        lambda: fw.set_default_device(device),
        lambda: fw.Generator(device),
        device.__enter__,
        device.synchronize,
    ):
        with pytest.raises(NoVulkanError, match=f"'{foreign}' is no device of"):
            use()


def test_the_usual_line() -> None:
    chosen = fw.device("cuda" if fw.cuda.is_available() else "cpu")
    assert chosen is CPU
    assert chosen.type != "cuda"


@pytest.mark.core
def test_vulkan_device(gpu: GpuDevice) -> None:
    # The name has the PCI address where the machine has several of the kind.
    assert fw.device(gpu.name.upper()) is gpu
    assert fw.device(gpu) is gpu
    assert gpu.is_gpu
    names = [each.name for each in vkbackend.devices()]
    assert (gpu.name, gpu.type) == (gpu.gpu.name, "vulkan")
    assert gpu.index == names.index(gpu.name)
    assert repr(gpu) == f"device(type='vulkan', index={gpu.index})"
    assert fw.device(str(gpu)) is fw.device("gpu", gpu.index) is gpu
    assert copy.deepcopy(gpu) is gpu
    info = gpu.gpu.info
    assert gpu.name.startswith(info.name)
    assert gpu.description == f"{gpu.name} ({info.driver_name} {info.driver_info})"
    assert gpu in opened_devices()


@pytest.mark.core
def test_index_zero_is_a_device(gpu: GpuDevice) -> None:
    assert fw.device(0).is_gpu
    assert fw.zeros(1, device=0).is_gpu
    assert fw.tensor(1.0, device=0).is_gpu


@pytest.mark.core
def test_devices_lists_names_and_the_host(gpu: GpuDevice) -> None:
    *found, last = fw.devices()
    assert gpu.name in found
    assert last == "cpu"


def test_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(config.DEVICE.name, "cpu")
    assert fw.device() is CPU
    assert fw.device("gpu") is CPU


@pytest.mark.core
def test_environment_names_a_device(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(config.DEVICE.name, gpu.name)
    assert fw.device() is gpu


@pytest.fixture
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_said", set())
    monkeypatch.delenv(config.DEVICE.name, raising=False)


@pytest.mark.usefixtures("nothing_said")
def test_no_vulkan_falls_back_and_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(selector: object = None) -> None:
        raise NoVulkanError("there is no loader")

    monkeypatch.setattr(vkbackend, "open_device", fail)
    monkeypatch.setattr(vkbackend, "devices", fail)
    message = "no Vulkan device is usable, so the host computes: there is no loader"
    with pytest.warns(UserWarning, match=message):
        assert fw.device() is CPU
    assert fw.device() is CPU
    assert fw.devices() == ["cpu"]
    with pytest.raises(NoVulkanError, match="there is no loader"):
        fw.device("gpu")
    with pytest.raises(NoVulkanError, match="there is no loader"):
        fw.device("geforce")


@pytest.mark.core
@pytest.mark.usefixtures("nothing_said")
@pytest.mark.parametrize(
    ("kind", "warned"), [("software", 1), ("integrated", 0), ("discrete", 0)]
)
def test_software_device_is_said_once(
    kind: str, warned: int, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = dataclasses.replace(gpu.gpu.info, kind=kind)
    monkeypatch.setattr(gpu.gpu, "info", info)
    monkeypatch.setattr(vkbackend, "open_device", lambda: gpu.gpu)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert fw.device() is gpu
        assert fw.device() is gpu
    expected = f"vkbackend: {gpu.name} is a software device: no GPU driver was found"
    assert [str(each.message) for each in said] == [expected] * warned


@pytest.mark.core
def test_name_of_no_device(gpu: GpuDevice) -> None:
    with pytest.raises(NoVulkanError, match="voodoo"):
        fw.device("voodoo")


def used(gpu: GpuDevice) -> None:
    """Let operations of every kind be known for a device."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()).to(gpu)
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    x = fw.ones((2, 3), device=gpu)

    def step(x: fw.Tensor) -> fw.Tensor:
        optimizer.zero_grad()
        loss = model(x).cumsum(0)[1:].square().mean()
        loss.backward()
        optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    replayed = fw.jit(step)
    for _ in range(3):
        step(x)
        replayed(x)
    q = fw.ones((1, 2, 8, 16), dtype=fw.float16, device=gpu)
    fw.nn.functional.scaled_dot_product_attention(q, q, q).numpy()


@pytest.mark.core
def test_nothing_is_kept_for_a_device_that_is_closed_or_lost(gpu: GpuDevice) -> None:
    for lose in (False, True):
        opened = vkbackend.Device(gpu.gpu.physical)
        found = module._wrap(opened)
        assert module._wrap(opened) is found
        assert found in opened_devices()
        used(found)
        known = weakref.ref(found)
        del found
        if lose:
            opened.logical.lost = "lost"
            assert opened not in [each.gpu for each in opened_devices()]
        opened.close()
        gc.collect()
        assert known() is None


@pytest.mark.core
@pytest.mark.usefixtures("nothing_said")
def test_threads_get_one_device_and_one_warning(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = dataclasses.replace(gpu.gpu.info, kind="software")
    monkeypatch.setattr(gpu.gpu, "info", info)
    monkeypatch.setattr(module, "_opened", {})
    together = threading.Barrier(16)

    def chosen(_: int) -> Device:
        together.wait()
        return fw.device()

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with ThreadPoolExecutor(16) as threads:
            found = set(map(id, threads.map(chosen, range(16))))
    assert (len(found), len(said)) == (1, 1)


@pytest.mark.core
def test_nothing_is_saved_from_a_lost_device(gpu: GpuDevice, tmp_path: Path) -> None:
    opened = vkbackend.Device(gpu.gpu.physical)
    lost = module._wrap(opened)
    kept = fw.tensor([1.0, 2.0], device=lost)
    assert kept.numpy().tolist() == [1.0, 2.0]
    pending = kept + 1
    path = tmp_path / "checkpoint.safetensors"
    fw.save({"kept": kept}, path)
    before = path.read_bytes()
    with pytest.raises(DeviceLost):
        opened.logical.check("vkQueueSubmit2", -4)
    for tensor in (kept, pending):
        with pytest.raises(DeviceLost, match="load a checkpoint"):
            fw.save({"kept": tensor}, path)
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name]
    opened.close()


FORKS = """
import os, threading, warnings
warnings.simplefilter("ignore")
import vkbackend
import vkbackend.framework as fw
device = fw.device(0)
x = fw.ones((1000,), device=device)
(x + 1).numpy()
stop = False

double = fw.jit(lambda a: a * 2)
double(x).numpy()

def busy():
    while not stop:
        (x + 1).numpy()

def jitted():
    while not stop:
        double(x)
        fw.rand((3,), device="cpu")
        with fw.autocast(fw.bfloat16):
            pass

threads = [threading.Thread(target=each) for each in (busy, jitted)]
for thread in threads:
    thread.start()
failed = 0
for _ in range(20):
    child = os.fork()
    if child == 0:
        refused = 0
        made = lambda: fw.ones((3,), device=device).numpy()
        fw.rand((3,), device="cpu").numpy()
        with fw.autocast(fw.bfloat16):
            pass
        replayed = lambda: double(x).numpy()
        for call in (x.numpy, lambda: (x + 1).numpy(), made, replayed):
            try:
                call()
            except (vkbackend.ArgumentError, vkbackend.NoVulkanError):
                refused += 1
        os._exit(refused != 4)
    failed += os.waitpid(child, 0)[1] != 0
stop = True
for thread in threads:
    thread.join()
print(failed)
"""


@pytest.mark.core
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_beside_a_busy_thread_is_refused_at_once(
    device: vkbackend.Device,
) -> None:
    done = run_python(FORKS)
    assert (done.stdout, done.stderr, done.returncode) == ("0\n", "", 0)


@pytest.mark.device
def test_what_begins_a_generation(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    met = [gpu.generation]

    def begun() -> bool:
        met.append(gpu.generation)
        return met[-1] not in met[:-1]

    assert not begun()
    with monkeypatch.context() as patch:
        patch.setattr(gpu.gpu, "info", dataclasses.replace(gpu.gpu.info, kind="other"))
        assert begun()
    assert begun()
    with monkeypatch.context() as patch:
        patch.setattr(gpu, "plans", OrderedDict())
        assert begun()
    assert begun()
    gpu.plans.clear()
    assert begun()
    begin_generation()
    assert begun()
    fw.autotune(False)
    assert begun()


@pytest.mark.device
def test_a_generation_without_fusion_comes_again(gpu: GpuDevice) -> None:
    fused = gpu.generation
    with unfused(gpu):
        apart = gpu.generation
        assert apart != fused
    assert gpu.generation == fused
    with unfused(gpu):
        assert gpu.generation == apart
        begin_generation()
        assert not gpu.fusing
        assert gpu.generation not in (fused, apart)
    assert gpu.fusing
    assert gpu.generation not in (fused, apart)


@pytest.mark.device
def test_the_generation_of_a_setting_comes_again(gpu: GpuDevice) -> None:
    first = gpu.generation
    change_setting("tested", 1, 2)
    second = gpu.generation
    assert second != first
    change_setting("tested", 2, 1)
    assert gpu.generation == first
    with unfused(gpu):
        change_setting("tested", 1, 2)
        assert gpu.generation == second | 1
    assert gpu.generation == second
    begin_generation()
    change_setting("tested", 2, 1)
    assert gpu.generation not in (first, second)


@pytest.mark.device
def test_plans_that_are_built_anew_for_a_report(gpu: GpuDevice) -> None:
    plans, generation = gpu.plans, gpu.generation
    with gpu.fresh_plan_cache():
        assert gpu.plans is not plans
    assert gpu.plans is plans
    assert gpu.generation == generation
