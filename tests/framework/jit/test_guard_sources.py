"""Guard sources: which changes make a guard fail."""

from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import numpy as np

from vkbackend.framework.jit.guard_sources import GuardSources, read_cell


def test_entries() -> None:
    sources, held = GuardSources(), {"a": 1.0}
    sources.add(held, "a")
    sources.add(held, "b")
    sources.freeze()
    assert not sources.changed()
    held["a"] = 1.0 + 0
    assert sources.failed_guard() == ""
    held["b"] = 2
    assert sources.changed()
    assert sources.failed_guard() == "`b`"


def test_answers() -> None:
    sources, held = GuardSources(), [1.0]
    sources.probe("held", lambda: (tuple(held), "text"))
    sources.freeze()
    assert not sources.changed()
    held[0] = 2.0
    assert sources.changed()
    assert sources.failed_guard() == "`held`"
    assert sources.reason == ""
    sources.probe("fresh", object)
    assert "`fresh` is another object" in sources.reason


def test_empty_cells_have_no_content() -> None:
    if np.pi < 3:
        held = 1

    def use() -> Any:
        return held

    assert use.__closure__ is not None
    empty = read_cell(use.__closure__[0])
    held = 2
    assert read_cell(use.__closure__[0]) == 2
    assert empty != 2


def test_mappings_that_cannot_be_changed_count_too() -> None:
    inner: OrderedDict[str, int] = OrderedDict(a=1)
    sources, view = GuardSources(), MappingProxyType(inner)
    sources._containers.append((view, tuple(view), tuple(view.values())))
    sources.freeze()
    assert not sources.changed()
    inner["b"] = 1
    assert sources.failed_guard() == "what a mappingproxy holds"
