"""Pulls from other ranks' cards, by a driver over memory that Vulkan exports."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

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
from vkbackend.cuda import memory, pool
from vkbackend.errors import CudaError
from vkbackend.framework.base.device import CPU, Device, GpuDevice
from vkbackend.framework.base.errors import DistributedError
from vkbackend.framework.communication.cuda_transport import (
    CudaTransport,
    open_peer_memory,
)
from vkbackend.framework.communication.group import Group
from vkbackend.framework.communication.transport import Call


@pytest.fixture
def cuda(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    """Return the driver; all that was made by it is gone in the end."""
    has = gpu.gpu.memory
    if gpu.gpu.info.kind != "software":
        pytest.skip("the driver of CUDA in place of this one copies on the host")
    if not (has.import_alignment and has.descriptors):
        pytest.skip("the driver imports no memory")
    library = install(monkeypatch, gpu.gpu)
    yield library
    assert not library.left()


def test_sums(monkeypatch: pytest.MonkeyPatch, gpu: GpuDevice, cuda: FakeCuda) -> None:
    """Nothing is read or uploaded; what a rank gives is pulled at once."""
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
    assert cuda.copies == 2
    for each in found:
        np.testing.assert_array_equal(each.numpy(), 2 * np.arange(1000))
    del each, found
    assert not cuda.left()


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
    assert cuda.copies == 2


def test_nothing_is_copied_within_the_card(
    monkeypatch: pytest.MonkeyPatch, gpu: GpuDevice, cuda: FakeCuda
) -> None:
    """What lies in the pool is pulled where it is, to where it belongs."""
    data = np.arange(600, dtype=np.int32)

    def work(group: Group) -> bytes:
        pages, own = group.device_pages(gpu.gpu), 10 * (1 + group.rank)
        source, target = (group.allocate(gpu.gpu, 4 * n) for n in (600, 300))
        assert pages is not None
        assert source is not None
        assert target is not None
        gpu.gpu.upload(data * own, source)
        group.barrier()
        before = gpu.gpu.counters.submits
        parts = [(source, 16), (source, 1016)]
        goals = [(target, 0), (target, 600)]
        for _ in range(2):
            fill, consume = pages.filler(parts), pages.writer(goals, group.rank, None)
            group.exchange(Call("test"), (500, 300), fill, consume)
        assert gpu.gpu.counters.submits == before
        group.barrier()
        return bytes(gpu.gpu.read(target))

    first, second = as_threads(monkeypatch, 2, 512, gpu).run(work)
    assert cuda.copies == 2 * 2
    assert first[600 : 600 + 500] == (data * 20).tobytes()[16:516]
    assert second[:300] == (data * 10).tobytes()[1016:1316]


def test_cards_without_memory_left(
    monkeypatch: pytest.MonkeyPatch, gpu: GpuDevice, cuda: FakeCuda
) -> None:
    """All ranks go through the pages where one has none; the transport says why."""
    monkeypatch.setattr(pool, "LEAST_BLOCK", 1 << 16)
    small, large = fw.ones(100, device=gpu), fw.ones(40_000, device=gpu)
    fw.eval(small, large)

    def work(group: Group) -> tuple[str, float, float]:
        group.barrier()
        cuda.fails = "cuMemCreate"
        kept = group.all_gather(small)
        assert str(group.transport) == "cuda: threads"
        found = group.all_sum(large)
        group.barrier()
        return str(group.transport), kept.sum().item(), found[-1].item()

    for told, total, last in as_threads(monkeypatch, 2, 1 << 16, gpu).run(work):
        assert (total, last) == (200, 2)
        assert told.startswith(
            "cuda: threads; exchanges went through the host's pages, as cuMemCreate:"
        )


def test_a_rank_that_gives_up_after_it_was_pulled_from(
    monkeypatch: pytest.MonkeyPatch, gpu: GpuDevice, cuda: FakeCuda
) -> None:
    """Its memory may have been overwritten meanwhile: the others keep nothing of it."""
    x = fw.arange(100, device=gpu)
    fw.eval(x)

    def work(group: Group) -> str:
        transport = group._transport
        assert isinstance(transport, CudaTransport)
        if group.rank == 0:
            land = transport._land

            def late(*given: Any) -> None:
                """What a rank does that gives up once it has read."""
                transport._control.words[transport._given_up[0]] = 1
                land(*given)

            monkeypatch.setattr(transport, "_land", late)
            with contextlib.suppress(DistributedError):
                group.all_sum(x)
            return ""
        pull = transport._pull

        def waits(*given: Any) -> Any:
            """Return pulls that end after the other rank has read."""
            found = pull(*given)
            while transport._control.words[transport._given_up[0]] == 0:
                pass
            return found

        monkeypatch.setattr(transport, "_pull", waits)
        with pytest.raises(DistributedError) as caught:
            group.all_sum(x)
        return str(caught.value)

    _, told = as_threads(monkeypatch, 2, 512, gpu).run(work)
    assert "all_sum" in told
    assert "rank 0 has given up the group" in told


@pytest.mark.wide
@pytest.mark.parametrize("size", [2, 3])
def test_every_dtype(
    monkeypatch: pytest.MonkeyPatch, gpu: GpuDevice, cuda: FakeCuda, size: int
) -> None:
    ranks = as_threads(monkeypatch, size, gpu=gpu)
    compare(ranks, gpu, [every_move, every_sum], DTYPES)
    assert cuda.copies > 0


def test_why_there_is_no_memory_of_peers(
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
        peers, obstacle = open_peer_memory(Comm(), lambda: device)
        assert peers is None
        return obstacle

    assert why(CPU) == "the device is cpu"
    cuda.fails = "cuMemCreate"
    assert "cuMemCreate: CUDA_ERROR_INVALID_VALUE (1): invalid" in why(gpu)
    cuda.fails = "cuMemSetAccess"
    assert "cuMemSetAccess: CUDA_ERROR_INVALID_VALUE" in why(gpu)
    assert not cuda.left()
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


@pytest.mark.wide
@pytest.mark.device
@pytest.mark.parametrize("ranks", [2, 3])
def test_a_rank_is_killed_within_a_replay(ranks: int) -> None:
    """Nothing is submitted after it, which would let go of the replay's memory."""
    few = ["--sums", "--kill", "1", "--ranks", str(ranks)]
    run_program("--fake", "--only-death", *few)


@pytest.mark.gpu
def test_processes_of_one_card(gpu: GpuDevice) -> None:
    if gpu.gpu.info.driver_name != memory.DRIVER:
        pytest.skip("CUDA drives NVIDIA's cards")
    run_program("--most", "64", "--rounds", "3")
