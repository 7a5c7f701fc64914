"""Causal masks of two alignments."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.nn.attention.bias import causal_lower_right, causal_upper_left


def test_the_corners() -> None:
    assert causal_upper_left(2, 3).tolist() == [
        [True, False, False],
        [True, True, False],
    ]
    assert causal_lower_right(2, 3).tolist() == [[True, True, False], [True] * 3]
    assert causal_upper_left(2, 3).dtype is fw.bool
    with pytest.raises(ShapeError, match="queries and of keys"):
        causal_upper_left(2)
