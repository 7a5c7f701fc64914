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
