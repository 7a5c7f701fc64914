"""Two tensors take each other's place, wherever they are referred to."""

import weakref
from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import TraceError
from vkbackend.framework.utils import swap_tensors


def test_a_parameter_becomes_another_tensor(gpu: Any) -> None:
    layer = fw.nn.Linear(2, 1)
    optimizer = fw.optim.SGD(layer.parameters(), lr=1.0)
    weight, other = layer.weight, fw.ones(2, 2, device=gpu)
    weight.label = "weight"
    values = weight.tolist()
    swap_tensors(weight, other)
    assert layer.weight is weight is optimizer.param_groups[0]["params"][0]
    assert (weight.tolist(), weight.device) == ([[1.0, 1.0], [1.0, 1.0]], gpu)
    assert (type(weight), type(other)) == (fw.Tensor, fw.nn.Parameter)
    assert (other.label, other.tolist(), other.requires_grad) == (
        "weight",
        values,
        True,
    )
    assert not hasattr(weight, "label")


def test_what_cannot_be_swapped() -> None:
    x, y = fw.ones(1), fw.zeros(1)
    kept = weakref.ref(y)
    with pytest.raises(RuntimeError, match="t2 has weak references"):
        swap_tensors(x, y)
    assert kept().tolist() == [0.0]  # type: ignore[union-attr]  # it is alive
    del kept

    @fw.jit
    def traced(a: Any) -> Any:
        swap_tensors(x, y)
        return a + x

    with pytest.raises(TraceError, match="do it outside"):
        traced(fw.ones(1, device="gpu"))
    assert x.tolist() == [1.0]
