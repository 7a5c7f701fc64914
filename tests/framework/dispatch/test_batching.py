import pytest

import vkbackend.framework as fw
from vkbackend.framework.dispatch import batching


def test_without_vmap_no_call_asks_for_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(batching, "_rules", [lambda *call: asked.append(call)])
    (fw.ones(3) * 2).sum().reshape(1).item()
    assert asked == []


def test_calls_without_batched_tensors_go_on_within_vmap() -> None:
    weight = fw.ones(2)
    found = fw.func.vmap(lambda x: x * (weight * 3).sum())(fw.ones((2, 2)))
    assert found.tolist() == [[6, 6], [6, 6]]


def test_a_sparse_tensor_takes_no_other_call_off_its_quick_way() -> None:
    fw.sparse_coo_tensor([[0], [1]], [1.0], (2, 2))
    assert (batching.depth, batching.has_rules) == (0, True)
    fw.func.vmap(lambda x: x * 2)(fw.ones((2, 2)))
    assert (batching.depth, batching.has_rules) == (0, True)
