import pytest

import vkbackend
from vkbackend.framework.base.dtype import DType, float32, uint8
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.quantized_format import FORMATS
from vkbackend.framework.base.shape import Layout, TensorSpec
from vkbackend.framework.ir.kernel_call import Dispatch, StridedSpec
from vkbackend.framework.kernels.quantized import (
    dequantize_dispatch,
    gemv_dispatch,
)


def spec(dtype: DType, *shape: int) -> StridedSpec:
    return StridedSpec(shape, dtype, Layout.contiguous(shape))


def chosen(info: vkbackend.DeviceInfo, rows: int, columns: int, k: int) -> Dispatch:
    kind = FORMATS["q4_k"]
    blocks = spec(uint8, columns, kind.row_size(k))
    return gemv_dispatch(info, spec(float32, rows, k), blocks, kind, False)


@pytest.mark.parametrize("rows", [1, 2, 8, 9, 64])
@pytest.mark.parametrize("k", [256, 4096, 14336, 1 << 18])
def test_workgroups_fit(
    rows: int, k: int, discrete: vkbackend.DeviceInfo, device: vkbackend.Device
) -> None:
    for info in (discrete, device.info):
        dispatch = chosen(info, rows, 4096, k)
        constants = dispatch.constants
        local, outputs = constants["LOCAL_X"], constants["OUTPUTS"]
        assert local <= info.max_workgroup_invocations
        assert local % outputs == 0
        assert outputs % constants["BATCH"] == 0
        parts = constants["ROWS"] * outputs * (local + local // outputs)
        assert 4 * (parts + 2 * local + 32 + outputs) <= info.max_shared_memory
        assert dispatch.grid[2] * constants["ROWS"] >= rows


def test_workgroups_cover_rows_evenly(discrete: vkbackend.DeviceInfo) -> None:
    sizes = [chosen(discrete, 1, 4096, k).constants["LOCAL_X"] for k in (4096, 14336)]
    assert sizes == [128, 224]


def test_wide_products_have_more_columns_a_workgroup(
    discrete: vkbackend.DeviceInfo,
) -> None:
    few, many = (chosen(discrete, 1, n, 4096) for n in (256, 1 << 16))
    assert few.constants["OUTPUTS"] == 4
    assert many.constants["OUTPUTS"] == 16
    assert chosen(discrete, 20, 256, 256).grid[2] == 10


def test_tiles_in_a_launch_with_others(discrete: vkbackend.DeviceInfo) -> None:
    wide, narrow = (chosen(discrete, 1, n, 4096) for n in (4096, 256))
    for dispatch, groups in ((wide, [256, 512, 1024]), (narrow, [16, 32, 64])):
        assert dispatch.joined is not None
        assert [grid[0] for grid, _ in dispatch.joined.tiles] == groups
        outputs = [constants["OUTPUTS"] for _, constants in dispatch.joined.tiles]
        assert outputs == [16, 8, 4]
    assert chosen(discrete, 20, 256, 256).joined is None


def test_sizes_that_shaders_cannot_number_are_refused(
    discrete: vkbackend.DeviceInfo,
) -> None:
    with pytest.raises(ShapeError, match="a device takes fewer than 4294967296"):
        chosen(discrete, 1, 1 << 20, 8192)
    kind = FORMATS["q4_0"]
    blocks = spec(uint8, 1 << 20, kind.row_size(4096))
    out = TensorSpec((1 << 20, 4096), float32)
    with pytest.raises(ShapeError, match="result has 4294967296 elements"):
        dequantize_dispatch(discrete, blocks, kind, out)
