"""Nodes and hooks of the views that an index of several parts is made of."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from tests.framework.autograd.test_unbatched import assert_same, given, seen

INDICES: dict[str, Callable[[Any, Any], Any]] = {
    "slice and int": lambda t, x: x[0:3, 1],
    "new dimensions": lambda t, x: x[None, 1:3, ..., 2],
    "several ints": lambda t, x: x[1, :, 2],
    "one part": lambda t, x: x[1:3, :],
    "array and slice": lambda t, x: x[t.tensor([0, 2]), 1:3],
    "int beside an array": lambda t, x: x[0, :, t.tensor([0, 1])],
    "arrays": lambda t, x: x[t.tensor([0, 2]), t.tensor([1, 1])],
    "mask and slice": lambda t, x: x[t.tensor([True, False, True, True]), :, 1:],
}


def names(node: Any) -> Any:
    """Return a node's name, and those of the nodes behind it."""
    if node is None:
        return None
    return node.name(), [names(each) for each, _ in node.next_functions]


@pytest.mark.parametrize("name", INDICES)
def test_views_are_shown_one_after_the_other(name: str) -> None:
    found, wanted = (
        names(INDICES[name](t, given(t, 4, 3, 3)).grad_fn) for t in (fw, torch)
    )
    assert found == wanted


@pytest.mark.parametrize("name", INDICES)
def test_hooks_see_each_view(name: str) -> None:
    def function(library: Any, _: Any) -> Any:
        return INDICES[name](library, given(library, 4, 3, 3))

    wanted, found = (seen(t, function, backwards=False) for t in (torch, fw))
    assert_same(found, wanted)
