"""Embeddings with sparse gradients, beside PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.base.device import Device

INDEX = np.array([[1, 2, 2], [0, 1, 5]])


def tables(place: Device, layer: str, **options: Any) -> tuple[Any, Any]:
    """Return a layer of this library and of PyTorch with the same weights."""
    theirs = getattr(torch.nn, layer)(6, 3, sparse=True, **options)
    ours = getattr(fw.nn, layer)(6, 3, sparse=True, **options)
    ours.load_state_dict({"weight": fw.tensor(theirs.weight.detach().numpy())})
    return ours.to(place), theirs


@pytest.mark.parametrize(
    ("layer", "options"),
    [
        ("Embedding", {"padding_idx": 1}),
        ("EmbeddingBag", {"mode": "sum"}),
        ("EmbeddingBag", {"mode": "mean"}),
    ],
)
def test_gradients_are_as_in_torch(
    layer: str, options: dict[str, Any], place: Device
) -> None:
    ours, theirs = tables(place, layer, **options)
    for _ in range(2):
        (ours(fw.tensor(INDEX, device=place)) ** 2).sum().backward()
        (theirs(torch.tensor(INDEX)) ** 2).sum().backward()
        grad = ours.weight.grad
        assert grad.layout == fw.sparse_coo
        assert_close(grad.to_dense(), theirs.weight.grad.to_dense().numpy())
    # A dense gradient makes the sum dense, in either order.
    ours.weight.sum().backward()
    theirs.weight.sum().backward()
    (ours(fw.tensor(INDEX, device=place)) ** 2).sum().backward()
    (theirs(torch.tensor(INDEX)) ** 2).sum().backward()
    assert ours.weight.grad.layout == fw.strided
    assert_close(ours.weight.grad, theirs.weight.grad.numpy())


def test_what_cannot_be_sparse_is_refused() -> None:
    index = fw.tensor([1])
    with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
        fw.nn.Embedding(3, 2, scale_grad_by_freq=True, sparse=True)(index)
    with pytest.raises(ValueError, match="mode is max"):
        fw.nn.EmbeddingBag(3, 2, mode="max", sparse=True)(index.unsqueeze(0))
