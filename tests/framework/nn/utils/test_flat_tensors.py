"""Tensors become a vector and come back."""

import vkbackend.framework as fw
from vkbackend.framework._utils import _flatten_dense_tensors, _unflatten_dense_tensors


def test_there_and_back() -> None:
    tensors = [fw.ones((2, 2)), fw.zeros(3)]
    flat = _flatten_dense_tensors(tensors)
    assert flat.tolist() == [1.0] * 4 + [0.0] * 3
    again = _unflatten_dense_tensors(flat, tensors)
    assert [tuple(each.shape) for each in again] == [(2, 2), (3,)]
