"""Determinism: a mode that begins a generation where it changes."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.determinism import is_deterministic, set_deterministic
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import TraceError


def test_a_change_begins_a_generation(gpu: GpuDevice) -> None:
    before = gpu.generation
    set_deterministic(False)
    assert gpu.generation == before
    try:
        set_deterministic(True)
        assert is_deterministic()
        assert gpu.generation != before
    finally:
        set_deterministic(False)


def test_a_trace_refuses_a_change(gpu: GpuDevice) -> None:
    @fw.jit
    def changed(x: fw.Tensor) -> fw.Tensor:
        set_deterministic(True)
        return x + 1

    with pytest.raises(TraceError, match="determinism is set"):
        changed(fw.ones(2, device=gpu))
    assert not is_deterministic()
