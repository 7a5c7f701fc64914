"""Comparisons allow and refuse what PyTorch's do."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw

CASES: list[tuple[Any, Any, dict[str, Any]]] = [
    ([1.0], [1.0], {}),
    ([1.0], [1.0 + 1e-6], {}),
    ([1.0], [1.0 + 1e-4], {}),
    ([1.0], [1.0 + 1e-4], {"rtol": 1e-3, "atol": 0.0}),
    ([1.0, 2.0], [1.0], {}),
    ([1], [1.0], {}),
    ([1], [1.0], {"check_dtype": False}),
    ([1], [2], {}),
    ([float("nan")], [float("nan")], {}),
    ([float("nan")], [float("nan")], {"equal_nan": True}),
    ([float("inf")], [float("inf")], {}),
    ([float("inf")], [1.0], {"rtol": 1.0, "atol": 1.0}),
    ([True], [False], {}),
    ([], [], {}),
]


@pytest.mark.parametrize(("one", "two", "options"), CASES)
def test_assert_close(one: Any, two: Any, options: dict[str, Any]) -> None:
    answers = []
    for library in (fw, torch):
        pair = library.tensor(one), library.tensor(two)
        try:
            library.testing.assert_close(*pair, **options)
            library.testing.assert_close([pair[0], 1], [pair[1], 1], **options)
            library.testing.assert_close({"a": pair[0]}, {"a": pair[1]}, **options)
            answers.append(None)
        except AssertionError as error:
            answers.append(type(error))
    assert answers[0] == answers[1]


def test_arguments() -> None:
    with pytest.raises(ValueError, match="give both or neither"):
        fw.testing.assert_close(1.0, 1.0, rtol=1.0)
    with pytest.raises(AssertionError, match="mine"):
        fw.testing.assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match=r"at \(1,\) they are 2.0 and 3.0"):
        fw.testing.assert_close(fw.tensor([1.0, 2.0]), fw.tensor([1.0, 3.0]))


def test_make_tensor() -> None:
    made = fw.testing.make_tensor(
        (3, 4), dtype=fw.float32, device="cpu", low=1, high=2, requires_grad=True
    )
    assert made.shape == (3, 4)
    assert made.requires_grad
    assert 1 <= made.min().item() <= made.max().item() < 2
    wide = fw.testing.make_tensor(
        2, 3, dtype=fw.int32, device="cpu", noncontiguous=True, exclude_zero=True
    )
    assert not wide.is_contiguous() or wide.ndim
    assert wide.dtype is fw.int32
    assert bool((wide != 0).all())


def test_allclose_takes_other_dtypes() -> None:
    fw.testing.assert_allclose(fw.ones(2), np.ones(2))
    fw.testing.assert_allclose(fw.tensor([np.nan]), fw.tensor([np.nan]))
    with pytest.raises(AssertionError):
        fw.testing.assert_allclose(fw.ones(2), [1.0, 2.0])
