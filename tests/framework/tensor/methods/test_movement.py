"""Methods that give elements another shape or order."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.tensor.methods.calls import Call, X, Y, agree, ours, public
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.tensor.methods import MovementMethods

CUBE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
COUNTS = np.array([2, 0], np.int32)

CALLS: dict[str, Call] = {
    "reshape": lambda x, t: (x.reshape(4, -1), x.reshape((6, 4))),
    "reshape_as": lambda x, t: x[0].reshape_as(t(CUBE[0].reshape(6, 2))),
    "view": lambda x, t: (x.view(-1), x.view((4, 6))),
    "view_as": lambda x, t: x[0].view_as(t(CUBE[0].reshape(6, 2))),
    "flatten": lambda x, t: (x.flatten(), x.flatten(1), x.flatten(0, 1)),
    "ravel": lambda x, t: (x.ravel(), x.mT.ravel()),
    "unflatten": lambda x, t: x.unflatten(2, (2, -1)),
    "permute": lambda x, t: (x.permute(2, 0, 1), x.permute((1, 0, 2))),
    "transpose": lambda x, t: x.transpose(0, -1),
    "movedim": lambda x, t: (x.movedim(0, 2), x.movedim((0, 1), (1, 2))),
    "mT": lambda x, t: x.mT,
    "mH": lambda x, t: x.mH,
    "H": lambda x, t: x[0].H,
    "T": lambda x, t: x[0].T,
    "t": lambda x, t: (x[0].t(), x[0, 0].t()),
    "expand": lambda x, t: x[:1].expand(5, -1, -1),
    "expand_as": lambda x, t: x[:1].expand_as(t(CUBE)),
    "broadcast_to": lambda x, t: x[0].broadcast_to((5, 3, 4)),
    "squeeze": lambda x, t: (x[:1, :1].squeeze(), x[:1].squeeze(0), x.squeeze(1)),
    "unsqueeze": lambda x, t: (x.unsqueeze(-1), x.unsqueeze(1)),
    "flip": lambda x, t: (x.flip(0), x.flip(1, 2), x.flip((0, 2))),
    "roll": lambda x, t: (x.roll(2), x.roll((1, -1), (0, 2))),
    "rot90": lambda x, t: [x.rot90(k, (0, 2)) for k in range(-1, 5)] + [x.rot90()],
    "repeat": lambda x, t: (x[0].repeat(2, 3), x[0].repeat((2, 1, 1))),
    "tile": lambda x, t: (x.tile(2), x[0].tile((2, 1, 2))),
    "repeat_interleave": lambda x, t: (
        x.repeat_interleave(2), x.repeat_interleave(t(COUNTS), 0),
    ),
    "split": lambda x, t: (*x.split(3, 2), *x.split((1, 2), 1)),
    "tensor_split": lambda x, t: (*x.tensor_split(3, 2), *x.tensor_split((1, 2), 1)),
    "chunk": lambda x, t: x.chunk(3, 2),
    "unbind": lambda x, t: (*x.unbind(), *x.unbind(-1)),
    "narrow": lambda x, t: x.narrow(2, 1, 2),
    "narrow_copy": lambda x, t: x.narrow_copy(2, 1, 2),
    "split_with_sizes": lambda x, t: x.split_with_sizes((1, 2), 1),
    "unsafe_chunk": lambda x, t: x.unsafe_chunk(3, 2),
    "unsafe_split": lambda x, t: x.unsafe_split(3, 2),
    "unsafe_split_with_sizes": lambda x, t: x.unsafe_split_with_sizes((1, 2), 1),
    "select": lambda x, t: x.select(1, -1),
    "unfold": lambda x, t: x.unfold(2, 2, 1),
    "tril": lambda x, t: (x.tril(), x.tril(-1)),
    "triu": lambda x, t: (x.triu(), x.triu(1)),
    "diag": lambda x, t: (x[0].diag(1), x[0, 0].diag()),
    "diagonal": lambda x, t: x.diagonal(1, 1, 2),
    "diag_embed": lambda x, t: x[0].diag_embed(1),
    "contiguous": lambda x, t: x.mT.contiguous(),
    "is_contiguous": lambda x, t: (
        x.is_contiguous(), x.mT.is_contiguous(), x[1:].is_contiguous(),
    ),
    "clone": lambda x, t: x.clone(),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_method(name: str, place: Device) -> None:
    agree(CALLS[name], CUBE, place)


def test_every_method_has_a_row() -> None:
    assert public(MovementMethods) == set(CALLS)


def test_view_never_copies(place: Device) -> None:
    x = ours(place)(X)
    x.view(-1)[0] = 9
    assert x[0, 0].item() == 9
    with pytest.raises(ShapeError) as raised:
        x.T.view(-1)
    assert str(raised.value) == (
        "view: strides (1, 3) of shape (3, 2) do not allow a view as (6,); use reshape"
    )
    with pytest.raises(ShapeError, match="view: strides"):
        x.T.view_as(ours(place)(Y.reshape(-1)))


VIEWS: dict[str, Callable[[Any], Any]] = {
    "view": lambda x: x.view(*x.shape),
    "view_as": lambda x: x.view_as(x),
    "reshape": lambda x: x.reshape(x.shape),
    "squeeze": lambda x: x.squeeze(),
    "slice": lambda x: x[:],
    "ellipsis": lambda x: x[...],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("library", [torch, fw])
def test_view_of_everything_is_another_tensor(name: str, library: Any) -> None:
    x = library.ones(2, 3).t()
    view = VIEWS[name](x)
    view.requires_grad_()
    assert not x.requires_grad
    view.detach().mul_(2)
    assert x.sum().item() == 12
    weight = library.nn.Parameter(library.ones(3))
    view = VIEWS[name](weight)
    assert type(view) is library.Tensor
    assert not view.is_leaf
    (view * 3).sum().backward()
    assert weight.grad.tolist() == [3.0] * 3


@pytest.mark.parametrize("library", [torch, fw])
def test_class_whose_new_takes_options(library: Any) -> None:
    class Tagged(library.Tensor):  # type: ignore[misc, name-defined]  # of either library
        def __new__(cls, data: Any, tag: str = "") -> Any:
            made = library.Tensor._make_subclass(cls, data, False)
            made.tag = tag
            return made

    x = Tagged(library.ones(2), tag="a")
    assert (x.tag, type(x + 1).__name__) == ("a", "Tagged")
    with pytest.raises(TypeError):
        library.Tensor([1.0], tag="a")


def test_several_ints_are_one_sequence() -> None:
    for library in (torch, fw):
        x: Any = library.arange(24).reshape(2, 3, 4, 1, 1)
        assert x.squeeze(-1, -2).shape == (2, 3, 4)
        assert x.clone().squeeze_(3, 4).shape == (2, 3, 4)
        assert x.count_nonzero(0, 2, 3).shape == (3, 1)
        for name, size in (("vsplit", 2), ("hsplit", 3), ("dsplit", 4)):
            parts = getattr(x, name)(1, 2)
            sizes = [part.numel() * size // 24 for part in parts]
            assert sizes == [1, 1, size - 2]
        with pytest.raises(TypeError):
            library.squeeze(x, 3, 4)
