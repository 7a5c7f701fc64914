"""Losses that want a margin."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.nn.functional.beside import beside, drawn
from vkbackend.framework.base.device import Device
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name

# Classes and positions are int64, as in PyTorch.
pytestmark = pytest.mark.int64

X, OTHER, THIRD = (drawn(4, 5, seed=k) for k in range(3))
LABELS = np.array([1, 0, 4, 2])
SETS = np.array([[1, 3, -1, 0, 0], [-1, 2, 2, 2, 2], [4, 4, 0, -1, 1], [0, 1, 2, 3, 4]])
SIGNS = np.array([1.0, -1.0, 1.0, -1.0], np.float32)
SHARES = np.array([0.5, 1.0, 2.0, 0.25, 1.0], np.float32)

LOSSES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("hinge_embedding_loss", (X[:, 0], SIGNS), {"margin": 0.5}),
    ("margin_ranking_loss", (X[:, 0], X[:, 1], SIGNS), {"margin": 0.5}),
    ("cosine_embedding_loss", (X, OTHER, SIGNS), {"margin": 0.1}),
    ("multi_margin_loss", (X, LABELS), {}),
    ("multi_margin_loss", (X, LABELS), {"p": 2, "margin": 0.7, "weight": SHARES}),
    ("multilabel_margin_loss", (X, SETS), {}),
    ("multilabel_soft_margin_loss", (X, OTHER), {"weight": SHARES}),
    ("triplet_margin_loss", (X, OTHER, THIRD), {}),
    ("triplet_margin_loss", (X, OTHER, THIRD), {"swap": True, "p": 1, "margin": 2.0}),
    ("triplet_margin_with_distance_loss", (X, OTHER, THIRD), {"swap": True}),
]


@pytest.mark.parametrize(("name", "arrays", "options"), LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_is_as_in_torch(
    name: str,
    arrays: tuple[Any, ...],
    options: dict[str, Any],
    reduction: str,
    place: Device,
) -> None:
    beside(name, place, *arrays, scale=16, reduction=reduction, **options)


@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        ("multi_margin_loss", (X[0], np.array(3))),
        ("multilabel_margin_loss", (X[0], SETS[0])),
        ("cosine_embedding_loss", (X[0], OTHER[0], np.array(1.0, np.float32))),
    ],
)
def test_without_batch(name: str, arrays: tuple[Any, ...], place: Device) -> None:
    beside(name, place, *arrays, scale=8)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: F.multi_margin_loss(x, x, 3), "p is 3"),
        (lambda x: F.triplet_margin_loss(x, x, x, 0.0), "margin is 0.0"),
        (lambda x: F.triplet_margin_loss(x, x, x[0]), "as many dimensions"),
        (lambda x: F.cosine_embedding_loss(x, x, x), "inputs are"),
        (lambda x: F.multilabel_margin_loss(x, x[0]), "input is"),
    ],
)
def test_bad_arguments(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call(fw.ones((2, 3)))
