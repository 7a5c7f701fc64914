"""Distances as layers."""

from typing import Any

import pytest
import torch

import vkbackend.framework as fw
from tests.compare import assert_close
from tests.framework.nn.functional.beside import drawn
from vkbackend.framework import nn


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("CosineSimilarity", {"dim": 0, "eps": 0.1}),
        ("PairwiseDistance", {"p": 1.0, "keepdim": True}),
    ],
)
def test_is_as_in_torch(name: str, options: dict[str, Any]) -> None:
    pair = drawn(4, 3), drawn(4, 3, seed=1)
    expected = getattr(torch.nn, name)(**options)(*map(torch.tensor, pair))
    assert_close(getattr(nn, name)(**options)(*map(fw.tensor, pair)), expected.numpy())
