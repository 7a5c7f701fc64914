"""Which sums of resampling are of groups, and how large these are."""

import dataclasses

import pytest

from vkbackend import DeviceInfo
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.shape import Shape
from vkbackend.framework.kernels.resample import grouped_sum_dispatch


@pytest.mark.parametrize(
    ("shape", "outs", "taps", "group", "shares"),
    [
        # Few results: as many as leave four taps for each.
        ((7, 818), (1,), (818,), 128, (128, 1, 4)),
        ((7, 8, 4), (1, 1), (8, 4), 8, (4, 4, 1)),
        ((7, 1, 999, 1), (1, 1, 1), (1, 999, 1), 128, (1, 4, 1)),
        ((7, 99, 99), (1, 1), (99, 99), 256, (128, 4, 1)),
        # So many that the device is full.
        ((2048, 3136), (5,), (628,), 16, (16, 1, 4)),
        ((2048, 56, 56), (5, 5), (12, 12), 4, (4, 4, 1)),
        ((2048, 4, 56, 56), (5, 5, 5), (2, 12, 12), None, ()),
        # And those that would read lines of their own.
        ((1 << 19, 640), (5,), (128,), 8, (8, 1, 4)),
        ((7, 31), (1,), (31,), None, ()),
    ],
)
def test_groups_on_hardware(
    shape: Shape,
    outs: Shape,
    taps: tuple[int, ...],
    group: int | None,
    shares: tuple[int, ...],
    discrete: DeviceInfo,
) -> None:
    tables = {f"{k}": (out, 2 + tap) for k, (out, tap) in enumerate(zip(outs, taps))}
    software = dataclasses.replace(discrete, kind="software")
    assert grouped_sum_dispatch(software, float32, shape, tables) is None
    found = grouped_sum_dispatch(discrete, float32, shape, tables)
    if group is None:
        assert found is None
        return
    assert found is not None
    constants = found.constants
    assert (constants["DIMS"], constants["GROUP"]) == (len(outs), group)
    assert tuple(constants[name] for name in ("ACROSS", "ROWS", "ITEMS")) == shares
    assert found.push["columns"] == shape[-1]
