"""Files for torch.load."""

from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.dtype import DTYPES


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "weights.pth"


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "complex128"])
def test_dtypes_and_views(dtype: str, path: Path, place: Device) -> None:
    x = fw.tensor([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]], dtype=dtype)
    x = x.to(place)
    views = [x, x.mT, x[1:, ::2], x[0, 0], x[:0], x[:1].expand(3, 4)]
    fw.save(views, path)
    loaded = torch.load(path, weights_only=True, mmap=True)
    for theirs, ours in zip(loaded, views, strict=True):
        assert str(ours.dtype) == str(theirs.dtype)
        assert ours.tolist() == theirs.tolist()
    pointers = {each.untyped_storage().data_ptr() for each in loaded}
    assert len(pointers) == 1
    assert [each.tolist() for each in fw.load(path)] == [x.tolist() for x in views]


def test_values(path: Path) -> None:
    weight = nn.Parameter(fw.ones(2))
    value: dict[Any, Any] = {
        "shared": [weight, weight, nn.Parameter(fw.ones(1), requires_grad=False)],
        "plain": (1, -1, 1 << 31, -(1 << 80), 1 << 2000, 2.5, "ä", None, True, False),
        "more": [
            1j,
            b"\x00\xff",
            {1, 2},
            OrderedDict(a=1),
            fw.ones(1).requires_grad_(),
        ],
        3: {(1, 2): []},
        "named": [fw.Size((2, 3)), fw.bfloat16, fw.device("cpu")],
    }
    fw.save(value, path)
    loaded = torch.load(path, weights_only=True)
    one, two, three = loaded["shared"]
    assert one is two
    assert type(one) is torch.nn.Parameter
    assert one.requires_grad
    assert not three.requires_grad
    assert loaded["plain"] == value["plain"]
    assert loaded["more"][:4] == value["more"][:4]
    assert loaded["more"][4].requires_grad
    assert loaded[3] == value[3]
    assert loaded["named"] == [torch.Size([2, 3]), torch.bfloat16, torch.device("cpu")]
    again = fw.load(path)
    assert again["plain"] == value["plain"]
    assert again["named"] == value["named"]


def test_torch_goes_on_from_our_states(path: Path) -> None:
    ours = nn.Linear(3, 2)
    own = optim.AdamW(ours.parameters(), lr=0.1)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def step(model: Any, optimizer: Any, x: Any) -> None:
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()

    step(ours, own, fw.tensor(x))
    with path.open("wb") as file:
        fw.save({"model": ours.state_dict(), "opt": own.state_dict()}, file)
    loaded = torch.load(path, weights_only=True)
    theirs = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(theirs.parameters())
    assert loaded["model"]._metadata[""] == {"version": 1}
    theirs.load_state_dict(loaded["model"])
    optimizer.load_state_dict(loaded["opt"])
    for _ in range(2):
        step(ours, own, fw.tensor(x))
        step(theirs, optimizer, torch.tensor(x))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize(
    "value", [len, np.arange(2), np.float64(1), frozenset(), 1 << 2047]
)
def test_objects_that_are_no_data(value: Any, path: Path) -> None:
    x = fw.ones(2)
    fw.save({"x": [value, x], "y": x}, path)
    found = torch.load(path, weights_only=False)
    assert found["x"][1] is found["y"]
    for loaded in (found, fw.load(path, weights_only=False)):
        np.testing.assert_equal(loaded["x"][0], value)
        assert loaded["y"].tolist() == [1.0, 1.0]


def test_what_has_no_pickle(path: Path) -> None:
    for value in (lambda: 1, (each for each in ())):
        with pytest.raises(TypeError, match=r"save: obj\['x'\]\[0\] is a "):
            fw.save({"x": [value]}, path)
    assert not path.exists()
