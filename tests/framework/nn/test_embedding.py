"""Tables of vectors as layers."""

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework import nn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError


@pytest.mark.parametrize("padding", [None, 2, -1])
def test_is_as_in_torch(
    padding: int | None, place: Device, rng: np.random.Generator
) -> None:
    ours, theirs = nn.Embedding(7, 3, padding), torch.nn.Embedding(7, 3, padding)
    assert repr(ours) == repr(theirs)
    if padding is not None:
        assert ours.weight.detach().numpy()[padding].tolist() == [0, 0, 0]
    ours.load_state_dict({"weight": fw.tensor(theirs.weight.detach().numpy())})
    ours.to(place)
    index = rng.integers(0, 7, (2, 5))
    found = ours(fw.tensor(index, device=place))
    expected = theirs(torch.tensor(index))
    assert_close(found, expected.detach().numpy(), exact=True)
    found.sum().backward()
    expected.sum().backward()
    assert theirs.weight.grad is not None
    assert_close(ours.weight.grad, theirs.weight.grad.numpy(), exact=True)


def test_vectors_are_normal() -> None:
    drawn = nn.Embedding(200, 50).weight.detach().numpy()
    # 10,000 draws: deviations of 0.01 and 0.007.
    assert abs(drawn.mean()) < 0.05
    assert abs(drawn.std() - 1) < 0.05


def test_padding_that_is_no_vector() -> None:
    with pytest.raises(ShapeError) as raised:
        nn.Embedding(3, 2, 3)
    assert str(raised.value) == ("Embedding: padding_idx is 3; it must be from -3 to 2")


@pytest.mark.parametrize("name", ["Embedding", "EmbeddingBag"])
def test_given_vectors(name: str, place: Device) -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    layer = getattr(nn, name).from_pretrained(fw.tensor(vectors, device=place))
    theirs = getattr(torch.nn, name).from_pretrained(torch.tensor(vectors))
    assert not layer.weight.requires_grad
    index = np.array([[1, 2], [3, 3]])
    expected = theirs(torch.tensor(index)).numpy()
    assert_close(layer(fw.tensor(index, device=place)), expected, exact=True)
    assert (
        getattr(nn, name).from_pretrained(fw.ones((2, 3)), False).weight.requires_grad
    )
    with pytest.raises(ShapeError, match=r"embeddings are \(3,\)"):
        getattr(nn, name).from_pretrained(fw.ones(3))
    with pytest.raises(ShapeError, match=r"_weight is \(2, 3\); it must be \(3, 2\)"):
        getattr(nn, name)(3, 2, _weight=fw.ones((2, 3)))
