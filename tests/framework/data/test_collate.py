"""Making one batch of many samples."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.data.collate import collate, map_arrays


@pytest.mark.parametrize(
    ("samples", "dtype", "expected"),
    [
        ([1.5, 2.5], "float32", [1.5, 2.5]),
        ([1, 2], "int64", [1, 2]),
        ([True, False], "bool", [True, False]),
        ([np.float16(1), np.float16(2)], "float16", [1, 2]),
        ([np.zeros(2, "i2"), np.ones(2, "i2")], "int16", [[0, 0], [1, 1]]),
        ([fw.zeros(1), fw.ones(1)], "float32", [[0], [1]]),
    ],
)
def test_leaves_are_stacked(samples: list[Any], dtype: str, expected: Any) -> None:
    batch = collate(samples)
    assert batch.dtype == dtype
    assert batch.tolist() == expected


def test_structure_is_kept() -> None:
    samples = [{"x": (1.0, [np.zeros(2)]), "y": 3}, {"x": (2.0, [np.ones(2)]), "y": 4}]
    batch = collate(samples)
    assert batch["x"][0].tolist() == [1.0, 2.0]
    assert isinstance(batch["x"], tuple)
    assert isinstance(batch["x"][1], list)
    assert batch["x"][1][0].shape == (2, 2)
    tensors = map_arrays(fw.from_numpy, batch)
    assert tensors["y"].tolist() == [3, 4]
    assert tensors["x"][1][0].shape == (2, 2)


def test_what_is_no_array_stays() -> None:
    assert map_arrays(fw.from_numpy, ["name"]) == ["name"]


def test_bad_samples_are_named() -> None:
    with pytest.raises(ShapeError, match=r"shapes \[\(1,\), \(2,\)\]; they must be"):
        collate([np.zeros(1), np.zeros(2)])
    with pytest.raises(ShapeError, match="different numbers of members"):
        collate([(1, 2), (1,)])
    with pytest.raises(TypeError, match="a sample is made of str"):
        collate(["a"])
