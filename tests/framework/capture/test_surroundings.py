"""What a function finds around it."""

from types import SimpleNamespace
from typing import Any

from vkbackend.framework.capture.surroundings import Surroundings

FACTOR = 2.0
OPTIONS = SimpleNamespace(rate=0.5, label="a", inner=[1])


def helper(x: float) -> float:
    return x * FACTOR


def uses_helper(x: float) -> float:
    return helper(x) + (lambda: OPTIONS.rate)()


def test_nothing_changed() -> None:
    around = Surroundings(uses_helper)
    assert not around.changed()


def test_globals_of_helpers_count(monkeypatch: Any) -> None:
    around = Surroundings(uses_helper)
    monkeypatch.setitem(globals(), "FACTOR", 2.0 + 0)
    assert not around.changed()
    monkeypatch.setitem(globals(), "FACTOR", 2)
    assert around.changed()


def test_a_replaced_helper_counts(monkeypatch: Any) -> None:
    around = Surroundings(uses_helper)
    monkeypatch.setitem(globals(), "helper", lambda x: x)
    assert around.changed()


def test_attributes_of_plain_objects_count(monkeypatch: Any) -> None:
    around = Surroundings(uses_helper)
    OPTIONS.inner.append(2)
    assert not around.changed()
    monkeypatch.setattr(OPTIONS, "rate", 0.25)
    assert around.changed()


def test_closures_count() -> None:
    scale: Any = 1.0

    def scaled(x: float) -> Any:
        return x * scale

    around = Surroundings(scaled)
    assert not around.changed()
    scale = 3.0
    assert around.changed()


def test_methods_and_more_places_count() -> None:
    class Owner:
        factor = 1.0

        def __init__(self) -> None:
            self.offset = 1.0

        def run(self) -> float:
            return self.offset

    owner, extra = Owner(), {"a": 1}
    around = Surroundings(owner.run)
    around.add(extra, "a")
    assert not around.changed()
    extra["a"] = 2
    assert around.changed()
    extra["a"] = 1
    owner.offset = 2.0
    assert around.changed()
