"""Collectives that a device moves by itself, against those that the host moves."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.communication.test_group import DTYPES, tensor_of
from tests.rank_threads import LONG, ThreadPages, as_threads
from vkbackend import ArgumentError, TimelinePoint, VulkanError
from vkbackend.framework.base.device import CPU, Device, GpuDevice
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.communication.device_collectives import (
    Move,
    moves,
    starts,
    sums,
)
from vkbackend.framework.communication.device_pages import DevicePages
from vkbackend.framework.communication.group import Group
from vkbackend.framework.communication.host_transport import HostTransport
from vkbackend.framework.communication.transport import Call

SHAPE = (6, 5)

Program = Callable[[Group, fw.Tensor], list[fw.Tensor]]


def every_move(group: Group, x: fw.Tensor) -> list[fw.Tensor]:
    """Return what goes through each way, of tensors of several layouts."""
    return [
        group.all_gather(x.T, 1),
        group.broadcast(x[1:, 2:4], group.size - 1),
        group.all_to_all(x),
    ]


def every_sum(group: Group, x: fw.Tensor) -> list[fw.Tensor]:
    found = [group.all_sum(x[:, 1:]), group.reduce_scatter(x)]
    if x.dtype.is_float:
        found.append(group.all_mean(x))
    return found


@pytest.fixture
def importer(gpu: GpuDevice) -> GpuDevice:
    """Return a device that imports pages."""
    if not gpu.gpu.memory.import_alignment:
        pytest.skip("the driver imports no host memory")
    return gpu


def compare(
    ranks: Any, gpu: GpuDevice, programs: list[Program], dtypes: list[str]
) -> None:
    """Hold that device and host give the same bits, also to each other."""

    def on(device_of: Callable[[int], Device]) -> Any:
        def work(group: Group) -> list[bytes]:
            found = []
            for dtype in dtypes:
                x = tensor_of(group.rank, SHAPE, dtype).to(device_of(group.rank))
                for program in programs:
                    found += program(group, x)
            assert all(each.device is device_of(group.rank) for each in found)
            return [each.stored().tobytes() for each in found]

        return work

    expected = ranks.run(on(lambda rank: CPU))
    assert ranks.run(on(lambda rank: gpu)) == expected
    assert ranks.run(on(lambda rank: CPU if rank else gpu)) == expected


def test_the_host_moves_nothing(
    monkeypatch: pytest.MonkeyPatch, importer: GpuDevice
) -> None:
    """Counters tell: no element is read or uploaded; each slot holds 64 of them."""
    x = fw.arange(1000, device=importer)
    fw.eval(x)
    start = importer.gpu.counters.snapshot()

    def work(group: Group) -> fw.Tensor:
        assert moves(group, x)
        assert sums(group, x, "sum")
        assert not sums(group, x, "max")
        assert not moves(group, x[:0])
        return group.all_sum(x)

    found = as_threads(monkeypatch, 2, chunk=512).run(work)
    fw.eval(*found)
    used = importer.gpu.counters - start
    assert used.host_reads == 0
    # What kernels of several launches look up.
    assert used.upload_bytes < 64
    for each in found:
        np.testing.assert_array_equal(each.numpy(), 2 * np.arange(1000))
    importer.gpu.release_imports()


def test_work_is_submitted_before_its_elements_arrive(
    monkeypatch: pytest.MonkeyPatch, importer: GpuDevice
) -> None:
    """The last copies of an exchange end only after kernels that need them are sent."""
    sent, take = threading.Event(), HostTransport._take
    counts, both = [], threading.Barrier(2, timeout=LONG)

    class Held:
        def __init__(self, point: TimelinePoint) -> None:
            self.point = point

        def wait(self, timeout_seconds: float) -> bool:
            return sent.is_set() and self.point.wait(timeout_seconds)

    def taken(*given: Any) -> list[Any]:
        return [Held(point) for point in take(*given)]

    monkeypatch.setattr(HostTransport, "_take", taken)
    x = fw.arange(50, device=importer)
    fw.eval(x)

    def work(group: Group) -> fw.Tensor:
        found = group.all_sum(x)
        before = importer.gpu.counters.dispatches
        fw.eval(found)
        counts.append(importer.gpu.counters.dispatches - before)
        assert group._transport is not None
        (task,) = group._transport._last.values()
        assert not task.done
        kept = task.steps.gi_frame.f_locals
        assert "fill" not in kept
        assert "consume" not in kept
        both.wait()
        sent.set()
        group.barrier()
        assert task.done
        return found

    for each in as_threads(monkeypatch, 2, chunk=512).run(work):
        np.testing.assert_array_equal(each.numpy(), 2 * np.arange(50))
    assert all(counts)


def test_three_ranks_in_parts(
    monkeypatch: pytest.MonkeyPatch, importer: GpuDevice
) -> None:
    """Parts of different lengths; sums of short floats are rounded once."""
    place = "vkbackend.framework.communication"
    monkeypatch.setattr(f"{place}.group.DIRECT", 16)
    monkeypatch.setattr(f"{place}.device_collectives.DIRECT", 16)
    ranks = as_threads(monkeypatch, 3, chunk=192)
    compare(ranks, importer, [lambda group, x: [group.all_sum(x)]], ["bfloat16"])


@pytest.mark.parametrize(
    "size", [3, *(pytest.param(size, marks=pytest.mark.wide) for size in (5, 6, 7))]
)
def test_means_are_rounded_once(
    monkeypatch: pytest.MonkeyPatch, importer: GpuDevice, size: int
) -> None:
    """Over ranks whose number is no power of 2, by the device where it has float64."""
    x = fw.ones(1, device=importer)
    ranks = as_threads(monkeypatch, size, 1024)
    moved = ranks.run(lambda group: sums(group, x, "mean"))
    assert moved == [importer.gpu.info.shader_float64] * size

    def means(group: Group, x: fw.Tensor) -> list[fw.Tensor]:
        small = x * (1.1 + group.rank) ** -30
        parts = small.repeat(size, 1)
        return [group.all_mean(x * 1.37), group.reduce_scatter(parts, 0, "mean")]

    compare(ranks, importer, [means], ["float32", "bfloat16"])


@pytest.mark.wide
@pytest.mark.parametrize("size", [2, 3])
def test_every_dtype(
    monkeypatch: pytest.MonkeyPatch, importer: GpuDevice, size: int
) -> None:
    ranks = as_threads(monkeypatch, size)
    compare(ranks, importer, [every_move, every_sum], DTYPES)


@pytest.mark.usefixtures("_no_collector")
def test_an_error_does_not_keep_the_pages(
    monkeypatch: pytest.MonkeyPatch, importer: GpuDevice
) -> None:
    """Its traceback refers to the buffer that lies in them, which nobody can use."""
    gpu, kept = importer.gpu, []
    before = gpu.release_imports()
    x = fw.arange(50, device=importer)
    fw.eval(x)

    def refuse(*given: Any, **options: Any) -> None:
        kept.append(given[1][0])
        raise VulkanError("vkQueueSubmit2: refused")

    monkeypatch.setattr(gpu.transfer, "copy", refuse)

    def work(group: Group) -> BaseException:
        with pytest.raises(VulkanError, match="refused") as caught:
            group.all_sum(x)
        group.close()
        return caught.value

    errors = as_threads(monkeypatch, 2).run(work, keep=True)
    assert all(isinstance(each, VulkanError) for each in errors), errors
    assert all(each.__traceback__ is not None for each in errors)
    assert gpu.release_imports() == before
    monkeypatch.undo()
    for buffer in kept:
        with pytest.raises(ArgumentError, match="no device: its memory was revoked"):
            gpu.read(buffer, 0, 1)
        with pytest.raises(ArgumentError, match="holds 0 bytes"):
            gpu.transfer.copy((buffer, 0), (gpu.allocate(4), 0), 4)


def test_a_device_that_imports_nothing(
    monkeypatch: pytest.MonkeyPatch, gpu: GpuDevice
) -> None:
    def refuse(pages: ThreadPages, device: object) -> None:
        raise ArgumentError("import_pages: no")

    monkeypatch.setattr(ThreadPages, "imported", refuse)

    def work(group: Group) -> tuple[str, list[float]]:
        found = group.broadcast(fw.ones(2, device=gpu)).tolist()
        return str(group.transport), found

    why = f"the host copies what is on {gpu.gpu.name}, as import_pages: no"
    for told, found in as_threads(monkeypatch, 2).run(work):
        assert told == f"host: threads; {why}"
        assert found == [1.0, 1.0]


def test_what_is_gathered_may_lie_among_all(
    monkeypatch: pytest.MonkeyPatch, importer: GpuDevice
) -> None:
    """Then a rank's own part is copied by nobody, and all still get it."""
    own: list[Any] = []
    writer = DevicePages.writer

    def noted(self: DevicePages, goals: Any, rank: int, place: Any) -> Any:
        own.append(place)
        return writer(self, goals, rank, place)

    monkeypatch.setattr(DevicePages, "writer", noted)

    def work(group: Group) -> list[float]:
        step = Move(group, Call("test"), 256, (256, 256), float32)
        start = step.source_within()
        assert start == 1024 * group.rank
        assert Move(group, Call("test"), 256, (0, 0), float32).source_within() is None
        parts = Move(group, Call("test"), (256, 256), (256, 256), float32)
        assert parts.source_within() is None
        buffer = importer.gpu.allocate(2048)
        values = np.full(256, 1.0 + group.rank, np.float32)
        importer.gpu.upload(values, buffer, start)
        assert step.run_on_device(
            importer.gpu, (buffer, start, 1024), (buffer, 0, 2048)
        )
        group.barrier()
        return np.frombuffer(importer.gpu.read(buffer), np.float32)[::256].tolist()

    assert as_threads(monkeypatch, 2).run(work) == [[1.0, 2.0]] * 2
    assert own == [None] * 2


def test_what_a_rank_gives_itself_does_not_leave_the_device(
    monkeypatch: pytest.MonkeyPatch, importer: GpuDevice
) -> None:
    sizes: list[int] = []
    copy = DevicePages.copy

    def noted(self: DevicePages, *given: Any, outward: bool = False) -> TimelinePoint:
        if outward:
            sizes.append(given[2])
        return copy(self, *given, outward=outward)

    monkeypatch.setattr(DevicePages, "copy", noted)

    def work(group: Group) -> list[float]:
        rank, other = group.rank, 1 - group.rank
        taken = (256 * (rank != 0), 256 * (rank != 1))
        step = Move(group, Call("test"), (256, 256), taken, float32)
        source, target = (importer.gpu.allocate(size) for size in (2048, 1024))
        values = np.repeat(np.array([0, 1], np.float32), 256) + 10 * rank
        importer.gpu.upload(values, source)
        places = (source, 0, 2048), (target, 0, 1024)
        assert step.run_on_device(importer.gpu, *places)
        group.barrier()
        found = np.frombuffer(importer.gpu.read(target), np.float32)
        assert (found == rank + 10 * other).all()
        return found[:1].tolist()

    assert as_threads(monkeypatch, 2, 512).run(work) == [[10.0], [1.0]]
    assert sizes == [256] * 8  # each rank gives 1 KiB, by half a slot


def test_where_parts_begin() -> None:
    assert starts([3, 0, 2]) == [0, 3, 3]
