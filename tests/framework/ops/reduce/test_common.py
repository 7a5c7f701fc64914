"""What operations do with tensors before and after a reduction kernel."""

import dataclasses
from collections import OrderedDict

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES


@pytest.mark.parametrize("name", ["float16", "bfloat16", "int8", "uint16", "bool"])
def test_without_storage_of_small_elements(
    name: str, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "plans", OrderedDict())
    for feature in ("storage_8bit", "storage_16bit"):
        monkeypatch.setattr(type(gpu.gpu.info), feature, False)
    data = np.arange(12).reshape(3, 4) % 5
    x = fw.tensor(data, dtype=DTYPES[name], device=gpu)
    host = x.cpu()
    for call in (ops.sum, ops.amax, ops.any, ops.argmin, ops.cumsum, ops.sort):
        found, wanted = call(x, 1), call(host, 1)
        pairs = zip(found, wanted) if isinstance(found, tuple) else [(found, wanted)]
        for one, other in pairs:
            assert one.dtype is other.dtype
            assert_close(one, other.numpy())


def test_without_64_bit_integers(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "plans", OrderedDict())
    info = gpu.gpu.info
    info = dataclasses.replace(info, supported=info.supported - {"shader_int64"})
    monkeypatch.setattr(gpu.gpu, "info", info)
    x = fw.tensor(np.arange(-5, 5, dtype=np.int8), device=gpu)
    counts = ops.bincount(x.int() * x.int())
    for found, wanted in (
        (x.sum(), -5),
        (ops.prod(x[:3]), -60),
        (ops.count_nonzero(x), 9),
        (ops.cumsum(x, 0)[-1], -5),
        (counts.sum(), 10),
    ):
        assert found.dtype is fw.int32
        assert found.item() == wanted
