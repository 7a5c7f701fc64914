"""Pool of memory that CUDA makes, by a driver over memory that Vulkan exports."""

import gc
from collections.abc import Iterator

import numpy as np
import pytest

from tests.fake_cuda import GRANULARITY, FakeCuda, install
from vkbackend import Device, HostPages, OutOfDeviceMemory
from vkbackend.cuda import pool
from vkbackend.cuda.pool import shared_pool


@pytest.fixture
def cuda(device: Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    """Return the driver; all that was made by it is gone in the end."""
    if device.info.kind != "software" or not device.memory.descriptors:
        pytest.skip("the driver's place is taken on software devices")
    monkeypatch.setattr(pool, "LEAST_BLOCK", GRANULARITY)
    yield install(monkeypatch, device)
    device.release_imports()


@pytest.mark.usefixtures("_no_collector")
def test_buffers_are_spans_of_few_blocks(device: Device, cuda: FakeCuda) -> None:
    before = len(device.pool.beside)
    made = shared_pool(device)
    assert shared_pool(device) is made
    first, second = (made.allocate(1000, name="part") for _ in range(2))
    large = made.allocate((1 << 20) + 1)
    assert len(made.numbers()) == 2
    places = [made.place_of(each, 4) for each in (first, second, large)]
    assert all(places)
    (block, one), (same, two), (other, _) = [each for each in places if each]
    assert block is same
    assert abs(one - two) == 1024
    assert block.size == GRANULARITY
    assert other.size == (1 << 20) + GRANULARITY
    other_pools = device.allocate(4)
    assert made.place_of(other_pools, 0) is None
    data = np.arange(250, dtype=np.uint32)
    device.upload(data, second)
    assert bytes(device.read(second)) == data.tobytes()
    beside = device.pool.beside[-1]
    own = beside.statistics()
    assert (own["blocks"], own["allocations"]) == (2, 3)
    assert own["in_use"] == 2 * 1024 + (1 << 20) + 256
    for name, count in device.memory_stats().items():
        assert count >= own[name]
    assert "part" in [row["name"] for row in device.memory_dump()["allocations"]]
    del large, places, other
    device.empty_cache()
    assert made.numbers() == {block.number}
    del first, second, block, same
    made.release()
    assert cuda.live["memory"] == 1
    made.release()
    assert not +cuda.live
    assert len(device.pool.beside) == before


@pytest.mark.usefixtures("_no_collector")
def test_numbers_never_come_again(device: Device, cuda: FakeCuda) -> None:
    """What a buffer lies in is kept when the last user goes, for the next one."""
    made, seen = shared_pool(device), set[int]()
    for _ in range(3):
        kept = made.allocate(1)
        assert not seen & made.numbers()
        seen |= made.numbers()
        del kept
        device.empty_cache()
    kept = made.allocate(1)
    made.release()
    assert cuda.live["memory"] == 1
    again = shared_pool(device)
    assert again is made
    assert again.place_of(kept, 0) is not None
    del kept
    again.release()
    assert not +cuda.live


@pytest.mark.usefixtures("_no_collector")
def test_what_cannot_be_imported_is_not_kept(device: Device, cuda: FakeCuda) -> None:
    made = shared_pool(device)
    for name in ("cuMemCreate", "cuMemExportToShareableHandle", "cuMemSetAccess"):
        cuda.fails = name
        with pytest.raises(OutOfDeviceMemory, match=f"^{name}: CUDA_ERROR_INVALID"):
            made.allocate(1)
        assert cuda.live["memory"] == cuda.live["mapping"] == 0
    cuda.fails = ""
    with pytest.raises(OutOfDeviceMemory, match=r"^memory of CUDA: .* at most"):
        made.allocate(device.info.max_allocation_size + 1)
    assert made.place_of(made.allocate(1), 0) is not None
    made.release()


def test_it_ends_with_the_device(device: Device, cuda: FakeCuda) -> None:
    """Also where buffers lie in it, and users have not released it."""
    own = Device(device.physical)
    kept = shared_pool(own).allocate(1)
    assert cuda.live["memory"] == 1
    own.close()
    assert not +cuda.live
    del kept


@pytest.mark.usefixtures("_no_collector")
def test_the_last_replay_does_not_keep_its_memory(
    device: Device, cuda: FakeCuda
) -> None:
    """Its buffers are referred to until its point is published, as after an error."""
    made = shared_pool(device)
    source, target = (made.allocate(64) for _ in range(2))
    batch = device.batch()
    batch.copy(source, target, 0, 0, 64)
    recording = device.record(batch)
    recording.submit()
    del source, target, batch, recording
    made.release()
    assert not +cuda.live
    assert device.release_imports() == 0


def test_pages_of_the_last_replay_are_let_go(device: Device) -> None:
    if not device.memory.import_alignment:
        pytest.skip("the driver imports no host memory")
    before = device.release_imports()
    buffer, other = device.import_pages(HostPages.anonymous(1)), device.allocate(64)
    batch = device.batch()
    batch.copy(buffer, other, 0, 0, 64)
    recording = device.record(batch)
    recording.submit()
    del buffer, batch, recording
    gc.collect()
    assert device.release_imports() == before
