"""Arguments of functions by name."""

from vkbackend.tools.bench.sweep.calls import CALLS, OPTIONS
from vkbackend.tools.bench.sweep.forms import forms
from vkbackend.tools.bench.sweep.units import units


def test_entries_are_of_functions_that_are_here() -> None:
    names = units()
    assert sorted(set(CALLS) - set(names)) == []
    assert sorted(set(OPTIONS) - set(names)) == []


def test_factors_of_a_product_fit() -> None:
    for form in forms("small").values():
        found = CALLS["mm"](form)
        assert found is not None
        a, b = found.args
        assert a.shape[1] == b.shape[0]
