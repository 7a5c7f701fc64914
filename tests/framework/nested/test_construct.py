"""Making nested tensors."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nested


def test_jagged_elements_are_shared() -> None:
    values, offsets = fw.arange(5.0), fw.tensor([0, 2, 5])
    x = nested.nested_tensor_from_jagged(values, offsets, max_seqlen=3)
    assert x.to_padded_tensor(-1.0).tolist() == [[0, 1, -1], [2, 3, 4]]
    # Tensors of the same offsets go together.
    y = nested.nested_tensor_from_jagged(values * 2, offsets)
    assert (x + y).values().tolist() == [0, 3, 6, 9, 12]
    lengths = nested.nested_tensor_from_jagged(values, lengths=fw.tensor([2, 3]))
    assert lengths.offsets().tolist() == [0, 2, 5]


def test_a_leaf_has_a_gradient() -> None:
    x = nested.nested_tensor([fw.ones(2), fw.ones(1)], requires_grad=True)
    (x * 3).sum().backward()
    assert x.grad.is_nested
    assert x.grad.values().tolist() == [3, 3, 3]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(RuntimeError, match="differ in the first dimension alone"):
        nested.nested_tensor([fw.ones(1, 2), fw.ones(1, 3)])
    with pytest.raises(RuntimeError, match="there is no sequence"):
        nested.nested_tensor([])
    with pytest.raises(RuntimeError, match="offsets or lengths must be given"):
        nested.nested_tensor_from_jagged(fw.ones(3))
    with pytest.raises(RuntimeError, match="must be a nested tensor"):
        nested.to_padded_tensor(fw.ones(3), 0.0)
