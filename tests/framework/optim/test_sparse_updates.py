"""What optimizers make of sparse gradients."""

import pytest

import vkbackend.framework as fw


def test_dense_and_sparse_gradients_are_updated_apart() -> None:
    table = fw.nn.Embedding(3, 2, sparse=True)
    layer = fw.nn.Linear(2, 1, bias=False)
    before = [each.detach().clone() for each in (table.weight, layer.weight)]
    optimizer = fw.optim.SGD([table.weight, layer.weight], lr=1.0)
    layer(table(fw.tensor([1]))).sum().backward()
    optimizer.step()
    changed = [
        (each.detach() != old).any(1).tolist()
        for each, old in zip((table.weight, layer.weight), before)
    ]
    assert changed == [[False, True, False], [True]]


def test_others_refuse_them() -> None:
    table = fw.nn.Embedding(3, 2, sparse=True)
    table(fw.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError, match=r"Adam: a parameter of shape .* has a"):
        fw.optim.Adam(table.parameters()).step()
