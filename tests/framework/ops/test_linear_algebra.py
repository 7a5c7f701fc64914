"""Results of factorisations that are not values: shapes and dtypes by mode."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.ops import linear_algebra


def test_modes_and_dtypes() -> None:
    x = fw.rand(4, 3)
    assert linear_algebra.qr(x, "complete").Q.shape == (4, 4)
    assert linear_algebra.qr(x, "r").Q.shape == (0,)
    with pytest.raises(ValueError, match="mode"):
        linear_algebra.qr(x, "full")
