"""Passes over chunks: how many levels, and what they carry."""

import dataclasses

import pytest

import vkbackend
from vkbackend.framework.base.dtype import bool_, float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.scan import (
    CHUNK,
    NONZERO_CHUNK,
    SEGMENT_CHUNK,
    nonzero_dispatches,
    scan_dispatches,
    segment_sum_dispatches,
)


@pytest.mark.core
def test_levels_on_a_gpu(device: vkbackend.Device) -> None:
    info = dataclasses.replace(device.info, kind="discrete")
    shape = (1, CHUNK**2 + 1, 1)
    x = StridedSpec(shape, float32, Layout.contiguous(shape))
    steps = scan_dispatches(info, x, product=False, reverse=True)
    assert [step.push["count"] for step in steps] == [
        CHUNK**2 + 1,
        CHUNK + 1,
        2,
        65,
        4097,
    ]
    assert [step.constants["REVERSE"] for step in steps] == [1, 0, 0, 0, 1]
    assert steps[2].push["out_"] == steps[3].push["carry"]


def test_carries_of_a_segment_sum_become_fewer(discrete: vkbackend.DeviceInfo) -> None:
    entries = SEGMENT_CHUNK**2
    shape = (2, entries, 3)
    source = StridedSpec(shape, float32, Layout.contiguous(shape))
    zero, *steps = segment_sum_dispatches(discrete, source, 7)
    assert zero.push["count"] == 2 * 7 * 3
    assert [step.push["entries"] for step in steps] == [entries, 2 * SEGMENT_CHUNK, 4]
    assert [step.constants["FIRST"] for step in steps] == [1, 0, 0]
    assert [step.constants["LAST"] for step in steps] == [0, 0, 1]


def test_starts_of_true_elements_are_added_up_by_one_workgroup() -> None:
    shape = (1000 * NONZERO_CHUNK,)
    mask = StridedSpec(shape, bool_, Layout.contiguous(shape))
    steps = nonzero_dispatches(mask)
    assert [step.grid for step in steps] == [(4, 1, 1), (1, 1, 1), (4, 1, 1)]
    assert [step.constants["PASS"] for step in steps] == [0, 1, 2]
