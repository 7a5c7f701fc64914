"""Bags of entries: which count, and what each gets; see test_bag_reduce.py, too."""

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework.ops.indexing.bags import Bags


def test_bags() -> None:
    index = fw.tensor([4, 1, 0, 1, 2])
    bags = Bags(index, fw.tensor([0, 2, 2, 4]), 3, 1, 5)
    assert bags.numbers().tolist() == [0, 0, 2, 2, 3]
    kept = bags.kept()
    assert kept is not None
    assert kept.tolist() == [True, False, True, False, False]
    grad = fw.tensor(np.arange(3.0)[:, None] + 1)
    assert bags.each(grad).flatten().tolist() == [1, 1, 3, 3, 3]
    assert bags.summed(fw.ones(5, 2), "sum").tolist() == [[1, 1], [0, 0], [1, 1]]
    alike = Bags(index[:4], None, 2, -1, 5)
    assert alike.kept() is None
    assert alike.each(grad[:2]).flatten().tolist() == [1, 1, 2, 2]
    assert alike.summed(fw.tensor([[1.0], [2], [3], [4]]), "mean").tolist() == [
        [1.5],
        [3.5],
    ]
