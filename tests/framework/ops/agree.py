"""Functions that move elements, against PyTorch: results, gradients, no host read."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device, GpuDevice
from vkbackend.framework.base.dtype import DTYPES as KINDS
from vkbackend.framework.base.dtype import bool_

DTYPES = ("float32", "float16", "uint8", "int64", "bool")
Call = Callable[..., Any]


class Row(NamedTuple):
    """A call, PyTorch's, and their arguments: `x` is varied, `rest` passed as it is."""

    call: Call
    torch: Call
    x: tuple[int, ...]
    rest: tuple[np.ndarray, ...] = ()
    sources: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = DTYPES
    gradient: bool = True


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """Return small whole numbers, which every dtype adds exactly."""
    low = 0 if dtype in ("uint8", "bool") else -9
    drawn = np.random.default_rng(seed).integers(low, 9, shape)
    return drawn.astype(dtype)


def need(dtype: str, place: Device) -> None:
    """Skip the test where shaders have no arithmetic of a dtype."""
    if not computes(dtype, place):
        pytest.skip(f"no {KINDS[dtype].feature}")


def computes(dtype: str, place: Device) -> bool:
    """Return whether shaders of a device have the arithmetic of a dtype."""
    feature = KINDS[dtype].feature
    if feature is None or not isinstance(place, GpuDevice):
        return True
    return bool(getattr(place.gpu.info, feature, False))


def agree(row: Row, place: Device) -> None:
    """Check results in every dtype, and gradients in float32."""
    for dtype in (dtype for dtype in row.dtypes if computes(dtype, place)):
        arrays = [
            numbers(shape, dtype, k) for k, shape in enumerate((row.x, *row.sources))
        ]
        arrays[1:1] = row.rest
        found = row.call(*(fw.tensor(array, device=place) for array in arrays))
        expected = row.torch(*(torch.from_numpy(array) for array in arrays))
        assert_close(found, expected.numpy(), exact=True)
    if row.gradient:
        check_gradient(row, place)


def check_gradient(row: Row, place: Device) -> None:
    """Compare gradients, which are sums of small whole numbers; count host reads."""
    arrays = [
        numbers(shape, "float32", k) for k, shape in enumerate((row.x, *row.sources))
    ]
    arrays[1:1] = row.rest
    ours = [fw.tensor(array, device=place) for array in arrays]
    theirs = [torch.from_numpy(array) for array in arrays]
    for mine, other in zip(ours, theirs):
        if mine.dtype.is_float:
            mine.requires_grad_()
            other.requires_grad_()
    expected = row.torch(*theirs)
    weights = numbers(tuple(expected.shape), "float32", 9)
    expected.backward(torch.from_numpy(weights))
    reads = host_reads(place)
    row.call(*ours).backward(fw.tensor(weights, device=place))
    fw.eval()
    dynamic = any(tensor.dtype is bool_ for tensor in ours)
    assert dynamic or host_reads(place) == reads
    for mine, other in zip(ours, theirs):
        if mine.requires_grad:
            assert_close(mine.grad, other.grad.numpy(), exact=True)


def host_reads(place: Device) -> int:
    """Return how often the host has read from a device."""
    if not isinstance(place, GpuDevice):
        return 0
    return place.gpu.counters.snapshot().host_reads
