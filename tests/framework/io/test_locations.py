"""Locations are devices; no file runs code."""

import vkbackend.framework as fw
from vkbackend.framework import serialization


def test_places() -> None:
    x = fw.ones(2)
    assert serialization.default_restore_location(x, "cpu").tolist() == [1.0, 1.0]
    serialization.add_safe_globals([int])
    assert serialization.get_safe_globals() == []
