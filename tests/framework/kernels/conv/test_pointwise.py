"""Convolutions with filters of one pixel, and when images are read as they lie."""

from collections.abc import Iterator

import pytest

import vkbackend
from tests.framework.ops.convolutions import call_of, check, on_any_device
from tests.framework.ops.large import forget_plans
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DType, float16, float32
from vkbackend.framework.ir.kernel_call import BufferOffset
from vkbackend.framework.kernels.conv import pointwise
from vkbackend.framework.kernels.conv.window import Window
from vkbackend.framework.kernels.gemm import select
from vkbackend.framework.kernels.gemm.tiles import TileConfig
from vkbackend.framework.kernels.gpu_model import SIMT_TILES

pytestmark = pytest.mark.core

PASSES = ("forward", "input_vjp")
PIXEL = Window((1, 1), (1, 1), (0, 0), (1, 1))


@pytest.fixture
def taken(
    device: vkbackend.Device, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, list[str]]]:
    skip_where_it_crashes(device.info)
    yield from on_any_device(monkeypatch, pointwise, *PASSES)


# The depth of the second is no whole tile, so its filters are copied; nor is its width.
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("channels", "filters"), [(64, 80), (70, 40)])
@pytest.mark.parametrize("bias", [False, True])
def test_result_and_gradients(
    gpu: GpuDevice, taken: dict[str, list[str]], channels: int, filters: int, bias: bool
) -> None:
    shapes = ((3, channels, 14, 20), (filters, channels, 1, 1), (filters,))[: 2 + bias]
    check(gpu, shapes, {})
    # Where the depth is no whole tile, images would be copied.
    whole = {"forward": channels % 16 == 0, "input_vjp": filters % 16 == 0}
    assert {name: name in taken for name in PASSES} == whole


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_bias_beside_slices_of_k(
    gpu: GpuDevice,
    taken: dict[str, list[str]],
    splits: int,
    merged: bool,
    transposed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first slice adds it; of several products each has that of its rows."""
    config = TileConfig(SIMT_TILES[3], splits)
    monkeypatch.setattr(
        pointwise, "merged_config", lambda *_: (config, 0.0) if merged else None
    )
    monkeypatch.setattr(select, "_ranked_configs", lambda *_: iter([config]))
    forget_plans()
    name = "conv_transpose2d" if transposed else "conv2d"
    weight = (64, 80, 1, 1) if transposed else (80, 64, 1, 1)
    check(gpu, ((3, 64, 14, 20), weight, (80,)), {}, name=name)
    kernels = taken["input_vjp" if transposed else "forward"]
    assert kernels[0] == "matmul/gemm_simt"
    assert ("matmul/sum_slices" in kernels) == (splits > 1)


def test_products_of_parts_of_the_rows_have_their_own_bias(
    discrete: vkbackend.DeviceInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TileConfig(SIMT_TILES[3], 3, tail_rows=1)
    monkeypatch.setattr(pointwise, "merged_config", lambda *_: None)
    monkeypatch.setattr(select, "_ranked_configs", lambda *_: iter([config]))
    call = call_of(discrete, (1, 512, 16, 16), 4 * config.tile.m, PIXEL)
    found = pointwise.forward(call._replace(bias=True)) or []
    products = [each for each in found if "BIAS" in each.defines]
    rows = 3 * config.tile.m
    assert [each.push["m"] for each in products] == [rows, config.tile.m]
    assert [each.push["bias"] for each in products] == [
        "bias",
        BufferOffset("bias", 4 * rows),
    ]
    assert len(found) == 3


def test_what_is_left_to_other_kernels(discrete: vkbackend.DeviceInfo) -> None:
    def found(
        edge: int, window: Window = PIXEL, dtype: DType = float32
    ) -> tuple[bool, bool]:
        call = call_of(discrete, (64, 64, edge, edge), 128, window, dtype)
        answers = pointwise.forward(call), pointwise.input_vjp(call)
        return answers[0] is not None, answers[1] is not None

    assert found(56) == found(14) == found(56, dtype=float16) == (True, True)
    # Lines of 49 pixels, of 64, and of 196 in vectors of 8.
    assert found(7) == found(8) == found(14, dtype=float16) == (False, False)
    for other in (
        Window((3, 3), (1, 1), (1, 1), (1, 1)),
        PIXEL._replace(stride=(2, 2)),
        PIXEL._replace(padding=(1, 1)),
    ):
        assert found(56, other) == (False, False)
