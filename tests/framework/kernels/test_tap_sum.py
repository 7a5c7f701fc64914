"""Which images workgroups hold to sum their elements by index."""

import dataclasses

import pytest

from vkbackend import DeviceInfo
from vkbackend.framework.base.dtype import DType, float16, float32, float64
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.tap_sum import (
    HeldPlanes,
    held_planes,
    scattered_planes,
)


@pytest.mark.parametrize(
    ("shape", "dtype", "places", "wanted"),
    [
        ((32, 64, 3136), float32, 3136, HeldPlanes(2, 32, 1)),
        ((32, 64, 3136), float16, 3136, HeldPlanes(2, 16, 2)),
        ((7, 13, 4087), float32, 4087, HeldPlanes(2, 7, 4)),
        ((256, 3, 64), float16, 640, HeldPlanes(2, 1, 3)),
        ((32, 64, 3136), float64, 3136, None),
        # Images too large, more of them than is read, and few.
        ((32, 64, 8193), float32, 8193, None),
        ((32, 64, 3136), float32, 700, None),
        ((1, 3, 3136), float32, 3136, None),
    ],
)
def test_which_images_are_held(
    shape: tuple[int, int, int],
    dtype: DType,
    places: int,
    wanted: HeldPlanes | None,
    discrete: DeviceInfo,
) -> None:
    x = StridedSpec(shape, dtype, Layout.contiguous(shape))
    assert held_planes(discrete, x, 4, places) == wanted
    software = dataclasses.replace(discrete, kind="software")
    assert held_planes(software, x, 4, places) is None


def test_which_gradients_are_added_up_in_shared_memory(discrete: DeviceInfo) -> None:
    assert scattered_planes(discrete, (32, 64, 3136)) == 2
    assert scattered_planes(discrete, (140, 5, 33)) == 1
    assert scattered_planes(discrete, (140, 40, 33)) == 4
    assert scattered_planes(discrete, (32, 64, 8193)) is None
    assert scattered_planes(discrete, (1, 64, 3136)) is None
