"""Tensors that are too large for a device, by small limits, and the largest."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend import OutOfDeviceMemory
from vkbackend.framework import ops
from vkbackend.framework.base import size_limits
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DType, bfloat16, bool_, float32, int64
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.shape import Layout

GIBIBYTE = 1 << 30
ROOMY = cast(
    "GpuDevice",
    SimpleNamespace(
        name="roomy",
        gpu=SimpleNamespace(info=SimpleNamespace(max_allocation_size=1 << 60)),
    ),
)


@pytest.mark.parametrize(
    ("dtype", "most"),
    [
        (bool_, (1 << 31) - 1),
        (bfloat16, (1 << 31) - 1),
        (float32, (1 << 31) - 1),
        (int64, (1 << 30) - 1),
    ],
)
def test_most_elements(dtype: DType, most: int) -> None:
    size_limits.check_value("f", (most,), dtype, ROOMY)
    with pytest.raises(ShapeError) as raised:
        size_limits.check_value("f", (most + 1, 1), dtype, ROOMY)
    assert str(raised.value) == (
        f"f: shape ({most + 1}, 1) of {dtype.name} is too large: it has {most + 1}"
        f" elements; a device takes at most {most}; use parts, or the cpu device"
    )


def test_most_elements_of_a_view() -> None:
    size_limits.check_views("f", [Layout((1 << 15, 1 << 15), (0, 1))])
    with pytest.raises(ShapeError, match=r"^f: shape \(32768, 65536\) is too large: "):
        size_limits.check_views("f", [Layout((1 << 15, 1 << 16), (0, 1))])


def too_many(gpu: GpuDevice) -> dict[str, Callable[[], Any]]:
    """Return calls that make or walk more than 1000 elements."""
    column, square = fw.ones(40, 1, device=gpu), fw.ones(30, 30, device=gpu)
    index = fw.zeros(50, dtype="int32", device=gpu)
    return {
        "tensor": lambda: fw.tensor(np.zeros(1001), device=gpu),
        "empty": lambda: fw.empty(1001, device=gpu),
        "zeros": lambda: fw.zeros(7, 11, 13, device=gpu),
        "arange": lambda: fw.arange(1001, device=gpu),
        "rand": lambda: fw.rand(1001, device=gpu),
        "add": lambda: column + column.T,
        "matmul": lambda: column @ column.T,
        "copy": lambda: column.expand(40, 40).contiguous(),
        "sum": lambda: column.expand(40, 40).sum(),
        "argmax": lambda: column.expand(40, 40).argmax(),
        "cat": lambda: ops.cat([square, square]),
        "rows": lambda: square[index],
        "double": lambda: square.double(),
    }


@pytest.mark.core
def test_calls_that_count_too_far(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = too_many(gpu)
    fw.eval()
    monkeypatch.setattr(size_limits, "MOST_COUNTED", 1000)
    monkeypatch.setattr(size_limits, "ALWAYS_FIT", 0)
    for name, call in calls.items():
        if name == "double" and not gpu.gpu.info.shader_float64:
            continue
        with pytest.raises(ShapeError, match=r"is too large: it has \d+ elements"):
            call()
    assert (fw.ones(30, 30, device=gpu) + 1).sum().item() == 1800


@pytest.mark.core
def test_calls_that_allocate_too_much(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = too_many(gpu)
    fw.eval()
    small = replace(gpu.gpu.info, max_allocation_size=4000)
    monkeypatch.setattr(size_limits, "ALWAYS_FIT", 0)
    monkeypatch.setattr(gpu.gpu, "info", small)
    for name, call in calls.items():
        if name in ("sum", "argmax"):
            assert call().item() in (0, 1600)
            continue
        if name == "double" and not small.shader_float64:
            continue
        with pytest.raises(OutOfDeviceMemory, match=r"is too large: it takes .* GiB"):
            call()
        assert not gpu.pending or name == "copy"


def test_text_of_too_much(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(gpu.gpu.info, max_allocation_size=3 * GIBIBYTE)
    monkeypatch.setattr(gpu.gpu, "info", small)
    with pytest.raises(OutOfDeviceMemory) as raised:
        fw.empty(1 << 30, device=gpu)
    assert str(raised.value) == (
        "empty: shape (1073741824,) of float32 is too large: it takes 4.00 GiB; one"
        f" allocation on {gpu.name} has at most 3.00 GiB; use parts, or the cpu device"
    )


@pytest.mark.gpu
def test_three_gibibytes(gpu: GpuDevice) -> None:
    count = 3 << 28
    if gpu.gpu.info.max_allocation_size < 4 * count:
        pytest.skip("one allocation cannot hold it")
    x = fw.ones(count, device=gpu)
    assert x.sum().item() == pytest.approx(count, rel=1e-6)
    x[count - 1] = 7.0
    assert x[-3:].tolist() == [1, 1, 7]
    assert x.argmax().item() == count - 1
    assert (x + 1)[count - 2 :].tolist() == [2, 8]
    assert x[count // 2 :: 2].sum().item() == pytest.approx(count // 4, rel=1e-6)
    assert x[1::2].amax().item() == 7
    turned = x.reshape(3 << 14, 1 << 14).T.contiguous()
    assert turned[-1, -2:].tolist() == [1, 7]
    assert turned.sum(1)[-2:].tolist() == [3 << 14, (3 << 14) + 6]


@pytest.mark.gpu
def test_bytes_beyond_the_last_index(gpu: GpuDevice) -> None:
    with pytest.raises(ShapeError, match=r"^empty: .* has 3221225472 elements"):
        fw.empty(3 << 30, dtype="uint8", device=gpu)
    row = fw.ones(1 << 16, device=gpu)
    with pytest.raises(ShapeError, match=r"has 4294967296 elements"):
        row.expand(1 << 16, 1 << 16).sum()
    # One element fewer than can be counted.
    most = (1 << 31) - 1
    x = fw.zeros(most, dtype="uint8", device=gpu)
    x[most - 1] = 1
    assert x.argmax().item() == most - 1
    assert (x + x)[most - 2 :].tolist() == [0, 2]
    assert x.sum().item() == 1


@pytest.mark.device
@pytest.mark.parametrize("shape", [(1 << 31,), (1 << 33, 4), (1 << 60,)])
def test_nothing_is_made_before_the_check(
    shape: tuple[int, ...], gpu: GpuDevice
) -> None:
    with pytest.raises(ShapeError, match=r"^empty: shape .* is too large: it has \d+"):
        fw.empty(shape, device=gpu)
