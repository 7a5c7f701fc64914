"""Buffers on host pages: what kernels and copies do there, and how long they last."""

import os
from collections.abc import Callable

import numpy as np
import pytest

from tests.interruption import each_interruption
from tests.vkbackend.gate import held
from tests.vkbackend.kernels import add_affine, affine, fill, filled, words
from vkbackend import ArgumentError, Device, HostPages, VulkanError
from vkbackend.driver.physical_device import choose
from vkbackend.memory.host_pages import window_pages

pytestmark = pytest.mark.usefixtures("_no_collector")

WORDS = 16_384
VALUES = np.arange(WORDS, dtype=np.uint32)


def window() -> HostPages:
    """Return pages in the middle of others."""
    owner = HostPages.shared(8 * WORDS)
    return window_pages(owner, owner.address + 264, 4 * WORDS + 4096)


MAKERS = [lambda: HostPages.anonymous(4 * WORDS), lambda: HostPages.shared(1), window]


@pytest.fixture
def importer(device: Device) -> Device:
    """Return a device that imports pages."""
    if not device.memory.import_alignment:
        pytest.skip("the driver imports no host memory")
    return device


def content(pages: HostPages) -> np.ndarray:
    """Return the words in pages."""
    return np.frombuffer(pages.view(), np.uint32)


@pytest.mark.parametrize("make", MAKERS, ids=["anonymous", "shared", "window"])
def test_kernels_and_copies_use_pages(
    importer: Device, make: Callable[[], HostPages]
) -> None:
    pages = make()
    host = content(pages)
    buffer, result = importer.import_pages(pages), importer.allocate(pages.size)
    host[:] = VALUES[: len(host)]
    batch = importer.batch()
    add_affine(batch, affine(importer), buffer, result, 3, 1)
    # Written after it is read, and read again: two barriers.
    add_affine(batch, affine(importer), result, buffer, 2)
    other = importer.allocate(pages.size)
    batch.copy(buffer, other)
    barriers = batch.counts[1]
    batch.submit().wait()
    wanted = 6 * VALUES[: len(host)] + 2
    assert barriers == 2
    assert (host == wanted).all()
    assert (words(importer, other) == wanted).all()
    assert (words(importer, buffer) == wanted).all()
    importer.upload(VALUES[:8], buffer, 32)
    assert (host[8:16] == VALUES[:8]).all()


@pytest.mark.device
def test_pages_stay_until_their_work_is_over(importer: Device) -> None:
    importer.empty_cache()
    before = importer.live_objects()
    pages = HostPages.shared(1)
    view = pages.view()
    with held(importer.compute_queue) as gate:
        buffer = importer.import_pages(pages)
        point = fill(importer, buffer, 7)
        del buffer, pages
        importer.empty_cache()
        assert importer.live_objects() != before
        gate.open()
        assert importer.release_imports() == 0
        assert point.done()
    assert importer.live_objects() == before
    assert set(view) == {0, 7}


@pytest.mark.device
def test_pages_are_imported_once_at_a_time(importer: Device) -> None:
    pages = HostPages.shared(8 * WORDS)
    inner = window_pages(pages, pages.address + 4096, 4096)
    buffer = importer.import_pages(pages)
    for some in (pages, inner):
        with pytest.raises(ArgumentError, match=r"imported already: .* meets 131072"):
            importer.import_pages(some)
    assert importer.release_imports() == 1
    fill(importer, buffer, 1)
    del buffer
    with held(importer.compute_queue) as gate:
        gate.open()
        buffer = importer.import_pages(inner)
    assert buffer.size == 4096
    del buffer
    assert importer.release_imports() == 0


@pytest.mark.device
def test_bad_pages_are_refused(
    importer: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArgumentError, match="bytearray is not accepted: a device may"):
        importer.import_pages(bytearray(4096))  # type: ignore[arg-type]
    owner = HostPages.anonymous(4 * WORDS)
    crooked = HostPages(owner, owner.address + 1, 4096)
    with pytest.raises(ArgumentError, match=r"not aligned: .*takes multiples of \d+"):
        importer.import_pages(crooked)
    monkeypatch.setattr(importer.memory, "import_alignment", 0)
    with pytest.raises(ArgumentError, match=r"imports no host pages; copy through"):
        importer.import_pages(owner)


@pytest.mark.device
def test_a_refusal_leaves_nothing(
    importer: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> int:
        raise VulkanError("vkAllocateMemory: refused")

    before, pages = importer.live_objects(), HostPages.anonymous(1)
    with monkeypatch.context() as patch:
        patch.setattr(importer.memory, "_allocate", refuse)
        with pytest.raises(VulkanError, match="refused"):
            importer.import_pages(pages)
    assert importer.live_objects() == before
    assert importer.import_pages(pages).size == pages.size
    importer.release_imports()


@pytest.mark.device
def test_closing_lets_go_of_pages() -> None:
    device = Device(choose())
    if not device.memory.import_alignment:
        device.close()
        pytest.skip("the driver imports no host memory")
    pages = HostPages.anonymous(1)
    buffer = device.import_pages(pages)
    device.upload(b"abc", buffer)
    device.close()
    assert device.live_objects() == {}
    assert bytes(pages.view()[:3]) == b"abc"
    with pytest.raises(ArgumentError, match="the device is closed"):
        device.import_pages(pages)


@pytest.mark.device
def test_an_interrupt_at_any_line_leaves_it_whole(importer: Device) -> None:
    x = filled(importer, VALUES)
    before = importer.live_objects()
    pages = HostPages.anonymous(x.size)

    def come_and_go() -> None:
        batch = importer.batch()
        batch.copy(x, importer.import_pages(pages))
        batch.submit()
        importer.release_imports()

    for one in each_interruption(come_and_go):
        assert importer.release_imports() == 0, one.where
        come_and_go()
        assert (content(pages) == VALUES).all(), one.where
    importer.memory.finish_frees()
    assert importer.live_objects() == before


@pytest.fixture
def exporter(device: Device) -> Device:
    """Return a device that shares memory by descriptor."""
    if not device.memory.descriptors:
        pytest.skip("the driver shares no memory by descriptor")
    return device


@pytest.mark.device
def test_two_devices_share_memory(exporter: Device) -> None:
    # What copies between the host and a card go through is kept.
    first = exporter.allocate_exportable(4 * WORDS)
    exporter.upload(VALUES, first)
    words(exporter, first)
    del first
    exporter.empty_cache()
    before = exporter.live_objects()
    ours = exporter.allocate_exportable(4 * WORDS, name="shared")
    descriptor = exporter.export(ours)
    other = Device(choose())
    theirs = other.import_descriptor(descriptor, ours.size)
    size = os.fstat(descriptor).st_size
    if size:
        with pytest.raises(ArgumentError, match=rf"is smaller: {size} bytes for"):
            other.import_descriptor(descriptor, size + 1)
    os.close(descriptor)
    exporter.upload(VALUES, ours)
    assert (words(other, theirs) == VALUES).all()
    result = other.allocate(ours.size)
    batch = other.batch()
    add_affine(batch, affine(other), theirs, result, 3, 1)
    batch.copy(result, theirs)
    batch.submit().wait()
    other.close()
    assert (words(exporter, ours) == 3 * VALUES + 1).all()
    del ours
    assert exporter.release_imports() == 0
    exporter.empty_cache()
    assert exporter.live_objects() == before


@pytest.mark.device
def test_what_cannot_be_shared(
    exporter: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ArgumentError, match=r"export: .* use allocate_exportable"):
        exporter.export(exporter.allocate(64))
    with pytest.raises(ArgumentError, match="the size is 0; memory to share has 1"):
        exporter.allocate_exportable(0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        exporter.import_descriptor(-1, 64)
    before, unused = exporter.live_objects(), os.open(os.devnull, os.O_RDONLY)
    os.close(unused)
    with (
        open(__file__, "rb") as file,
        pytest.raises(ArgumentError, match="is a file, folder or pipe; it must"),
    ):
        exporter.import_descriptor(file.fileno(), 64)
    assert exporter.live_objects() == before
    again = os.open(os.devnull, os.O_RDONLY)
    os.close(again)
    assert again == unused, "a descriptor is left open"
    monkeypatch.setattr(exporter.memory, "descriptors", False)
    with pytest.raises(ArgumentError, match="shares no memory by descriptor; copy"):
        exporter.allocate_exportable(64)
