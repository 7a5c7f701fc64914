"""Pieces of parameters are gathered, and gradients packed as they are."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.rank_threads import as_threads
from vkbackend.framework import nn
from vkbackend.framework.communication.group import Group
from vkbackend.framework.nn.fsdp.unit import Dtypes, Entry, FlatParameters


def flat_of(layer: nn.Module, group: Group) -> FlatParameters:
    entries = [
        Entry(name, tuple(each.shape), [(layer, name)])
        for name, each in layer.named_parameters()
    ]
    return FlatParameters(group, "it", entries, Dtypes())


def test_gathered_and_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    fw.manual_seed(0)
    layers = [nn.Linear(5, 3) for _ in range(3)]
    for each in layers[1:]:
        each.load_state_dict(layers[0].state_dict())
    whole = {key: x.numpy().copy() for key, x in layers[0].state_dict().items()}

    def work(group: Group) -> Any:
        layer = layers[group.rank]
        flat = flat_of(layer, group)
        flat.gather(None)
        flat.expose(anew=True)
        found = {
            key: x.detach().numpy() for key, x in vars(layer).items() if key in whole
        }
        grads = [fw.full(entry.shape, 1.0 + group.rank) for entry in flat.entries]
        flat.hide()
        flat.free()
        flat.accumulate(flat.packed([grads[0], None]))
        return found, [each.grad for each in flat.pieces], flat.pieces

    for found, grads, pieces in as_threads(monkeypatch, 3).run(work):
        for key, value in whole.items():
            np.testing.assert_array_equal(found[key], value)
        for piece, grad, expected in zip(pieces, grads, (2.0, 0.0)):
            assert (grad is None) == (piece.numel() == 0)
            assert grad is None or grad.tolist() == [expected] * piece.numel()


def test_sparse_gradients_are_refused() -> None:
    layer = nn.Embedding(3, 2, sparse=True)
    model = nn.FSDP(layer, fw.distributed.init())
    with pytest.raises(NotImplementedError, match=r"a gradient of unit \d+ \(Embed"):
        model(fw.tensor([1])).sum().backward()
