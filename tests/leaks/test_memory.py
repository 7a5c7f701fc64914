"""Nothing is left: not in the pool after tensors go, not in Vulkan after a close."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from vkbackend import Device
from vkbackend.driver import instance
from vkbackend.driver.physical_device import choose
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice

pytestmark = pytest.mark.core

COUNT = 300


@pytest.fixture
def gpu() -> GpuDevice:
    """Return a device of its own, so that nothing else is counted."""
    return GpuDevice(Device(choose()))


def in_use(gpu: GpuDevice) -> tuple[int, int]:
    """Return the bytes and allocations of the pool when all work is done."""
    fw.eval(fw.Tensor.from_host(np.zeros(0, np.float32), gpu))
    gpu.gpu.synchronize()
    stats = gpu.gpu.memory_stats()
    return stats["in_use"], stats["allocations"]


def test_tensors_made_and_dropped(gpu: GpuDevice) -> None:
    assert in_use(gpu) == (0, 0)
    rng = np.random.default_rng(0)
    for k in range(COUNT):
        data = rng.standard_normal(k % 97).astype(np.float32)
        fw.tensor(data, device=gpu)
    assert in_use(gpu) == (0, 0)
    kept = [fw.tensor(np.ones(k, np.float32), device=gpu) for k in range(1, COUNT)]
    assert in_use(gpu)[1] == COUNT - 1
    del kept
    assert in_use(gpu) == (0, 0)
    gpu.gpu.close()


@pytest.mark.usefixtures("_no_collector")
@pytest.mark.parametrize("how", ["read", "flushed", "never run"])
def test_results_made_and_dropped(how: str, gpu: GpuDevice) -> None:
    for k in range(COUNT):
        x = fw.full((k % 13, 7), 2.0, device=gpu)
        y = (x * 3 + x[:, :1]).relu()
        if how == "read":
            y.sum().item()
        elif how == "flushed":
            fw.eval(y)
        del x, y
    assert in_use(gpu) == (0, 0)
    gpu.gpu.close()


@pytest.mark.usefixtures("_no_collector")
def test_training_steps_leave_nothing(gpu: GpuDevice) -> None:
    rng = np.random.default_rng(0)
    images = fw.tensor(rng.standard_normal((4, 1, 8, 8)).astype(np.float32), device=gpu)
    weight = fw.tensor(rng.standard_normal((2, 1, 3, 3)).astype(np.float32), device=gpu)
    labels = fw.tensor(np.array([0, 1, 1, 0], np.int32), device=gpu)
    weight.requires_grad_()
    # In the second round the schedules, which keep who their siblings are, are there.
    for _ in range(2):
        before = in_use(gpu)
        for _ in range(20):
            maps = ops.max_pool2d(ops.conv2d(images, weight, padding=1).relu(), 8)
            maps = ops.dropout(ops.batch_norm(maps, None, None, training=True), 0.1)
            loss = ops.cross_entropy(maps.flatten(1), labels)
            loss.backward()
            with fw.no_grad():
                weight.sub_(weight.grad * 0.1)
            weight.grad = None
        del maps, loss
    assert in_use(gpu) == before
    del images, weight, labels
    gpu.plans.clear()
    assert in_use(gpu) == (0, 0)
    gpu.gpu.close()


def test_nothing_is_left_at_close(gpu: GpuDevice) -> None:
    x = fw.ones((50, 50), device=gpu, requires_grad=True)
    (x @ x).exp().sum().backward()
    fw.eval()
    pending = x.grad * 2
    assert gpu.gpu.live_objects()
    gpu.gpu.close()
    assert gpu.gpu.live_objects() == {}
    with pytest.raises(vkbackend.ArgumentError, match="the device is closed"):
        pending.numpy()
    del x, pending
    gc.collect()
    assert instance.messages() == ()


PROGRAM = """
import vkbackend.framework as fw
x = fw.ones((30, 30), device={name!r}, requires_grad=True)
y = (x @ x).sum()
y.backward()
z = x.grad * 2
"""


def test_exit_with_work_pending(device: vkbackend.Device, tmp_path: Path) -> None:
    program = PROGRAM.format(name=device.name)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
