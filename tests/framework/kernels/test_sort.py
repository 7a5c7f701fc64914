"""The passes of a merge sort: how many, and what blocks and runs of a GPU give."""

import dataclasses

import numpy as np
import pytest
import torch

import vkbackend
import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import uint32
from vkbackend.framework.base.shape import TensorSpec
from vkbackend.framework.kernels import radix_sort
from vkbackend.framework.kernels.select import SHARED_MEMORY
from vkbackend.framework.kernels.sort import sort_dispatches


@pytest.fixture
def merging(quads: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> GpuDevice:
    """Return the device without what the other sorts need.

    A radix sort counts votes of subgroups, and selection has large shared memory.
    """
    info = quads.gpu.info
    memory = min(info.max_shared_memory, SHARED_MEMORY - 1)
    info = dataclasses.replace(info, subgroup_operations=0, max_shared_memory=memory)
    monkeypatch.setattr(quads.gpu, "info", info)
    return quads


@pytest.mark.sampled(4)
@pytest.mark.core
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("count", [5, 256, 257, 3001, 40_009])
def test_blocks_of_a_gpu(count: int, descending: bool, merging: GpuDevice) -> None:
    data = np.random.default_rng(0).integers(-99, 99, (2, count)).astype(np.int32)
    x = fw.tensor(data, device=merging)
    wanted = torch.sort(
        torch.from_numpy(data), dim=1, descending=descending, stable=True
    )
    for most in (5, 300, count):
        found = ops.topk(x, min(count, most), 1, largest=descending)
        assert np.array_equal(found.values.numpy(), wanted.values[:, :most])
        assert np.array_equal(found.indices.numpy(), wanted.indices[:, :most])


@pytest.mark.parametrize(
    ("count", "passes"), [(1, 1), (256, 1), (257, 2), (8192, 3), (70_001, 10)]
)
def test_passes_of_an_argsort(
    count: int,
    passes: int,
    device: vkbackend.Device,
    discrete: vkbackend.DeviceInfo,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(radix_sort, "LEAST_ELEMENTS", 1 << 31)
    keys = TensorSpec((1, count, 1), uint32)
    for each in (device.info, discrete):
        info = dataclasses.replace(each, subgroup_operations=0)
        steps = sort_dispatches(info, keys, count, False, "keys", {"order": "out"})
        assert len(steps) == passes
