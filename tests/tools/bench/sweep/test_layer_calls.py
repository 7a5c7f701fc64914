"""Arguments of layers by name."""

from vkbackend.tools.bench.sweep.forms import forms
from vkbackend.tools.bench.sweep.layer_calls import LAYERS
from vkbackend.tools.bench.sweep.units import units


def test_entries_are_of_functions_that_are_here() -> None:
    assert sorted(set(LAYERS) - set(units())) == []


def test_each_entry_has_a_shape_class() -> None:
    for size in ("full", "small"):
        classes = forms(size).values()
        assert all(any(map(make, classes)) for make in LAYERS.values())
