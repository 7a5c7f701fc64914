"""Elements of tensors as bytes, and back."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.dtype import DType
from vkbackend.framework.communication.elements import (
    adder,
    contiguous,
    elements_of,
    filler,
    shown,
    tensor_of,
    writer,
)
from vkbackend.framework.communication.reductions import Reduction


@pytest.mark.parametrize("dtype", [fw.bfloat16, fw.complex64, fw.bool])
def test_elements_of_views(dtype: DType) -> None:
    x = fw.tensor(np.arange(12).reshape(3, 4) % 5, dtype=dtype)
    for view in (x.T, x[::2, 1:], x[0, 0], x[:0]):
        flat = elements_of(view)
        back = tensor_of(flat, view.shape, view)
        assert (back.dtype, back.shape) == (dtype, view.shape)
        assert fw.equal(back, view)
    assert shown(x) == f"{dtype.name} (3, 4)"
    assert contiguous(x) is x
    assert contiguous(x.T).layout.is_contiguous


def test_pieces() -> None:
    parts = [np.arange(5, dtype=np.int16), np.arange(3, dtype=np.int16)]
    out = np.zeros(4, np.uint8)
    filler(parts)(0, 2, out)
    assert out.view(np.int16).tolist() == [1, 2]
    goal = np.zeros(6, np.uint8)
    writer([goal, goal])(1, 2, out)
    assert goal.view(np.int16).tolist() == [0, 1, 2]
    total = np.zeros(4, np.int16)
    add = adder(Reduction("test", "sum", fw.int16, 2), total)
    for start in (0, 4):
        for rank in range(2):
            add(rank, start, out)
    assert total.tolist() == [2, 4, 2, 4]
