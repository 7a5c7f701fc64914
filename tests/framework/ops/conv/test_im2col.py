"""Windows as columns and back, against PyTorch and against each other."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its own documentation's name

import vkbackend.framework as fw
from tests.framework.ops.twin import Make, as_in_torch, draw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES

WINDOWS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": (3, 1), "stride": 3},
    {"kernel_size": (3, 2), "dilation": (1, 2), "padding": (2, 1), "stride": (2, 3)},
]


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("batch", [(2,), ()])
def test_columns_and_back(
    window: dict[str, Any], batch: tuple[int, ...], make: Make
) -> None:
    as_in_torch(make, ops.im2col, F.unfold, (*batch, 3, 7, 9), **window)
    columns = F.unfold(torch.zeros((*batch, 3, 7, 9)), **window).shape
    as_in_torch(make, ops.col2im, F.fold, tuple(columns), output_size=(7, 9), **window)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("width", [5, 8])
def test_windows_of_one_column(dtype: str, width: int, gpu: GpuDevice) -> None:
    """Lines of whole vectors are read and written by vectors."""
    feature = DTYPES[dtype].storage_feature
    if feature and not getattr(gpu.gpu.info, feature):
        pytest.skip(f"the device has no {feature}")
    window: dict[str, Any] = {
        "kernel_size": (3, 1), "stride": (2, 1), "padding": (2, 0), "dilation": (2, 1)
    }  # fmt: skip
    x = np.random.default_rng(0).integers(-9, 9, (2, 3, 7, width)).astype(np.float32)
    columns = ops.im2col(fw.tensor(x, dtype, gpu), **window)
    wanted = F.unfold(torch.from_numpy(x), **window)
    np.testing.assert_array_equal(columns.float().numpy(), wanted.numpy())
    images = ops.col2im(columns, (7, width), **window).float().numpy()
    back = F.fold(wanted, (7, width), **window)
    np.testing.assert_array_equal(images, back.numpy())


def test_one_is_the_transpose_of_the_other(make: Make) -> None:
    x, columns = draw(2, 3, 7, 9), draw(2, 18, 15)
    window = WINDOWS[2]
    there = (ops.im2col(make(x), **window) * make(columns)).sum().item()
    back = (ops.col2im(make(columns), (7, 9), **window) * make(x)).sum().item()
    assert there == pytest.approx(back, rel=1e-5)
