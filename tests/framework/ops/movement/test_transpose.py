"""Copies of transposed views: layouts, dtypes, sizes that fill no tile."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.ops.movement import transpose


@pytest.fixture
def lines(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the Vulkan device, copying through shared memory as hardware does."""
    monkeypatch.setattr(transpose, "reads_lines", lambda info: True)
    return gpu


@pytest.mark.parametrize(
    "dtype", ["float32", "float16", "int64", "uint8", "bool", "complex64"]
)
@pytest.mark.parametrize(
    "shape",
    [(16, 16), (65, 63), (17, 200), (300, 16), (3, 70, 31), (2, 130, 200), (62, 258)],
)
def test_row_major(shape: tuple[int, ...], dtype: str, lines: GpuDevice) -> None:
    data = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    if dtype == "complex64":
        data = data * np.complex64(1 + 2j)
    x = fw.tensor(data, device=lines)
    found = x.transpose(-1, -2).contiguous()
    assert found.is_contiguous()
    np.testing.assert_array_equal(found.numpy(), np.swapaxes(data, -1, -2))


def test_a_part_of_a_tensor(lines: GpuDevice) -> None:
    data = np.arange(90 * 70, dtype=np.float32).reshape(90, 70)
    view = fw.tensor(data, device=lines)[3:80, 5:68]
    np.testing.assert_array_equal(view.T.contiguous().numpy(), data[3:80, 5:68].T)


@pytest.mark.parametrize("rows", [slice(0, 40), slice(2, 40), slice(1, 41)])
@pytest.mark.parametrize("columns", [slice(0, 60), slice(2, 62), slice(3, 63)])
def test_halves_wherever_they_begin(
    rows: slice, columns: slice, lines: GpuDevice
) -> None:
    for width in (64, 65):
        data = np.arange(50 * width).reshape(50, width).astype(np.int16)
        view = fw.tensor(data, device=lines)[rows, columns]
        found = view.T.contiguous().numpy()
        np.testing.assert_array_equal(found, data[rows, columns].T)


def test_images_with_channels_last(lines: GpuDevice) -> None:
    data = np.random.default_rng(0).random((2, 20, 9, 5), np.float32)
    found = fw.tensor(data, device=lines).permute(0, 2, 3, 1).contiguous()
    np.testing.assert_array_equal(found.numpy(), data.transpose(0, 2, 3, 1))


def test_gradient(lines: GpuDevice) -> None:
    x = fw.zeros((20, 30), device=lines, requires_grad=True)
    weight = np.arange(600, dtype=np.float32).reshape(30, 20)
    x.T.contiguous().backward(fw.tensor(weight, device=lines))
    np.testing.assert_array_equal(x.grad.numpy(), weight.T)
