"""Tiles of attention without tensor cores."""

import dataclasses

import pytest

from vkbackend import DeviceInfo
from vkbackend.framework.kernels.attention import flash


@pytest.mark.parametrize("kernel", flash.QUAD_TILES)
def test_tiles_fit_into_shared_memory(kernel: str, discrete: DeviceInfo) -> None:
    # As much as every device has (Vulkan 1.0, limits table).
    small = dataclasses.replace(discrete, max_shared_memory=16384)
    choose, least = flash._quad_tile, flash.SMALL_QUAD_TILE
    for head in (4, 64, 128, 256):
        assert choose(small, kernel, head) == least
        assert choose(discrete, kernel, head).shared_memory <= 49152
    assert least.shared_memory <= 16384
    assert choose(discrete, kernel, 64) != least
    assert choose(discrete, kernel, 256) == least
