"""Inputs, and calls of both sides."""

import numpy as np
import pytest

from vkbackend.tools.bench.baseline import Peer
from vkbackend.tools.bench.sweep.forms import Given, call
from vkbackend.tools.bench.sweep.sides import (
    Inputs,
    NoGradientError,
    NumPy,
    bound,
    side_of,
    values_of,
)
from vkbackend.tools.bench.sweep.units import units


@pytest.mark.parametrize("name", ["torch", "numpy"])
def test_both_sides_have_the_same_inputs_and_results(name: str) -> None:
    if name == "torch":
        pytest.importorskip("torch")
    here, there = NumPy(), side_of(Peer(name))
    inputs = Inputs(here, there, on_gpu=False)
    arguments = call(Given((3, 4), layout="transposed"), Given((4,), seed=1))
    results = []
    for which, side in enumerate((here, there)):
        found = bound(side, which, units()["mul"], arguments, "float32", inputs)
        assert found is not None
        forward, both = found
        results.append([side.host(each) for each in (*forward(), *both())])
        assert len(results[-1]) == 4
        assert tuple(inputs.of(arguments.args[0], "float32")[which].shape) == (3, 4)
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_no_gradient_of_a_comparison() -> None:
    here = NumPy()
    inputs = Inputs(here, here, on_gpu=False)
    arguments = call(Given((3,)), Given((3,), seed=1))
    found = bound(here, 0, units()["lt"], arguments, "float32", inputs)
    assert found is not None
    with pytest.raises(NoGradientError):
        found[1]()


def test_kinds_of_values() -> None:
    assert (np.diff(values_of(Given((9,), kind="sorted"), "float32")) >= 0).all()
    whole = values_of(Given((9,), dtype="int64", kind="permutation"), "int64")
    assert sorted(whole) == list(range(9))
    matrix = values_of(Given((4, 4), kind="definite"), "float32")
    assert (np.linalg.eigvalsh(matrix) > 0).all()
    assert values_of(Given((3, 5), layout="expanded"), "float32").shape == (3, 1)


def test_kinds_of_whole_numbers() -> None:
    def made(kind: str, shape: tuple[int, ...], high: int) -> np.ndarray:
        given = Given(shape, 0, high, "int64", kind=kind)
        return values_of(given, "int64")

    assert made("starts", (4,), 12).tolist() == [0, 4, 8, 12]
    assert made("ends", (4,), 12).tolist() == [3, 6, 9, 12]
    places = made("places", (2, 3, 4, 5), 4)
    assert places.shape == (2, 3, 4, 5)
    assert (places.reshape(6, 20) // 4 == np.arange(20)).all()
    labels = made("labels", (3, 7), 4)
    assert (labels[:, 4:] == -1).all()
    assert (np.diff(np.sort(labels[:, :4])) > 0).all()
    assert labels.min() == -1
    assert labels.max() < 7


def test_values_without_equals() -> None:
    columns = values_of(Given((9, 3), kind="distinct columns"), "float32")
    assert (np.diff(np.sort(columns, 0), axis=0) > 0).all()
    for size in (2, 9, 4096):
        rows = values_of(Given((3, size), kind="distinct"), "float16")
        rows = rows.astype(np.float16)
        assert (np.diff(np.sort(rows)) > 0).all()
        assert 0.4 < np.abs(rows).max() <= 1
    turned = Given((3, 9), kind="distinct", layout="transposed")
    stored = values_of(turned, "float32")
    assert stored.shape == (9, 3)
    assert (np.diff(np.sort(stored, 0), axis=0) > 0).all()


def test_eigenvalues_apart() -> None:
    matrix = values_of(Given((2, 5, 5), kind="separate"), "float32")
    assert (matrix == matrix.swapaxes(-1, -2)).all()
    values = np.linalg.eigvalsh(matrix)
    np.testing.assert_allclose(values, [[1, 1.25, 1.5, 1.75, 2]] * 2, 1e-5)
