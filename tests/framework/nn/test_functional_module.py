"""Layers that are a function and its options."""

import copy

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn, ops
from vkbackend.framework.nn.functional_module import FunctionalModule


class Shifted(FunctionalModule, function=ops.sub):
    """Subtracts a number."""

    def __init__(self, y: float = 1.0) -> None:
        self.y = y


class Hidden(Shifted):
    """Inherits the function and the options; shows none of them."""

    shown = ()


def test_options_are_read_when_it_is_called() -> None:
    layer = Shifted()
    assert (Shifted.options, repr(layer)) == (("y",), "Shifted(y=1.0)")
    x = fw.tensor([1.0, 5.0])
    assert layer(x).tolist() == [0, 4]
    other = copy.deepcopy(layer)
    layer.y = 3.0
    assert (layer(x).tolist(), other(x).tolist()) == ([-2, 2], [0, 4])


def test_what_is_inherited() -> None:
    layer = Hidden(2.0)
    assert (Hidden.options, repr(layer)) == (("y",), "Hidden()")
    assert layer(fw.tensor([1.0])).tolist() == [-1]


@pytest.mark.parametrize(
    ("layer", "options"),
    [
        (nn.ReLU, ("inplace",)),
        (nn.Hardtanh, ("min_val", "max_val", "inplace")),
        (
            nn.CrossEntropyLoss,
            ("weight", "ignore_index", "reduction", "label_smoothing"),
        ),
        (nn.Softplus, ("beta", "threshold")),
    ],
)
def test_options_are_what_a_layer_takes(
    layer: type[FunctionalModule], options: tuple[str, ...]
) -> None:
    assert layer.options == options
