"""Grids of windows over images and volumes."""

import pytest

import vkbackend
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.kernels.conv import implicit_gemm
from vkbackend.framework.kernels.conv.problem import ConvCall, Convolution
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.kernels.conv.window_grid import (
    COLUMNS_TOGETHER,
    DepthGrid,
    DepthTaps,
    WindowGrid,
    depth_phases,
    volumes_together,
    window_grid,
)
from vkbackend.framework.kernels.gemm.tiles import SIMT

PLANE = Window((1, 1), (1, 1), (0, 0), (1, 1))


def deep_call(
    gpu: vkbackend.DeviceInfo, planes: int, taps: int, stride: int, pad: int, gap: int
) -> ConvCall:
    """Return a convolution along depth alone."""
    depth = Window((taps, 1), (stride, 1), (pad, 0), (gap, 1))
    how = Convolution(PLANE, 1, SIMT, depth)
    x = TensorSpec((2, 3, planes, 2, 2), float32)
    weight = TensorSpec((5, 3, taps, 1, 1), float32)
    return ConvCall.of(gpu, how, x, weight, how.out(x, weight))


@pytest.mark.parametrize("planes", [5, 8])
@pytest.mark.parametrize(
    ("taps", "stride", "pad", "gap"),
    [(3, 1, 1, 1), (2, 1, 0, 2), (3, 2, 1, 1), (4, 3, 2, 1), (2, 2, 0, 1)],
)
def test_phases_have_each_product_once(
    discrete: vkbackend.DeviceInfo,
    planes: int,
    taps: int,
    stride: int,
    pad: int,
    gap: int,
) -> None:
    """Every tap of every window takes its plane to a result, and nothing else does."""
    call = deep_call(discrete, planes, taps, stride, pad, gap)
    wanted = {
        (at * stride + tap * gap - pad, tap, at)
        for at in range(call.result_planes)
        for tap in range(taps)
        if 0 <= at * stride + tap * gap - pad < planes
    }
    found = set()
    for number, (grid, deep) in enumerate(depth_phases(call)):
        for window in range(grid.grid):
            for tap in range(grid.taps):
                padded = grid.first + window * grid.step + tap * grid.gap
                assert 0 <= padded < grid.padded
                own = deep.first + deep.step * (deep.planes - 1 - tap)
                seen = padded - grid.before
                if 0 <= seen < call.result_planes:
                    found.add((number + window * stride, own, seen))
    assert found == wanted


def test_windows_along_depth(discrete: vkbackend.DeviceInfo) -> None:
    found = window_grid(deep_call(discrete, 7, 3, 2, 1, 1))
    assert found.depth == DepthGrid(1, 9, 4, 2, 3, 1)
    assert (found.images, found.deep) == (14, 3)
    # Of 12 planes of windows, one is in front of a volume, and one behind it.
    assert found.tap_planes() == (12, 10)
    assert found.pixels == 2 * 9 * 4
    assert found.number == 2 * 4 * 4


def test_without_depth() -> None:
    windows = WindowGrid(2, 20, (9, 9), (1, 1), (4, 3), (2, 3), (3, 2), (1, 4))
    assert windows.deep == 1
    assert windows.tap_planes() == (1, 1)
    assert windows.first_vector(5) == 0
    assert "DEEP" not in windows.constants(5)


def test_as_few_volumes_as_fill_tiles_are_together() -> None:
    def together(volumes: int, high: int) -> int:
        grid = DepthGrid(0, 3, 3)
        windows = WindowGrid(
            3 * volumes, 4, (high, high), (0, 0), (high, high), planes=3, depth=grid
        )
        return volumes_together(windows)

    assert together(4, 64) == 1
    assert together(256, 14) == 8
    assert 14 * 14 * 8 >= COLUMNS_TOGETHER
    assert together(7, 14) == 7
    assert DepthTaps(3) == DepthTaps(3, 0, 1, False)


def test_phases_that_other_kernels_take(discrete: vkbackend.DeviceInfo) -> None:
    """One has no tap, or other windows than another."""

    def number(stride: int, gap: int) -> int:
        return len(depth_phases(deep_call(discrete, 7, 3, stride, 0, gap)))

    assert [number(stride, 1) for stride in (1, 2, 3, 4)] == [1, 2, 3, 0]
    assert [number(stride, 2) for stride in (1, 2)] == [1, 0]


def test_planes_outside_of_volumes_are_left_out(discrete: vkbackend.DeviceInfo) -> None:
    """Of the gradient by volumes half of all products are of such planes."""
    depth = Window((3, 1), (1, 1), (0, 0), (1, 1))
    window = Window((3, 3), (1, 1), (0, 0), (1, 1))
    how = Convolution(window, 1, SIMT, depth)
    x = TensorSpec((32, 64, 4, 56, 56), float32)
    weight = TensorSpec((64, 64, 3, 3, 3), float32)
    call = ConvCall.of(discrete, how, x, weight, how.out(x, weight))
    (product,) = implicit_gemm._input_products(call)
    assert product.windows.tap_planes() == (12, 6)
    found = implicit_gemm.input_vjp(call)
    assert found is not None
    constants = found[-1].constants
    assert (constants["OWN_PLANES"], constants["FRONT"]) == (2, 2)
    # Planes of one depth of a volume fill many tiles.
    assert constants["VOLUMES"] == 1
