"""Lazy values that repeat one number."""

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ir.constants import is_one


def test_ones_are_found_through_casts(gpu: GpuDevice) -> None:
    one = fw.ones((), device=gpu)
    assert is_one(one.array.value)
    assert is_one(one.bfloat16().float().array.value)
    assert not is_one((one * 3).array.value)
    assert not is_one(fw.full((), 2.0, device=gpu).bfloat16().array.value)


def test_what_is_in_memory_is_not_looked_at(gpu: GpuDevice) -> None:
    one = fw.ones((), device=gpu)
    fw.eval(one)
    assert not is_one(one.array.value)
