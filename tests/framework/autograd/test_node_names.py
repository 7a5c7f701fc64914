"""Names of nodes are PyTorch's."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.autograd.node_names import name_of_node

CALLS: list[Any] = [
    lambda m, x: x**2.0,
    lambda m, x: 2.0**x,
    lambda m, x: x**x,
    lambda m, x: 1 - x,
    lambda m, x: m.fmod(x, 2),
    lambda m, x: m.xlogy(2, x),
    lambda m, x: m.special.log_ndtr(x),
    lambda m, x: x.clone(),
]


@pytest.mark.parametrize("call", CALLS)
def test_names(call: Any) -> None:
    ours, theirs = (
        call(m, m.tensor([0.5, 2.0], requires_grad=True)).grad_fn for m in (fw, torch)
    )
    assert ours.name() == theirs.name()


def test_of_an_op() -> None:
    assert name_of_node("log_sum", lambda grad: grad) == "LogSumBackward0"
