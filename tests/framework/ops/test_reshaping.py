"""Views with nothing to do are other tensors, as in PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw

SAME: dict[str, Callable[[Any, Any], Any]] = {
    "reshape": lambda t, x: t.reshape(x, (2, 3)),
    "method": lambda t, x: x.reshape(2, -1),
    "reshape_as": lambda t, x: x.reshape_as(x),
    "view": lambda t, x: x.view(2, 3),
    "squeeze": lambda t, x: t.squeeze(x),
    "squeeze of a dimension": lambda t, x: x.squeeze(0),
    "squeeze of several": lambda t, x: t.squeeze(x, (0, 1)),
    "unflatten": lambda t, x: x.unflatten(0, (2,)),
    "module": lambda t, x: t.nn.Unflatten(1, (3,))(x),
    "slice": lambda t, x: x[:],
    "slices": lambda t, x: x[:, :],
    "ellipsis": lambda t, x: x[...],
    "flatten": lambda t, x: t.flatten(x, 1),
    "ravel": lambda t, x: x[0].ravel(),
    "broadcast_tensors": lambda t, x: t.broadcast_tensors(x, x)[1],
    "sum_to_size": lambda t, x: x.sum_to_size(2, 3),
}


@pytest.mark.parametrize("name", SAME)
def test_is_another_tensor_where_pytorchs_is(name: str) -> None:
    def seen(library: Any) -> Any:
        x = library.ones(2, 3, requires_grad=True)
        out = SAME[name](library, x)
        node = out.grad_fn
        return out is x, out._base is x, node and node.name()

    assert seen(fw) == seen(torch)


def test_changes_of_the_view_are_those_of_the_tensor() -> None:
    x = fw.zeros(2, 3)
    view = fw.reshape(x, (2, 3))
    view.add_(1)
    view.requires_grad_()
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert not x.requires_grad
