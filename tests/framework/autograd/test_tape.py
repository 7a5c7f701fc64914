"""Nodes of the tape, as programs see them."""

import weakref

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.autograd.tape import show_as, shown_node
from vkbackend.framework.base.errors import GradError


def test_nodes_name_themselves_and_their_inputs() -> None:
    x = fw.ones(2, requires_grad=True)
    y = x * 2 + 1
    assert y.grad_fn.name() == "AddBackward0"
    assert repr(y.grad_fn).startswith("<AddBackward0 object at 0x")
    (product, output), number = y.grad_fn.next_functions
    assert number == (None, 0)
    assert (product.name(), output) == ("MulBackward0", 0)
    (leaf, _), _ = product.next_functions
    assert (leaf.name(), leaf.variable) == ("torch::autograd::AccumulateGrad", x)
    assert leaf == product.next_functions[0][0]
    assert leaf.next_functions == ()
    assert ((x * fw.ones(2)).grad_fn.next_functions)[1] == (None, 0)
    assert x.grad_fn is None


def test_a_leaf_has_one_node() -> None:
    """Programs that draw the graph tell nodes apart by their `id`."""
    x = fw.ones(2, requires_grad=True)
    y = x * 2 + x * 3
    leaves = [each.next_functions[0][0] for each, _ in y.grad_fn.next_functions]
    assert leaves[0] is leaves[1]
    edge = fw.autograd.graph.get_gradient_edge(x)
    assert edge.node is leaves[0]
    seen = weakref.ref(leaves[0])
    del leaves, edge
    assert seen() is None


@pytest.mark.parametrize("number", [1, 3, 2.5])
def test_a_number_by_a_tensor_is_its_reciprocal_times_the_number(
    number: float,
) -> None:
    data = [0.3, -0.7, 3.0, 0.0]
    x, theirs = fw.tensor(data, requires_grad=True), torch.tensor(data)
    y = number / x
    assert y.tolist() == (number / theirs).tolist()
    assert y.grad_fn.name() == "MulBackward0"
    assert [each and each.name() for each, _ in y.grad_fn.next_functions] == [
        "ReciprocalBackward0",
        None,
    ]
    assert (number / fw.tensor([2, 4])).tolist() == [number / 2, number / 4]


def test_hooks_that_would_not_be_called_are_refused() -> None:
    x = fw.ones(2, 5, requires_grad=True)
    loss = x * 2
    show_as(loss, "OuterBackward0", shown_node("InnerBackward0", x))
    ((part, _),) = loss.grad_fn.next_functions
    assert part is loss.grad_fn.next_functions[0][0]
    with pytest.raises(GradError, match="OuterBackward0 is computed with other"):
        loss.grad_fn.register_hook(print)
    for register in (part.register_hook, part.register_prehook):
        with pytest.raises(GradError, match="InnerBackward0 is shown as"):
            register(print)
    loss.grad_fn.register_prehook(lambda grads: (grads[0] * 0,))
    loss.sum().backward()
    assert not x.grad.any()


def test_a_node_is_not_shown_as_an_input_of_itself() -> None:
    x = fw.ones(2, requires_grad=True) * 2
    show_as(x, "OtherBackward0", x)
    assert x.grad_fn.name() == "MulBackward0"
