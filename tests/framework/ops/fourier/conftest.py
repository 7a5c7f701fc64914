"""Devices whose transforms are in registers, or pass by pass through memory."""

import dataclasses
from collections.abc import Iterator

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice


@pytest.fixture(params=["passes", "registers"])
def either(
    request: pytest.FixtureRequest, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> Iterator[GpuDevice]:
    """Return the device, as one of which barriers are dear, and as one they are not."""
    info = gpu.gpu.info
    cheap = request.param == "registers"
    target = dataclasses.replace(info.target, cheap_barriers=cheap)
    monkeypatch.setitem(info.__dict__, "target", target)
    gpu.plans.clear()
    yield gpu
    fw.eval()
    gpu.plans.clear()
