"""Losses that want a margin, as layers."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.nn.functional.beside import drawn
from vkbackend.framework import nn

X, OTHER, THIRD = (drawn(4, 5, seed=k) for k in range(3))
LABELS = np.array([1, 0, 4, 2])
SIGNS = np.sign(drawn(4, seed=3))

LAYERS: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    ("SoftMarginLoss", {}, (X, np.sign(OTHER))),
    ("MultiLabelMarginLoss", {}, (X, np.array([[1, 3, -1, 0, 0]] * 4))),
    ("MultiLabelSoftMarginLoss", {"weight": [0.5, 1.0, 2.0, 1.0, 1.0]}, (X, OTHER)),
    ("MultiMarginLoss", {"p": 2, "weight": [0.5, 1.0, 2.0, 1.0, 1.0]}, (X, LABELS)),
    ("CosineEmbeddingLoss", {"margin": 0.2}, (X, OTHER, SIGNS)),
    ("TripletMarginLoss", {"swap": True, "reduction": "sum"}, (X, OTHER, THIRD)),
    ("TripletMarginWithDistanceLoss", {"margin": 0.5}, (X, OTHER, THIRD)),
]


@pytest.mark.parametrize(("name", "options", "arrays"), LAYERS)
def test_is_as_in_torch(name: str, options: dict[str, Any], arrays: Any) -> None:
    results = []
    for library, tensor in ((torch.nn, torch.tensor), (nn, fw.tensor)):
        make: Any = tensor
        given = {k: make(v) if isinstance(v, list) else v for k, v in options.items()}
        layer = getattr(library, name)(**given)
        results.append(layer(*map(make, arrays)))
        results.append(sorted(layer.state_dict()))
    assert_close(results[2], results[0].numpy(), scale=4)
    assert results[3] == results[1]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.MultiMarginLoss(3), "p is 3"),
        (lambda: nn.MultiMarginLoss(weight=fw.ones((2, 2))), "weight is"),
        (lambda: nn.TripletMarginLoss(-1.0), "margin is -1.0"),
        (lambda: nn.TripletMarginWithDistanceLoss(margin=0.0), "margin is 0.0"),
    ],
)
def test_bad_arguments(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()
