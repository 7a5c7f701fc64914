"""Means of windows of integers are PyTorch's, exact beyond the integers of floats."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.errors import DTypeError

CALLS: dict[str, tuple[tuple[int, ...], tuple[Any, ...]]] = {
    "avg_pool1d": ((1, 2, 7), (3, 2, 1, True, False)),
    "avg_pool2d": ((2, 5, 7), ((2, 3), (1, 2), (1, 1), True, True)),
    "avg_pool3d": ((2, 3, 5, 7), (2, None, 1, False, False, -3)),
    "lp_pool2d": ((1, 4, 4), (2, 2)),
}


@pytest.mark.int64
@pytest.mark.parametrize("name", CALLS)
def test_as_of_torch(name: str, gpu: GpuDevice) -> None:
    shape, args = CALLS[name]
    values = torch.arange(torch.tensor(shape).prod().item()).reshape(shape) - 19
    wanted = getattr(torch.nn.functional, name)(values, *args)
    for place in ("cpu", gpu):
        x = fw.tensor(values.tolist(), device=place)
        found = getattr(fw.nn.functional, name)(x, *args)
        assert str(found.dtype) == str(wanted.dtype)
        assert torch.allclose(torch.tensor(found.tolist()), wanted, equal_nan=True)


def test_sums_are_exact() -> None:
    large = 2**60 + 1
    x = fw.tensor([[large, large, large, large - 2]], device="cpu")
    assert fw.nn.functional.avg_pool1d(x, 2).tolist() == [[large, large - 1]]


def test_other_integers_are_refused() -> None:
    with pytest.raises(DTypeError, match="`x` is int32; accepted: float16"):
        fw.nn.functional.avg_pool1d(fw.ones(1, 4, dtype=fw.int32), 2)
