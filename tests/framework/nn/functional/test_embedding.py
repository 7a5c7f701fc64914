"""Embedding lookup and bags."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.nn.functional.beside import beside, drawn
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn import functional as F  # noqa: N812 - PyTorch's usual name

# Classes and positions are int64, as in PyTorch.
pytestmark = pytest.mark.int64

INDEX = np.array([1, 4, 1, 0, 3, 3, 3, 2])
STARTS = np.array([0, 3, 3, 6])

BAGS: list[tuple[Any, dict[str, Any]]] = [
    (INDEX, {"offsets": STARTS, "mode": "sum"}),
    (INDEX, {"offsets": STARTS, "mode": "mean", "padding_idx": 3}),
    (INDEX, {"offsets": STARTS, "mode": "max", "padding_idx": -2}),
    (INDEX, {"offsets": np.array([0, 2, 8]), "include_last_offset": True}),
    (INDEX.reshape(2, 4), {"mode": "mean"}),
    (INDEX.reshape(4, 2), {"mode": "max"}),
    (INDEX.reshape(4, 2), {"mode": "max", "padding_idx": 3}),
    (INDEX.reshape(4, 2), {"mode": "mean", "padding_idx": 3}),
    (INDEX.reshape(4, 2), {"mode": "sum", "per_sample_weights": drawn(4, 2)}),
    (
        INDEX,
        {"offsets": STARTS, "mode": "sum", "per_sample_weights": drawn(8)},
    ),
]


@pytest.mark.parametrize(("index", "options"), BAGS)
def test_bags(index: Any, options: dict[str, Any], place: Device) -> None:
    beside("embedding_bag", place, index, drawn(5, 3), **options)


def test_gradient_by_frequency(place: Device) -> None:
    beside("embedding", place, INDEX, drawn(5, 3), scale_grad_by_freq=True)
    # PyTorch 2.13 divides the gradients of bags by the frequencies of other rows.
    weight = fw.tensor(drawn(5, 3), device=place, requires_grad=True)
    index = fw.tensor(INDEX.reshape(2, 4), device=place)
    out = F.embedding_bag(index, weight, mode="sum", scale_grad_by_freq=True)
    assert_close(out, weight.detach().numpy()[INDEX].reshape(2, 4, 3).sum(1))
    out.sum().backward()
    assert_close(weight.grad, np.ones((5, 3), np.float32))


def test_long_rows_are_scaled(place: Device) -> None:
    weight = drawn(5, 3) * 2
    theirs = torch.tensor(weight)
    ours = fw.tensor(weight, device=place)
    index = np.array([0, 2, 2])
    for most, p in ((1.0, 2.0), (0.5, 1.0)):
        expected = torch.nn.functional.embedding(
            torch.tensor(index), theirs, max_norm=most, norm_type=p
        )
        found = F.embedding(
            fw.tensor(index, device=place), ours, max_norm=most, norm_type=p
        )
        assert_close(found, expected.numpy(), scale=2)
        assert_close(ours, theirs.numpy(), scale=2)  # a norm and a division


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"mode": "min"}, ValueError, "mode is 'min'"),
        ({"offsets": fw.tensor([0, 9])}, ShapeError, "end at most at 8"),
        ({"offsets": None}, ShapeError, "a 1-D input needs 1-D offsets"),
        (
            {"per_sample_weights": fw.ones(8), "mode": "max"},
            NotImplementedError,
            "for 'sum' only",
        ),
        (
            {"per_sample_weights": fw.ones(3), "mode": "sum"},
            ShapeError,
            r"per_sample_weights are \(3,\)",
        ),
    ],
)
def test_bad_arguments(options: Any, error: type[Exception], text: str) -> None:
    given = {"offsets": fw.tensor(STARTS)} | options
    with pytest.raises(error, match=text):
        F.embedding_bag(fw.tensor(INDEX), fw.ones((5, 3)), **given)
