"""Patterns are found where nothing else takes what they compute inside."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework import fx


def test_each_match_tells_its_nodes() -> None:
    module = fx.symbolic_trace(lambda x, y: fw.relu(x + 1) * fw.relu(y + 1))
    pattern = fx.symbolic_trace(lambda a: fw.relu(a + 1))
    found = fx.replace_pattern(module, pattern, lambda a: a * 5)
    assert [match.anchor.name for match in found] == ["relu", "relu_1"]
    assert [node.name for node in found[0].nodes_map] == ["a", "add", "relu"]
    assert module(fw.ones(1), fw.ones(1)).item() == 25.0


def test_inner_results_that_others_take_stay() -> None:
    def function(x: fw.Tensor) -> fw.Tensor:
        y = x + 1
        return fw.relu(y) + y

    module = fx.symbolic_trace(function)
    assert fx.replace_pattern(module, lambda a: fw.relu(a + 1), lambda a: a) == []


def test_constants_are_part_of_a_pattern() -> None:
    module = fx.symbolic_trace(lambda x: fw.clamp(x, 0, 2) + fw.clamp(x, 0, 1))
    found = fx.replace_pattern(
        module, lambda a: fw.clamp(a, 0, 1), lambda a: fw.sigmoid(a)
    )
    assert [match.anchor.name for match in found] == ["clamp_1"]
    with pytest.raises(ValueError, match="must return one value"):
        fx.replace_pattern(module, lambda a: (a, a), lambda a: a)
