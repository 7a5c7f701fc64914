"""Containers of parameters, beside PyTorch's."""

from collections import OrderedDict
from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn


def test_list() -> None:
    ours = nn.ParameterList([fw.zeros(2), nn.Parameter(fw.ones(3)), 5])
    theirs = torch.nn.ParameterList(
        [torch.zeros(2), torch.nn.Parameter(torch.ones(3)), 5]
    )
    ours.append(fw.zeros((2, 3)))
    theirs.append(torch.zeros(2, 3))
    ours += [fw.zeros(1)]
    theirs += [torch.zeros(1)]
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert isinstance(ours[0], nn.Parameter)
    assert len(ours[1:3]) == 2
    assert ours[-1] is ours[4]
    assert [type(each).__name__ for each in ours] == [
        type(each).__name__ for each in theirs
    ]
    ours[0] = fw.ones(7)
    assert ours[0].shape == (7,)
    with pytest.raises(IndexError, match="index 5 is out of range"):
        ours[5]
    with pytest.raises(TypeError, match="a Tensor was given"):
        ours.extend(fw.zeros(3))
    with pytest.raises(RuntimeError, match="should not be called"):
        ours()


def test_dict() -> None:
    def fill(space: Any, made: Any) -> Any:
        found = space.ParameterDict({"e": made(3), "a": made(2)})
        found["n"] = 5
        found.update({"b": space.Parameter(made(1))})
        found.setdefault("c", made(4))
        del found["a"]
        return found

    ours, theirs = fill(nn, fw.zeros), fill(torch.nn, torch.zeros)
    assert repr(ours) == repr(theirs)
    assert list(ours.keys()) == list(theirs.keys()) == ["e", "n", "b", "c"]
    assert "e" in ours
    assert ours["e"].shape == (3,)
    assert ours.get("x", 3) == 3
    assert ours.popitem()[0] == "c"
    assert ours.pop("n") == 5
    assert list(ours | nn.ParameterDict({"z": fw.zeros(1)})) == ["e", "b", "z"]
    assert list(reversed(ours)) == ["b", "e"]
    with pytest.raises(KeyError):
        ours["a"]
    assert len(list(ours.parameters())) == 2
    ours.clear()
    assert len(ours) == 0


@pytest.mark.parametrize("kind", [dict, OrderedDict, list])
def test_dict_keeps_pytorch_s_order(kind: Any) -> None:
    pairs = [("mu", 1.0), ("alpha", 2.0), ("beta", 3.0)]
    theirs = torch.nn.ParameterDict(kind((k, torch.tensor(v)) for k, v in pairs))
    ours = nn.ParameterDict(kind((k, fw.tensor(v)) for k, v in pairs))
    assert list(ours) == list(theirs)
    assert list(ours.copy()) == list(theirs.copy())
    found = [each.item() for each in ours.parameters()]
    assert found == [each.item() for each in theirs.parameters()]
