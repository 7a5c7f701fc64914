"""Packing and padding beside PyTorch's."""

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils import rnn as theirs

import vkbackend.framework as fw
from vkbackend.framework.nn.utils import rnn as ours

NAMES = [
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


def plain(value: Any) -> Any:
    """Return what is compared: lists for tensors."""
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    return value.tolist() if hasattr(value, "tolist") else value


def answers(rnn: Any, tensor: Any) -> list[Any]:
    """Return what all functions answer for three sequences."""
    rows = [tensor(np.arange(n * 2.0, dtype="f4").reshape(n, 2) + n) for n in (2, 4, 1)]
    x = rnn.pad_sequence(rows)
    packed = rnn.pack_padded_sequence(x, tensor([2, 4, 1]), enforce_sorted=False)
    return [
        x,
        rnn.pad_sequence(rows, True, -1.0, padding_side="left"),
        packed,
        rnn.pad_packed_sequence(packed, batch_first=True),
        rnn.pad_packed_sequence(packed, padding_value=7.0, total_length=5),
        rnn.pack_sequence(rows, enforce_sorted=False),
        rnn.pack_sequence(sorted(rows, key=lambda each: -each.shape[0])),
        rnn.unpack_sequence(packed),
        rnn.unpad_sequence(x.clone(), tensor([2, 4, 1])),  # PyTorch transposes it
        packed.double().data.sum(),
    ]


def test_are_pytorchs() -> None:
    assert plain(answers(ours, fw.tensor)) == plain(answers(theirs, torch.tensor))


REFUSED: dict[str, Any] = {
    "not sorted": lambda rnn, zeros: rnn.pack_padded_sequence(zeros((4, 2)), [1, 2]),
    "zero": lambda rnn, zeros: rnn.pack_padded_sequence(zeros((4, 2)), [2, 0]),
    "no sequence": lambda rnn, zeros: rnn.pad_sequence([]),
    "side": lambda rnn, zeros: rnn.pad_sequence([zeros((1,))], padding_side="up"),
    "total": lambda rnn, zeros: rnn.pad_packed_sequence(
        rnn.pack_sequence([zeros((3, 1))]), total_length=2
    ),
}


@pytest.mark.parametrize("call", REFUSED)
def test_refusals(call: str) -> None:
    with pytest.raises((RuntimeError, ValueError)) as wanted:
        REFUSED[call](theirs, torch.zeros)
    with pytest.raises(wanted.type):
        REFUSED[call](ours, fw.zeros)


def test_gradients_go_through_packing() -> None:
    x = fw.ones((3, 2, 1), requires_grad=True)
    packed = ours.pack_padded_sequence(x, [3, 1])
    (ours.pad_packed_sequence(packed)[0] * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.flatten().tolist() == [2.0, 2.0, 2.0, 0.0, 2.0, 0.0]


@pytest.mark.parametrize("name", NAMES)
def test_signatures_are_pytorchs(name: str) -> None:
    found, wanted = (
        inspect.signature(getattr(each, name)).parameters.values()
        for each in (ours, theirs)
    )
    assert [(p.name, p.default) for p in found] == [(p.name, p.default) for p in wanted]


def test_lengths_are_on_the_host_whatever_the_default_device() -> None:
    x = fw.ones(2, 3, 1)
    with fw.device("meta"):
        packed = ours.pack_padded_sequence(x, [3, 1], batch_first=True)
        _, lengths = ours.pad_packed_sequence(packed)
    assert packed.batch_sizes.tolist() == [2, 1, 1]
    assert lengths.tolist() == [3, 1]
