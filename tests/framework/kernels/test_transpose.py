"""Which layouts are transposed through shared memory, and by how many workgroups."""

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.transpose import (
    planes_of,
    tile_of,
    transpose_dispatch,
)


def test_which_layouts_are_transposed() -> None:
    def transposed_of(shape: tuple[int, ...], order: tuple[int, ...]) -> bool:
        planes = planes_of(Layout.contiguous(shape).permute(order))
        return planes is not None and planes.is_transposed

    assert transposed_of((20, 30), (1, 0))
    assert transposed_of((2, 20, 30), (0, 2, 1))
    assert transposed_of((2, 20, 5, 6), (0, 2, 3, 1))
    assert not transposed_of((20, 30), (0, 1))
    assert not transposed_of((20, 15), (1, 0)), "hardly any rows"
    assert not transposed_of((2, 20, 30), (1, 0, 2)), "rows stay whole"
    assert not transposed_of((2, 3, 20, 30), (1, 0, 3, 2)), "too many dimensions"


def test_which_flips_are_of_rows_and_columns() -> None:
    def flips_of(order: tuple[int, ...], *dims: int) -> tuple[bool, bool] | None:
        planes = planes_of(Layout.contiguous((20, 30, 40)).permute(order), dims)
        return planes and (planes.flips_rows, planes.flips_columns)

    assert flips_of((0, 2, 1), 1) == (True, False)
    assert flips_of((0, 2, 1), 2) == (False, True)
    assert flips_of((0, 2, 1), 1, 2) == (True, True)
    assert flips_of((0, 2, 1), 0) is None, "planes stay in order"
    assert flips_of((1, 2, 0), 0) is None, "what is flipped is a part of the rows"


def test_more_tiles_than_a_grid_is_wide(gpu: GpuDevice) -> None:
    x = fw.zeros((1, 64), device=gpu).expand(64 * 70_000, 64).T
    layout = planes_of(x.layout)
    assert layout is not None
    placed = StridedSpec(x.shape, x.dtype, x.layout)
    grid = transpose_dispatch(gpu.gpu.info, placed).grid
    assert grid[1] == 2
    assert grid[0] * grid[1] >= 70_000


def test_tiles_of_narrow_results_are_long() -> None:
    assert tile_of(100, 5000, 256) == (64, 64)
    assert tile_of(33, 5000, 256) == (64, 64)
    assert tile_of(5000, 20, 256) == (128, 32)
    assert tile_of(16, 5000, 256) == (16, 256)
    assert tile_of(16, 5000, 128) == (16, 128)
