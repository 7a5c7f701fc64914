"""Bits taken for another dtype, beside PyTorch's."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.agree import host_reads
from vkbackend.framework.base.device import GpuDevice

X = np.float32([0.0, -0.0, 1.5, -3e38, np.inf, np.nan, 1e-40, 7.0]).reshape(2, 4)


@pytest.mark.parametrize("to", ["int32", "uint8", "int16", "bfloat16", "float64"])
def test_values(to: str, gpu: GpuDevice) -> None:
    x = fw.tensor(X, device=gpu)
    found = x.view(getattr(fw, to)).cpu()
    wanted = torch.tensor(X).view(getattr(torch, to))
    assert found.shape == tuple(wanted.shape)
    assert found.dtype.name == to
    bits = wanted.view(torch.uint8).numpy()
    np.testing.assert_array_equal(found.view(fw.uint8).numpy(), bits)


def test_views_that_begin_anywhere(gpu: GpuDevice) -> None:
    data = np.arange(24, dtype=np.int16).reshape(4, 6)
    x = fw.tensor(data, device=gpu)
    for part, wanted in ((x[1:, 1:3], data[1:, 1:3]), (x.T[1:3], data.T[1:3])):
        expected = np.ascontiguousarray(wanted).view(np.uint8)
        np.testing.assert_array_equal(part.view(fw.uint8).numpy(), expected)


def test_nothing_is_read(gpu: GpuDevice) -> None:
    x = fw.tensor(X, device=gpu)
    fw.eval(x)
    before = host_reads(gpu)
    with gpu.gpu.profile() as profile:
        fw.eval(x.view(fw.int32) + 1)
    assert host_reads(gpu) == before
    assert len(profile.spans) == 2
