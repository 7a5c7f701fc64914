"""Selection of the first elements of an order, against PyTorch's stable sort."""

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float32, int64
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.kernels import select
from vkbackend.framework.kernels.select import pays_to_select, select_dispatches


@pytest.fixture
def selecting(quads: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the device with chunks that are small, so that few elements fill many."""
    monkeypatch.setattr(select, "LEAST_LINE", 20)
    monkeypatch.setattr(select, "LEAST_CHUNK", 200)
    return quads


def check(device: GpuDevice, data: np.ndarray, k: int, dim: int, largest: bool) -> None:
    x = fw.tensor(data, device=device)
    assert pays_to_select(
        device.gpu.info, TensorSpec((1, data.shape[dim], 1), float32), k
    )
    found = ops.topk(x, k, dim, largest)
    wanted = torch.sort(
        torch.from_numpy(data), dim=dim, descending=largest, stable=True
    )
    values, places = (each.narrow(dim, 0, k).numpy() for each in wanted)
    assert np.array_equal(found.indices.numpy(), places)
    assert np.array_equal(
        found.values.numpy(), values, equal_nan=data.dtype.kind == "f"
    )


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", "u1", "i1", "i2", "i4", "i8"])
def test_dtypes(dtype: str, largest: bool, selecting: GpuDevice) -> None:
    generator = np.random.default_rng(0)
    # Of few bytes many are equal.
    data = (generator.standard_normal((2, 700)) * 60).astype(dtype)
    if dtype.startswith("f"):
        data[:, ::9] = np.nan
        data[:, 1::9] = -np.inf
        data[:, 2::7] = -0.0
    check(selecting, data, 33, 1, largest)


@pytest.mark.parametrize(
    ("shape", "dim", "k"),
    [((20,), 0, 1), ((3, 250, 2), 1, 50), ((5000,), 0, 40), ((801, 3), 0, 200)],
)
@pytest.mark.parametrize("numbers", [1, 3, 1 << 30])
def test_layouts(
    shape: tuple[int, ...], dim: int, k: int, numbers: int, selecting: GpuDevice
) -> None:
    data = np.random.default_rng(0).integers(-numbers, numbers, shape)
    check(selecting, data.astype(np.int32), k, dim, True)


@pytest.mark.parametrize("count", [1024, 50_257, 1 << 24, (1 << 31) - 1])
@pytest.mark.parametrize("k", [1, 50, 256])
def test_levels(count: int, k: int, discrete: vkbackend.DeviceInfo) -> None:
    x, results = TensorSpec((1, count, 1), float32), {"values": "v", "order": "o"}
    steps = select_dispatches(discrete, x, k, True, "x", results, int64)
    assert steps[-1].push["chunks"] == 1
    assert steps[-1].push["order"] == "o"
    assert len(steps) <= 5
    for step in steps:
        sizes = (step.push[name] for name in ("count", "chunks", "chunk_size"))
        elements, chunks, chunk = (each for each in sizes if isinstance(each, int))
        assert (chunks - 1) * chunk < elements <= chunks * chunk
