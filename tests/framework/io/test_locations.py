"""Locations are devices; names are allowed one by one."""

import vkbackend.framework as fw
from vkbackend.framework import serialization


def test_places() -> None:
    x = fw.ones(2)
    assert serialization.default_restore_location(x, "cpu").tolist() == [1.0, 1.0]
    serialization.add_safe_globals([complex])
    assert serialization.get_safe_globals() == [complex]
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []
