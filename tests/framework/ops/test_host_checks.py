"""Flags that the host reads."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops import host_checks


@pytest.mark.parametrize("count", [3, 100])
def test_whether_a_place_is_not_zero(
    count: int, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FEW", "FEW_FAR"):
        monkeypatch.setattr(host_checks, name, 16)
    data = np.zeros(count, "i4")
    before = gpu.gpu.counters.host_read_bytes
    assert not host_checks.is_any(fw.tensor(data, device=gpu))
    data[-1] = 5
    assert host_checks.is_any(fw.tensor(data, device=gpu))
    read = gpu.gpu.counters.host_read_bytes - before
    assert read == 2 * (data.nbytes if count <= 16 else 4)
    assert host_checks.read(fw.tensor(data, device=gpu)).tolist() == data.tolist()


def test_no_place_is_found_in_a_trace(gpu: GpuDevice) -> None:
    seen = []

    def call(x: fw.Tensor) -> fw.Tensor:
        seen.append(host_checks.is_any(x))
        return x + 1

    fw.jit(call)(fw.ones(3, device=gpu))
    assert seen[-1] is False
