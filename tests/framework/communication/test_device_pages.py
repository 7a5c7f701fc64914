"""Shared pages as a device sees them."""

from typing import Any

import numpy as np
import pytest

from tests.vkbackend.command.test_transfer import with_transfer_queues
from tests.vkbackend.gate import held
from vkbackend import Device, HostPages
from vkbackend.driver.physical_device import choose
from vkbackend.driver.queue import Queue
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.communication.device_pages import Copied, DevicePages


def test_bytes_go_out_and_come_in(gpu: GpuDevice) -> None:
    if not gpu.gpu.memory.import_alignment:
        pytest.skip("the driver imports no host memory")
    host = HostPages.anonymous(1)
    view = np.frombuffer(host.view(), np.uint8)
    pages = DevicePages(gpu.gpu, gpu.gpu.import_pages(host), view.ctypes.data)
    own, goal = gpu.gpu.allocate(64), gpu.gpu.allocate(64)
    gpu.gpu.upload(np.arange(64, dtype=np.uint8), own)
    gpu.gpu.upload(np.zeros(64, np.uint8), goal)

    def wait(point: object) -> None:
        copied = Copied([point])  # type: ignore[list-item]
        while not copied.holds():
            pass
        assert copied.counters() is None
        assert copied.ranks() == ()

    wait(pages.filler([(own, 0), (own, 32)])(1, 4, view[100:108]))
    assert view[100:108].tolist() == [*range(36, 44)]
    view[200:203] = 7
    consume = pages.writer([(goal, 0), (goal, 32)], 0, (own, 16))
    wait(consume(1, 2, view[200:203]))
    wait(consume(0, 1, view[300:302]))
    found = np.frombuffer(gpu.gpu.read(goal), np.uint8)
    assert found.nonzero()[0].tolist() == [1, 2, 34, 35, 36]
    assert found[[1, 2, 34]].tolist() == [17, 18, 7]


@pytest.mark.device
def test_copies_of_different_slots_go_both_ways_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None waits for another one, but each for what makes or uses its own elements."""
    device = with_transfer_queues(Device(choose()))
    if not device.memory.import_alignment:
        pytest.skip("the driver imports no host memory")
    host = HostPages.anonymous(1)
    view = np.frombuffer(host.view(), np.uint8)
    pages = DevicePages(device, device.import_pages(host), view.ctypes.data)
    own, goal = device.allocate(64), device.allocate(64)
    sent, send = [], Queue._send

    def noted(self: Queue, *given: Any) -> None:
        sent.append((self.name, [each.name for each in given[2]]))
        send(self, *given)

    monkeypatch.setattr(Queue, "_send", noted)
    with held(device.compute_queue) as gate:
        sent.clear()
        batch = device.batch()
        batch.fill(own, 1)
        batch.submit()
        fill = pages.filler([(own, 0)])
        take = pages.writer([(goal, 0), (goal, 0)], 0, (own, 0))
        fill(0, 0, view[0:32])
        take(1, 0, view[64:96])
        fill(0, 32, view[32:64])
        batch = device.batch()
        batch.fill(goal, 2)
        batch.submit()
        assert sent[:4] == [
            ("compute", []),
            ("readback", ["compute"]),
            ("transfer", []),
            ("readback", ["compute"]),
        ]
        # The copy may be over by now.
        assert sent[4:] in ([("compute", ["transfer"])], [("compute", [])])
        assert len(pages.buffer.points()) == 2
        gate.open()
    assert (view[:64].view(np.uint32) == 1).all()
    device.close()


@pytest.mark.device
def test_what_is_given_may_be_a_part_of_what_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both ways at once in one buffer, after what was submitted before."""
    device = with_transfer_queues(Device(choose()))
    if not device.memory.import_alignment:
        pytest.skip("the driver imports no host memory")
    host = HostPages.anonymous(1)
    view = np.frombuffer(host.view(), np.uint8)
    pages = DevicePages(device, device.import_pages(host), view.ctypes.data)
    both = device.allocate(128)
    sent, send = [], Queue._send

    def noted(self: Queue, *given: Any) -> None:
        sent.append((self.name, [each.name for each in given[2]]))
        send(self, *given)

    monkeypatch.setattr(Queue, "_send", noted)
    view[64:128] = 7
    with held(device.compute_queue) as gate:
        sent.clear()
        batch = device.batch()
        batch.fill(both, 1)
        batch.submit()
        fill = pages.filler([(both, 0)])
        take = pages.writer([(both, 0), (both, 64)], 0, None)
        fill(0, 0, view[0:32])
        take(1, 0, view[64:96])
        fill(0, 32, view[32:64])
        take(1, 32, view[96:128])
        ways = ("readback", "transfer", "readback", "transfer")
        assert sent == [("compute", []), *[(way, ["compute"]) for way in ways]]
        gate.open()
    found = np.frombuffer(device.read(both), np.uint8)
    assert (view[:64].view(np.uint32) == 1).all()
    assert (found[:64].view(np.uint32) == 1).all()
    assert (found[64:] == 7).all()
    device.close()
