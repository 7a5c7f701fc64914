"""Modules without initial values have their shapes."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn


def test_shapes_and_refusals() -> None:
    layer = nn.utils.skip_init(nn.Linear, 3, 2, dtype="float64")
    assert layer.weight.shape == (2, 3)
    assert layer.weight.dtype is fw.float64
    with pytest.raises(RuntimeError, match=r"must be a subclass of nn\.Module"):
        nn.utils.skip_init(dict)  # type: ignore[type-var]
    with pytest.raises(RuntimeError, match="ReLU takes no device"):
        nn.utils.skip_init(nn.ReLU)


def test_nothing_is_drawn() -> None:
    fw.manual_seed(3)
    expected = fw.rand(2)
    fw.manual_seed(3)
    nn.utils.skip_init(nn.Linear, 3, 2)
    nn.utils.skip_init(nn.Embedding, 3, 2)
    assert fw.rand(2).tolist() == expected.tolist()
    drawn = nn.Linear(3, 2).weight
    assert drawn.unique().numel() > 1
