"""Copies of images and filters, and how large they are."""

import numpy as np
import pytest

import vkbackend
from tests.framework.ops.convolutions import call_of
from tests.hardware import skip_where_it_crashes
from tests.kernel_run import division, linear, run
from vkbackend.framework.base.dtype import float16
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.ir.kernel_call import Scratch
from vkbackend.framework.kernels.conv.pack import (
    WindowGrid,
    channels_last,
    filter_sums,
    filters,
)
from vkbackend.framework.kernels.conv.window import Window


def test_images_are_padded_as_far_as_windows_reach() -> None:
    windows = WindowGrid(2, 20, (9, 9), (1, 1), (4, 3), (2, 3), (3, 2), (1, 4))
    assert windows.padded == (9, 11)
    assert (windows.number, windows.pixels) == (24, 2 * 99)
    found = channels_last("x", windows, float16, 3, 500)
    assert found.memory.size == 16 * 3 * 500
    (packed,) = found.dispatches
    assert packed.grid == (8, 1, 1)


def test_filters_have_a_line_for_each_phase(discrete: vkbackend.DeviceInfo) -> None:
    window = Window((3, 3), (2, 2), (1, 1), (1, 1))
    call = call_of(discrete, (1, 3, 9, 9), 40, window)
    found = filters(call, 10, 32, 41, for_input=True)
    assert found.memory.size == 16 * 32 * 41
    (packed,) = found.dispatches
    assert packed.constants["FOR_INPUT"] == 1


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("vectors", [1, 3, 9])
def test_channels_last(device: vkbackend.Device, dtype: str, vectors: int) -> None:
    skip_where_it_crashes(device.info)
    width = 16 // np.dtype(dtype).itemsize
    channels, high, wide, across = vectors * width - 1, 6, 9, min(8, 1 << vectors // 2)
    x = np.random.default_rng(0).standard_normal((2, channels, 5, 7)).astype(dtype)
    arguments = {
        **{"x": x, "pixels": 2 * high * wide, "padded_pixels": 2 * high * wide + 5},
        **{"channels": channels, "height": 5, "width": 7, "top": 2},
        # One column of each image is left out.
        **{"left": 2**32 - 1, "padded_plane": high * wide, "padded_width": wide},
        **{"channel_vectors": vectors, "tiles": -(-vectors // across)},
        **{**division("plane", high * wide), **division("width", wide)},
    }
    pixels = 2 * high * wide + 5
    (got,) = run(
        device,
        "conv/nchw_to_nhwc",
        linear(-(-pixels // (64 // across)) * -(-vectors // across)),
        {"vectors": ((pixels, vectors * width), dtype)},
        {"LOCAL_X": 64, "VECTORS": across},
        arguments,
        defines={"DTYPE": f"DTYPE_{dtype.upper()}"},
    )
    want = np.zeros((2, high, wide, vectors * width), dtype)
    want[:, 2:6, :6, :channels] = x[:, :, :4, 1:].transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(got[:-5].reshape(want.shape), want)
    assert not got[-5:].any()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_filters(device: vkbackend.Device, dtype: str) -> None:
    """Of a stride of 2, the taps of each phase in reverse."""
    skip_where_it_crashes(device.info)
    width = 16 // np.dtype(dtype).itemsize
    weight = np.random.default_rng(0).standard_normal((5, 3, 3, 2)).astype(dtype)
    vectors = -(-5 // width)
    pitch = 2 * vectors + 1
    (got,) = run(
        device,
        "conv/pack_weight",
        linear(14 * pitch),
        {"vectors": ((14, pitch * width), dtype)},
        {"LOCAL_X": 1, "KERNEL_H": 3, "KERNEL_W": 2, "STRIDE_H": 2, "STRIDE_W": 2}
        | {"FOR_INPUT": 1},
        {"weight": weight, "rows": 14, "pitch": pitch, "channel_vectors": vectors}
        | {"out_channels": 5, "in_channels": 3, "out_count": 5, "in_count": 3}
        | {"bundle": 1},
        defines={"DTYPE": f"DTYPE_{dtype.upper()}"},
    )
    want = np.zeros((14, pitch * width), dtype)
    taps = want[:12, : 2 * vectors * width].reshape(2, 2, 3, 2, -1)
    for down, across, tap in np.ndindex(2, 2, 2):
        line = down + 2 * (1 - tap)
        if line < 3:
            taps[down, across, :, tap, :5] = weight[:, :, line, across].T
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("splits", "sharers"), [(1, 1), (7, 4), (19, 8)])
def test_filter_sums(
    device: vkbackend.Device, dtype: str, splits: int, sharers: int
) -> None:
    skip_where_it_crashes(device.info)
    rows, taps, pitch, channels = 5, 6, 8, 7
    # Small whole numbers, whose sums are exact in any order.
    sums = np.random.default_rng(0).integers(-9, 9, (splits, rows, taps, pitch))
    arguments = {
        **{"sums": sums.astype(np.float32), "parts": splits, "rows": rows},
        **{"taps": taps, "pitch": pitch, "channels": channels},
        **{"group_rows": rows, "bundle": 1},
        **{**division("row", taps * pitch), **division("pitch", pitch)},
    }
    (got,) = run(
        device,
        "conv/wgrad_reduce",
        linear(-(-rows * taps * pitch * sharers // 64)),
        {"out_": ((rows, channels, taps), dtype)},
        {"LOCAL_X": 64, "SHARERS": sharers},
        arguments,
        defines={"DTYPE": f"DTYPE_{dtype.upper()}"},
    )
    want = sums.sum(0).transpose(0, 2, 1)[:, :channels]
    np.testing.assert_array_equal(got, want.astype(dtype))


def test_few_parts_have_few_sharers() -> None:
    out = TensorSpec((64, 3, 7, 7), float16)
    for splits, sharers in ((1, 1), (3, 2), (66, 8)):
        found = filter_sums(Scratch("sums", 4), out, splits, 8, 1, 1)
        assert found.constants["SHARERS"] == sharers
        assert found.grid == (64 * 49 * 8 * sharers // 256, 1, 1)
