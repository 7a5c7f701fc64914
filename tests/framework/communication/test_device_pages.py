"""Shared pages as a device sees them."""

import numpy as np
import pytest

from vkbackend import HostPages
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
