"""Making one batch of many samples."""

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate as theirs

import vkbackend.framework as fw
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.data.collate import (
    default_collate,
    default_convert,
    map_arrays,
)

Point = namedtuple("Point", ["x", "y"])


@pytest.mark.parametrize(
    "samples",
    [
        [1.5, 2.5],
        [1, 2],
        [True, False],
        [np.float16(1), np.float16(2)],
        [np.zeros(2, "i2"), np.ones(2, "i2")],
        ["a", "b"],
        [b"a", b"b"],
        [(1.0, "a"), (2.0, "b")],
        [[1, [2, 3]], [4, [5, 6]]],
        [{"x": (1.0, [np.zeros(2)]), "y": 3}, {"x": (2.0, [np.ones(2)]), "y": 4}],
        [Point(1, 2.0), Point(3, 4.0)],
        [OrderedDict(b=1, a="x"), OrderedDict(b=2, a="y")],
    ],
    ids=str,
)
def test_as_in_torch(samples: list[Any]) -> None:
    compare(default_collate(samples), theirs(samples))


def compare(found: Any, expected: Any) -> None:
    """Check that two batches have the same structure and values."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(found, fw.Tensor)
        assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
        assert found.tolist() == expected.tolist()
        return
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list | tuple):
        for mine, other in zip(found, expected, strict=True):
            compare(mine, other)
    else:
        assert found == expected


def test_tensors_stay_where_they_are(make: Any) -> None:
    first = make(np.zeros(2, np.float32))
    batch = default_collate([first, first + 1])
    assert batch.device is first.device
    assert batch.tolist() == [[0, 0], [1, 1]]


def test_conversion_of_a_sample() -> None:
    sample = default_convert({"x": (np.zeros(2), np.float32(1)), "name": "a"})
    assert isinstance(sample["x"], tuple)
    assert sample["x"][0].dtype is fw.float64
    assert sample["name"] == "a"
    assert default_convert(np.array(["a"])).tolist() == ["a"]


def test_what_is_no_array_stays() -> None:
    assert map_arrays(fw.from_numpy, ["name"]) == ["name"]


def test_bad_samples_are_named() -> None:
    with pytest.raises(ShapeError, match=r"shapes \[\(1,\), \(2,\)\]; they must be"):
        default_collate([np.zeros(1), np.zeros(2)])
    with pytest.raises(ShapeError, match="different numbers of members"):
        default_collate([(1, 2), (1,)])
    with pytest.raises(TypeError, match="a sample is made of object"):
        default_collate([object()])
    with pytest.raises(TypeError, match="it must hold numbers"):
        default_collate([np.array(["a"])])
