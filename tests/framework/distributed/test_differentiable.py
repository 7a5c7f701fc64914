"""Gradients go through communication within one process."""

from typing import Any

import vkbackend.framework as fw
from vkbackend.framework.distributed.nn import functional


def test_gradients(group: Any) -> None:
    x = fw.ones(2, requires_grad=True)
    results = (
        functional.all_reduce(x),
        *functional.all_gather(x),
        functional.broadcast(x, 0),
        functional.reduce(x, 0),
        *functional.gather(x),
        functional.scatter([x]),
        functional.reduce_scatter(fw.zeros(2), [x]),
        *functional.all_to_all([fw.zeros(2)], [x]),
        functional.all_to_all_single(fw.zeros(2), x),
    )
    sum(results).sum().backward()  # type: ignore[union-attr]  # not of nothing
    assert x.grad.tolist() == [9.0, 9.0]
