"""Modules that hold modules."""

import operator
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn


class Add(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
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


def both(kind: str) -> tuple[Any, Any]:
    """Return a container of ours and PyTorch's, of equal layers but one."""

    def layers(space: Any) -> list[Any]:
        return [space.Linear(2, 2), space.Linear(2, 2), space.ReLU(), space.Tanh()]

    if kind == "Sequential":
        return nn.Sequential(*layers(nn)), torch.nn.Sequential(*layers(torch.nn))
    return nn.ModuleList(layers(nn)), torch.nn.ModuleList(layers(torch.nn))


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "append": lambda m, space: m.append(space.GELU()),
    "extend": lambda m, space: m.extend([space.GELU(), space.ReLU()]),
    "insert": lambda m, space: m.insert(1, space.GELU()),
    "insert at end": lambda m, space: m.insert(4, space.GELU()),
    "pop": lambda m, space: m.pop(1),
    "pop last": lambda m, space: m.pop(-1),
    "del": lambda m, space: m.__delitem__(0),
    "del slice": lambda m, space: m.__delitem__(slice(1, 3)),
    "set": lambda m, space: m.__setitem__(-1, space.GELU()),
    "add": lambda m, space: m + type(m)(space.GELU() for _ in ()),
    "slice": lambda m, space: m[1:-1],
    "step": lambda m, space: m[::2],
    "beyond": lambda m, space: m[4],
    "insert beyond": lambda m, space: m.insert(7, space.GELU()),
    "no module": lambda m, space: m.append(3),
    "a function": lambda m, space: m.extend([len]),
    "not iterable": lambda m, space: m.extend(3),
}


@pytest.mark.parametrize("kind", ["Sequential", "ModuleList"])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_are_pytorchs(kind: str, change: str) -> None:
    if (kind, change) == ("ModuleList", "insert beyond"):
        with pytest.raises(IndexError, match="index 7 is out of range"):
            nn.ModuleList().insert(7, nn.ReLU())
        return
    answers: list[Any] = []
    for module, space in zip(both(kind), (nn, torch.nn)):
        if change == "add" and kind == "Sequential":
            found = module + type(module)(space.GELU())
        else:
            try:
                found = CHANGES[change](module, space)
            except (TypeError, IndexError) as error:
                answers.append([type(error), repr(module)])
                continue
        answers.append([repr(found), repr(module), list(module.state_dict())])
    assert answers[0] == answers[1]


def test_sequential_repeats() -> None:
    model = nn.Sequential(Add(1)) * 3
    assert model(0) == 111
    model += nn.Sequential(Add(2))
    assert (model(0), len(model), model[0] is model[2]) == (1112, 4, True)
    with pytest.raises(ValueError, match="a list cannot be added"):
        operator.add(model, [Add(1)])


def test_repr_of_a_list_folds_equal_layers() -> None:
    for ours, theirs in (both("ModuleList"), both("Sequential")):
        assert repr(ours) == repr(theirs)
    assert repr(nn.ModuleList()) == repr(torch.nn.ModuleList())


def test_module_dict() -> None:
    ours = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Linear(2, 1)})
    theirs = torch.nn.ModuleDict({"b": torch.nn.ReLU(), "a": torch.nn.Linear(2, 1)})
    for module, space in ((ours, nn), (theirs, torch.nn)):
        module["c"] = space.Tanh()  # type: ignore[index]
        module.update([("d", space.ReLU())])  # type: ignore[operator]
        del module["b"]  # type: ignore[attr-defined]
    assert repr(ours) == repr(theirs)
    assert list(ours) == list(ours.keys()) == ["a", "c", "d"]
    assert [name for name, _ in ours.items()] == ["a", "c", "d"]
    assert "a" in ours
    assert len(ours) == 3
    assert isinstance(ours.pop("a"), nn.Linear)
    with pytest.raises(KeyError):
        ours["a"]
    with pytest.raises(TypeError, match="ModuleDict: int is no module"):
        ours["a"] = 3  # type: ignore[assignment]
    ours.clear()
    assert not ours.state_dict()


@pytest.mark.parametrize("name", ["ModuleList", "ModuleDict", "Sequential"])
def test_a_member_that_is_missing(name: str) -> None:
    shown = []
    for library in (nn, torch.nn):
        kind = getattr(library, name)
        members = [library.Identity(), None]
        made = (
            kind(dict(zip("ab", members)))
            if name == "ModuleDict"
            else (kind(*members) if name == "Sequential" else kind(members))
        )
        assert [*made.children()] == members[:1]
        assert len(made) == 2
        assert len([*made.named_modules()]) == 2
        shown.append((repr(made), dict(made.state_dict())))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("library", [torch, fw])
def test_names_after_a_deletion(library: Any) -> None:
    layers = library.nn
    net = layers.Sequential(OrderedDict(a=layers.Linear(1, 1), b=layers.Tanh()))
    net.append(layers.ReLU())
    del net[0]
    assert [name for name, _ in net.named_children()] == ["0", "1"]
