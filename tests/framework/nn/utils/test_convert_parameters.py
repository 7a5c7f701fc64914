"""Parameters as a vector, and back."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework import nn


def test_round_trip() -> None:
    source, target = nn.Linear(3, 2), nn.Linear(3, 2)
    vector = nn.utils.parameters_to_vector(source.parameters())
    assert vector.shape == (8,)
    assert vector.requires_grad
    nn.utils.vector_to_parameters(vector, target.parameters())
    assert target.weight.tolist() == source.weight.tolist()
    assert target.weight.is_leaf


def test_what_does_not_fit_changes_nothing() -> None:
    target = nn.Linear(3, 2)
    before = target.weight.tolist()
    with pytest.raises(ValueError, match="vec has 7 elements; the parameters have 8"):
        nn.utils.vector_to_parameters(fw.zeros(7), target.parameters())
    with pytest.raises(TypeError, match="vec is a list"):
        nn.utils.vector_to_parameters([], [])  # type: ignore[arg-type]
    assert target.weight.tolist() == before
