"""Convolutions with filters of one pixel, and when images are read as they lie."""

from collections.abc import Iterator

import pytest

import vkbackend
from tests.framework.ops.convolutions import call_of, check, on_any_device
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DType, float16, float32
from vkbackend.framework.kernels.conv import pointwise
from vkbackend.framework.kernels.conv.window import Window

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
