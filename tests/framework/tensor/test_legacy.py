"""The class `Tensor` as a constructor, beside PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw

CALLS: list[Callable[[Any], Any]] = [
    lambda t: t.Tensor([1, 2]),
    lambda t: t.Tensor([[1.5], [2]]),
    lambda t: t.Tensor((2, 3)),
    lambda t: t.Tensor(np.array([1, 2])),
    lambda t: t.Tensor(2, 3).fill_(1),
    lambda t: t.Tensor(t.Size([2])).fill_(1),
    lambda t: t.Tensor(),
    lambda t: t.tensor([1, 2]).new(2).zero_(),
    lambda t: t.tensor([1.0]).new([1, 2]),
    lambda t: t.LongTensor([1.5, 2]),
    lambda t: t.BoolTensor([1, 0]),
]


@pytest.mark.parametrize("call", CALLS)
def test_as_pytorch(call: Callable[[Any], Any]) -> None:
    ours, theirs = call(fw), call(torch)
    assert str(ours.dtype) == str(theirs.dtype)
    assert ours.shape == theirs.shape
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("data", [(1.5,), ([1], [2]), (1, 2.5)])
def test_what_is_neither_sizes_nor_data(data: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match=r"^Tensor: data are of types \("):
        fw.Tensor(*data)
