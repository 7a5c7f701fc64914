"""Arguments of factorisations and solutions by name."""

import numpy as np

from vkbackend.tools.bench.sweep.forms import forms
from vkbackend.tools.bench.sweep.linear_algebra_calls import LINEAR_ALGEBRA
from vkbackend.tools.bench.sweep.sides import values_of


def test_each_entry_has_a_shape_class() -> None:
    for size in ("full", "small"):
        classes = forms(size).values()
        assert all(any(map(make, classes)) for make in LINEAR_ALGEBRA.values())


def test_pivots_are_rows() -> None:
    found = LINEAR_ALGEBRA["lu_unpack"](forms("small")["batched"])
    assert found is not None
    factors, pivots = found.args
    assert pivots.shape == factors.shape[:-1]
    numbers = values_of(pivots, "int32")
    assert (numbers.min(), numbers.max()) >= (1, 1)
    assert numbers.max() <= factors.shape[-1]
    assert (np.diff(numbers) != 1).any()
