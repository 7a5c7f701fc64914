"""Pulls from other ranks' cards, by a driver over memory that Vulkan exports."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.fake_cuda import FakeCuda, install
from tests.framework.communication.test_device_collectives import (
    compare,
    every_move,
    every_sum,
)
from tests.framework.communication.test_group import DTYPES
from tests.rank_threads import as_threads
from vkbackend import cuda as vkbackend_cuda
from vkbackend.cuda import memory
from vkbackend.errors import CudaError
from vkbackend.framework.base.device import CPU, Device, GpuDevice
from vkbackend.framework.communication.cuda_transport import open_mailboxes
from vkbackend.framework.communication.group import Group


@pytest.fixture
def cuda(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    """Return the driver; all that was made by it is gone in the end."""
    has = gpu.gpu.memory
    if gpu.gpu.info.kind != "software":
        pytest.skip("the driver of CUDA in place of this one copies on the host")
    if not (has.import_alignment and has.descriptors):
        pytest.skip("the driver imports no memory")
    return install(monkeypatch, gpu.gpu)


def test_sums_of_several_pieces(
    monkeypatch: pytest.MonkeyPatch, gpu: GpuDevice, cuda: FakeCuda
) -> None:
    """Nothing is read or uploaded; slots of 512 bytes are used again and again."""
    x = fw.arange(1000, device=gpu)
    fw.eval(x)
    start = gpu.gpu.counters.snapshot()

    def work(group: Group) -> fw.Tensor:
        assert str(group.transport) == "cuda: threads"
        found = group.all_sum(x)
        fw.eval(found)
        group.barrier()
        group.close()
        return found

    found = as_threads(monkeypatch, 2, 512, gpu).run(work)
    used = gpu.gpu.counters - start
    assert used.host_reads == 0
    assert used.upload_bytes < 64
    assert cuda.copies == 2 * 16
    assert not +cuda.live
    for each in found:
        np.testing.assert_array_equal(each.numpy(), 2 * np.arange(1000))


def test_ranks_on_the_host_and_on_cards(
    monkeypatch: pytest.MonkeyPatch, gpu: GpuDevice, cuda: FakeCuda
) -> None:
    """All go through the pages then, and by cards again afterwards."""

    def work(group: Group) -> list[list[float]]:
        found = []
        for devices in ([CPU, gpu], [gpu, gpu], [gpu, CPU], [CPU, CPU]):
            x = fw.arange(200, device=devices[group.rank]) * (1 + group.rank)
            found.append(group.all_sum(x).tolist())
        return found

    for found in as_threads(monkeypatch, 2, 512, gpu).run(work):
        assert found == [(3 * np.arange(200)).tolist()] * 4
    assert cuda.copies == 2 * 4


@pytest.mark.wide
@pytest.mark.parametrize("size", [2, 3])
def test_every_dtype(
    monkeypatch: pytest.MonkeyPatch, gpu: GpuDevice, cuda: FakeCuda, size: int
) -> None:
    ranks = as_threads(monkeypatch, size, gpu=gpu)
    compare(ranks, gpu, [every_move, every_sum], DTYPES)
    assert cuda.copies > 0


def test_why_there_are_no_mailboxes(
    monkeypatch: pytest.MonkeyPatch, gpu: GpuDevice, cuda: FakeCuda
) -> None:
    """All ranks say the same, whichever of them fails, and leave nothing."""

    class Comm:
        rank, size = 0, 1

        def allgather(self, value: object) -> list[object]:
            return [value]

        def bcast(self, value: object, root: int) -> object:
            return value

    def why(device: Device) -> str:
        mailboxes, obstacle = open_mailboxes(Comm(), lambda: device)
        assert mailboxes is None
        return obstacle

    assert why(CPU) == "the device is cpu"
    cuda.fails = "cuMemCreate"
    assert "cuMemCreate: CUDA_ERROR_INVALID_VALUE (1): invalid" in why(gpu)
    cuda.fails = "cuMemSetAccess"
    assert "cuMemSetAccess: CUDA_ERROR_INVALID_VALUE" in why(gpu)
    assert not +cuda.live
    monkeypatch.setattr(memory, "DRIVER", "NVIDIA")
    assert why(gpu).startswith(f"the driver of {gpu.gpu.info.name} is ")

    def refuse() -> None:
        raise CudaError("libcuda.so.1 cannot be loaded (no such file)")

    monkeypatch.setattr(vkbackend_cuda, "load", refuse)
    assert why(gpu) == "libcuda.so.1 cannot be loaded (no such file)"


def run_program(*arguments: str) -> None:
    """Run the program that shows each stage, and hold that all went well."""
    module = "tests.framework.communication.cuda_program"
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[0] all is well" in done.stdout


@pytest.mark.wide
@pytest.mark.device
@pytest.mark.parametrize("size", [2, 3])
def test_processes(size: int) -> None:
    few = ["--most", "1", "--rounds", "1", "--chunk", "65536"]
    run_program("--fake", "--ranks", str(size), *few)


@pytest.mark.wide
@pytest.mark.device
@pytest.mark.parametrize("number", range(10))
def test_a_rank_is_killed_at_any_moment(number: int) -> None:
    """The others are told, and let go of all memory and imports."""
    moment = str(0.002 * 1.9**number)
    few = ["--chunk", "65536", "--ranks", str(2 + number % 2)]
    run_program("--fake", "--only-death", "--kill", moment, *few)


@pytest.mark.gpu
def test_processes_of_one_card(gpu: GpuDevice) -> None:
    if gpu.gpu.info.driver_name != memory.DRIVER:
        pytest.skip("CUDA drives NVIDIA's cards")
    run_program("--most", "64", "--rounds", "3")
