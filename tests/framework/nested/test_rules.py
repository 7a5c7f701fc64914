"""Element-wise operations of nested tensors."""

import pytest

import vkbackend.framework as fw


def test_lengths_must_be_the_same() -> None:
    one = fw.nested.nested_tensor([fw.ones(2), fw.ones(1)])
    other = fw.nested.nested_tensor([fw.ones(1), fw.ones(2)])
    with pytest.raises(RuntimeError, match="do not have the same ragged size"):
        one + other
    assert fw.maximum(one, one * 2).values().tolist() == [2, 2, 2]
