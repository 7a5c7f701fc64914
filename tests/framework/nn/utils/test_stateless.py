"""Calls of modules with other tensors, after which they are as before."""

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.nn.utils.stateless import functional_call


def test_the_module_stays() -> None:
    layer = nn.Linear(2, 1)
    before = layer.weight
    state = {"weight": fw.ones((1, 2)), "bias": fw.zeros(1)}
    assert functional_call(layer, state, fw.tensor([1.0, 2.0])).tolist() == [3.0]
    assert layer.weight is before
