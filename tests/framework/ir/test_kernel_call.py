"""Grids and divisors: integers that the shaders rely on."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vkbackend
from vkbackend.driver.target import LOOP_LIMIT
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.ir.kernel_call import (
    MAX_GROUPS,
    check_rounds,
    device_macros,
    divisor,
    fold_grid,
    linear_grid,
)

WORD = (1 << 32) - 1


@given(st.integers(0, 1 << 40), st.sampled_from([1, 64, 256]))
def test_linear_grid_covers_everything(invocations: int, workgroup: int) -> None:
    x, y, z = linear_grid(invocations, workgroup)
    assert 1 <= y
    assert x <= MAX_GROUPS
    assert x * y * workgroup >= invocations
    # No more than one row of workgroups has no work.
    assert (x * y - x) * workgroup <= invocations
    assert z == 1


def test_fold_grid() -> None:
    assert fold_grid(MAX_GROUPS, 3) == (MAX_GROUPS, 1, 3)
    assert fold_grid(MAX_GROUPS + 1) == (32768, 2, 1)


@given(st.integers(0, WORD), st.integers(1, WORD))
def test_divisor_is_exact(value: int, size: int) -> None:
    magic, shift = divisor(size)
    assert 0 <= magic <= WORD
    # As `divide` of glsl/lib/index.glsl does it in 32-bit words.
    high = value * magic >> 32
    first = min(shift, 1)
    assert (high + (value - high >> first) & WORD) >> shift - first == value // size


@pytest.mark.core
def test_long_loops_are_for_real_devices(device: vkbackend.Device) -> None:
    software = dataclasses.replace(device.info, kind="software")
    check_rounds(software, "sum", LOOP_LIMIT)
    check_rounds(dataclasses.replace(device.info, kind="discrete"), "sum", 1 << 20)
    with pytest.raises(ShapeError) as raised:
        check_rounds(software, "sum", LOOP_LIMIT + 1)
    assert str(raised.value) == (
        "sum: one result would take 32769 rounds of a loop; software devices are"
        " trusted with 32768; use the cpu device for this size"
    )


@pytest.mark.parametrize(
    ("kind", "rounds", "wanted"),
    [("discrete", True, True), ("discrete", False, False), ("software", True, False)],
)
def test_device_macros(
    device: vkbackend.Device, kind: str, rounds: bool, wanted: bool
) -> None:
    info = dataclasses.replace(device.info, kind=kind, rounds_to_float16=rounds)
    assert ("DEVICE_ROUNDING" in device_macros(info)) == wanted
