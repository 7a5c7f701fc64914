"""Lazy layers become what they are for at the first call."""

from typing import Any

import pytest

import vkbackend.framework as fw
from tests.framework.nn.lazy_layers import check_first_call
from vkbackend.framework import nn

LAYERS: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("LazyLinear", (4,), (2, 3)),
]


@pytest.mark.parametrize(("name", "args", "shape"), LAYERS)
def test_first_call(name: str, args: Any, shape: tuple[int, ...]) -> None:
    check_first_call(name, args, shape)


def test_a_state_has_the_shapes() -> None:
    layer, whole = nn.LazyLinear(2), nn.Linear(3, 2)
    layer.load_state_dict(whole.state_dict())
    x = fw.rand(4, 3)
    assert layer(x).tolist() == whole(x).tolist()
    assert type(layer) is nn.Linear


def test_optimizers_keep_the_parameter() -> None:
    layer = nn.LazyLinear(2)
    weight = layer.weight
    layer(fw.ones((1, 3)))
    assert layer.weight is weight
    assert weight.requires_grad
    assert type(weight) is nn.Parameter
    layer(fw.ones((1, 3))).sum().backward()
    assert weight.grad is not None


def test_conversions_before_the_first_call() -> None:
    layer = nn.LazyBatchNorm1d().double()
    assert layer.weight.dtype is layer.running_mean.dtype is fw.float64
    assert layer(fw.ones(3, 2, dtype=fw.float64)).dtype is fw.float64
    assert nn.LazyConv1d(2, 1).to_empty(device="cpu").has_uninitialized_params()


def test_refusals() -> None:
    weight = nn.UninitializedParameter()
    with pytest.raises(RuntimeError, match="it has no shape before the layer's first"):
        _ = weight.shape

    class Empty(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.UninitializedParameter()

    with pytest.raises(NotImplementedError, match="define initialize_parameters"):
        Empty()(fw.ones(1))
