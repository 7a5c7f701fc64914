"""Calls with other arguments than a function's first ones."""

from collections.abc import Mapping

from vkbackend.tools.bench.sweep.forms import forms
from vkbackend.tools.bench.sweep.further_calls import FURTHER
from vkbackend.tools.bench.sweep.plan import cases
from vkbackend.tools.bench.sweep.units import units


def test_they_are_of_functions_that_are_here() -> None:
    assert sorted(set(FURTHER) - set(units())) == []


def test_each_differs_from_the_first_call() -> None:
    known = units()
    for name, labels in FURTHER.items():
        for label, further in labels.items():
            unit = known[f"{name}({label})"]
            assert unit.peer == known[name].peer
            differs = [
                unit.arguments(form) != known[name].arguments(form)
                for form in forms("small").values()
                if unit.arguments(form) is not None
            ]
            assert any(differs), (name, label)
            assert isinstance(further, Mapping) or callable(further)


def test_they_run_in_two_dtypes() -> None:
    known = {"sum": units()["sum"], "sum(dim=0)": units()["sum(dim=0)"]}
    found = [case for case in cases(known, "full") if case.unit.name == "sum(dim=0)"]
    assert {case.dtype for case in found} == {"float32", "float16"}
    first = [case.dtype for case in cases(known, "full") if case.unit.name == "sum"]
    assert len(set(first)) > 2
