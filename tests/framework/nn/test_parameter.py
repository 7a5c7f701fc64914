"""Parameters share what they are made of, and results are plain tensors."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import GradError
from vkbackend.framework.nn.parameter import zero_gradient


def test_it_shares_the_storage() -> None:
    data = fw.tensor([1.0, 2.0])
    parameter = nn.Parameter(data)
    with fw.no_grad():
        parameter.mul_(3)
    assert data.tolist() == [3.0, 6.0]


def test_it_is_a_leaf_that_requires_a_gradient() -> None:
    parameter = nn.Parameter(fw.ones(3))
    (parameter * 2).sum().backward()
    assert parameter.is_leaf
    assert_close(parameter.grad, np.full(3, 2, np.float32))
    assert not nn.Parameter(fw.ones(3), requires_grad=False).requires_grad


def test_results_are_plain_tensors(place: Device) -> None:
    parameter = nn.Parameter(fw.ones((2, 3)).to(place))
    for result in (
        parameter * 2,
        parameter.detach(),
        parameter[0],
        parameter.mT,
        parameter @ parameter.mT,
        parameter.sum(),
        fw.zeros_like(parameter),
    ):
        assert type(result) is fw.Tensor


def test_integers_cannot_be_learned() -> None:
    with pytest.raises(GradError, match="requires_grad: the tensor is int32"):
        nn.Parameter(fw.zeros(3, "int32"))


def test_repr() -> None:
    text = repr(nn.Parameter(fw.tensor([1.0])))
    assert text == "Parameter containing:\ntensor([1.], requires_grad=True)"


@pytest.mark.parametrize(("set_to_none", "expected"), [(True, None), (False, [0.0])])
def test_zero_gradient(set_to_none: bool, expected: list[float] | None) -> None:
    parameter = nn.Parameter(fw.ones(1))
    zero_gradient(parameter, False)
    assert parameter.grad is None
    (parameter * 5).sum().backward()
    zero_gradient(parameter, set_to_none)
    assert (None if parameter.grad is None else parameter.grad.tolist()) == expected


def test_attributes() -> None:
    weight = nn.Parameter(fw.ones(2))
    weight._no_weight_decay = True
    plain = fw.ones(2)
    plain.note = [1]
    assert vars(pickle.loads(pickle.dumps(weight))) == {"_no_weight_decay": True}
    assert vars(copy.deepcopy(plain)) == {"note": [1]}
    # As in PyTorch.
    assert not vars(copy.deepcopy(weight))
    assert not vars(plain + 1)


def test_a_deep_copy_has_no_gradient() -> None:
    """A plain tensor's has, as in PyTorch."""
    for library in (fw, torch):
        weight, plain = library.nn.Parameter(library.ones(1)), library.ones(1)
        plain.requires_grad_()
        (weight * plain).sum().backward()
        assert copy.deepcopy(weight).grad is None
        assert copy.deepcopy(plain).grad.tolist() == [1.0]


@pytest.mark.parametrize("library", [torch, fw])
@pytest.mark.parametrize("above", [True, False])
def test_class_whose_new_takes_options(library: Any, above: bool) -> None:
    """As of weights that keep how they are quantized."""

    class Packed(library.nn.Parameter):  # type: ignore[misc, name-defined]  # of either library
        def __new__(cls, data: Any, bits: int = 8, requires_grad: bool = False) -> Any:
            if above:
                made = super().__new__(cls, data, requires_grad)
            else:
                made = library.Tensor._make_subclass(cls, data, requires_grad)
            made.bits = bits
            return made

    weight = Packed(library.ones(3), bits=4, requires_grad=True)
    assert (weight.bits, weight.requires_grad) == (4, True)
    assert isinstance(weight, library.nn.Parameter)
    layer = library.nn.Linear(3, 1)
    layer.weight = weight
    assert layer.weight is weight
    with pytest.raises(TypeError):
        library.nn.Parameter(library.ones(1), bits=4)
