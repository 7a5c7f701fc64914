"""Distances and products between vectors."""

import pytest

import vkbackend.framework as fw
from tests.framework.nn.functional.beside import beside, drawn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name


def test_is_as_in_torch(place: Device) -> None:
    pair = drawn(5, 7), drawn(5, 7, seed=1)
    beside("pairwise_distance", place, *pair, p=3.0, keepdim=True)
    beside("cosine_similarity", place, *pair, dim=0)
    beside("pdist", place, drawn(6, 3), p=1)
    beside("pdist", place, drawn(6, 3))


@pytest.mark.parametrize("lead", [(), (4,), (2, 3)])
def test_bilinear(lead: tuple[int, ...], place: Device) -> None:
    one, other = drawn(*lead, 5), drawn(*lead, 3, seed=1)
    beside("bilinear", place, one, other, drawn(4, 5, 3), drawn(4), scale=16)


def test_bad_shapes() -> None:
    with pytest.raises(ShapeError, match=r"pdist: input is \(3,\)"):
        F.pdist(fw.ones(3))
    with pytest.raises(ShapeError, match="bilinear: inputs are"):
        F.bilinear(fw.ones(3), fw.ones(4), fw.ones(2, 4, 3))
