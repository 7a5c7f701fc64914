"""Modules that hold modules."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn


class Add(nn.Module):
    def __init__(self, number: int) -> None:
        self.number = number

    def forward(self, x: int) -> int:
        return x * 10 + self.number


def test_sequential_applies_in_order() -> None:
    model = nn.Sequential(Add(1), Add(2), Add(3))
    assert model(0) == 123
    model.append(Add(4))
    assert model(0) == 1234
    assert len(model) == 4
    assert nn.Sequential()(5) == 5


def test_sequential_takes_names() -> None:
    model = nn.Sequential({"first": nn.Linear(2, 3), "act": nn.ReLU()})
    assert list(model.state_dict()) == ["first.weight", "first.bias"]
    assert model(fw.zeros((1, 2))).shape == (1, 3)


def test_members_are_reached_by_position() -> None:
    model = nn.Sequential(Add(1), Add(2), Add(3))
    assert [module.number for module in model if isinstance(module, Add)] == [1, 2, 3]
    assert model[1](0) == 2
    assert model[-1](0) == 3
    assert model[1:](0) == 23
    with pytest.raises(IndexError):
        model[3]


def test_module_list() -> None:
    layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(3))
    layers.extend([nn.ReLU()])
    assert len(layers) == 4
    assert isinstance(layers[1:3], nn.ModuleList)
    assert layers[1:3][0] is layers[1]
    assert [name for name, _ in layers.named_parameters()][::2] == [
        "0.weight",
        "1.weight",
        "2.weight",
    ]


def test_only_modules_are_taken() -> None:
    with pytest.raises(TypeError, match="Sequential: function is no module"):
        nn.Sequential(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ModuleList: int is no module"):
        nn.ModuleList([3])  # type: ignore[list-item]
