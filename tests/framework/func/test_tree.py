from typing import NamedTuple

from vkbackend.framework.func.tree import flatten, unflatten


class Pair(NamedTuple):
    first: object
    second: object


def test_a_tree_is_its_leaves_in_its_structure() -> None:
    tree = {"a": [1, (2, ())], "b": Pair(3, {"c": 4})}
    leaves, structure = flatten(tree)
    assert leaves == [1, 2, 3, 4]
    assert unflatten(leaves, structure) == tree
    assert unflatten([0] * 4, structure)["b"] == Pair(0, {"c": 0})
    assert flatten([1, 2])[1] != flatten((1, 2))[1]
