"""Rows of places: what counts as another content."""

from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import numpy as np

from vkbackend.framework.jit.guard_sources import Places, content


def test_entries() -> None:
    places, held = Places(), {"a": 1.0}
    places.add(held, "a")
    places.add(held, "b")
    places.settle()
    assert not places.changed()
    held["a"] = 1.0 + 0
    assert places.found() == ""
    held["b"] = 2
    assert places.changed()
    assert places.found() == "`b`"


def test_answers() -> None:
    places, held = Places(), [1.0]
    places.ask("held", lambda: (tuple(held), "text"))
    places.settle()
    assert not places.changed()
    held[0] = 2.0
    assert places.changed()
    assert places.found() == "`held`"
    assert places.reason == ""
    places.ask("fresh", object)
    assert "`fresh` is another object" in places.reason


def test_empty_cells_have_no_content() -> None:
    if np.pi < 3:
        held = 1

    def use() -> Any:
        return held

    assert use.__closure__ is not None
    empty = content(use.__closure__[0])
    held = 2
    assert content(use.__closure__[0]) == 2
    assert empty != 2


def test_mappings_that_cannot_be_changed_count_too() -> None:
    inner: OrderedDict[str, int] = OrderedDict(a=1)
    places, view = Places(), MappingProxyType(inner)
    places._holders.append((view, tuple(view), tuple(view.values())))
    places.settle()
    assert not places.changed()
    inner["b"] = 1
    assert places.found() == "what a mappingproxy holds"
