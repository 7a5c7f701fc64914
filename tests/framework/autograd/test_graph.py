from typing import Any

import pytest

import vkbackend.framework as fw
from tests.torch_log import Log, assert_logs_agree
from vkbackend.framework.base.errors import GradError


@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_on_several_gradients_are_those_of_torch(mode: str) -> None:
    def program(log: Log) -> None:
        graph = log.library.autograd.graph
        x, y = log.tensor([1.0, 2.0]), log.tensor([3.0, 4.0])
        z = x * y
        handle = graph.register_multi_grad_hook(
            (x, y, z), lambda grads: log.add(mode, grads), mode=mode
        )
        for _ in range(2):
            (z * y).sum().backward(retain_graph=True)
        y.sum().backward()
        handle.remove()
        (z * y).sum().backward()

    assert_logs_agree(program)


def test_edges_name_the_node_and_its_output() -> None:
    x = fw.ones(2, requires_grad=True)
    y = x * 2
    edge = fw.autograd.graph.get_gradient_edge(y)
    assert edge[:2] == (y.grad_fn, 0)
    leaf: Any = fw.autograd.graph.get_gradient_edge(x).node
    assert leaf.variable is x
    with pytest.raises(GradError):
        fw.autograd.graph.get_gradient_edge(fw.ones(2))


def test_a_version_that_is_counted_up_is_seen_by_backward() -> None:
    x = fw.ones(2, requires_grad=True) * 1
    y = x.exp() * x
    fw.autograd.graph.increment_version(x)
    with pytest.raises(GradError, match="changed in place"):
        y.sum().backward()
