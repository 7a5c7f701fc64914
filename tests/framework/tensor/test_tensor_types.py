"""PyTorch's old tensor types, and their names."""

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.tensor.type_names import TYPES


@pytest.mark.parametrize("name", TYPES)
def test_types(name: str) -> None:
    ours, theirs = getattr(fw, name), getattr(torch, name)
    made = ours([1, 0, 1])
    assert isinstance(made, ours)
    assert isinstance(made, fw.Tensor)
    assert made.type() == theirs([1]).type()
    assert str(made.dtype) == str(theirs([1]).dtype)
    assert fw.zeros(1).type(ours).dtype is made.dtype
    assert ours(2, 3).shape == (2, 3)
    other = fw.IntTensor if name != "IntTensor" else fw.LongTensor
    assert not isinstance(made, other)
