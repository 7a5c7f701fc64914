"""Gradients of gradients: the collectives of a backward pass have gradients, too."""

from typing import Any

import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework.communication.group import Group


def test_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the cube of a sum over ranks, whose slope differs from rank to rank."""

    def work(group: Group) -> Any:
        x = (fw.tensor([1.0, 2.0]) + group.rank).requires_grad_()
        y = group.all_sum(x) ** 3 * (group.rank + 1)
        (slope,) = fw.autograd.grad(y.sum(), [x], create_graph=True)
        (again,) = fw.autograd.grad(slope.sum(), [x])
        return slope.tolist(), again.tolist()

    # Both slopes are 9 s^2 for s = x0 + x1, and so is the derivative of their sum.
    for slope, again in as_threads(monkeypatch, 2).run(work):
        assert slope == [9 * 3.0**2, 9 * 5.0**2]
        assert again == [36 * 3.0, 36 * 5.0]
