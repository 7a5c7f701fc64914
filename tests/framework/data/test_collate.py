"""Making one batch of many samples."""

from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate as theirs

import vkbackend.framework as fw
from vkbackend.framework import data
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.data.collate import (
    collate,
    default_collate,
    default_collate_fn_map,
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
    assert isinstance(sample["x"], list)
    assert [each.dtype for each in sample["x"]] == [fw.float64, fw.float32]
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


def test_mappings_keep_their_class_and_tensors_their_gradients() -> None:
    sample = defaultdict(int, a=1)
    batch = default_collate([sample, sample])
    assert type(batch) is defaultdict
    assert (batch["a"].tolist(), sample["a"], batch["b"]) == ([1, 1], 1, 0)
    x = fw.ones(2, requires_grad=True)
    assert default_collate([x, x]).requires_grad
    loader = data.DataLoader(data.TensorDataset(fw.ones(3, requires_grad=True)), 2)
    assert next(iter(loader))[0].requires_grad
    assert default_collate([1, 2.5]).dtype is fw.float32
    with pytest.raises(TypeError, match="samples are tensors and int"):
        default_collate([fw.ones(()), 2])


def test_functions_for_other_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    def total(batch: Any, *, collate_fn_map: Any) -> Any:
        return sum(batch)

    assert collate([{"a": 1j}, {"a": 2j}], collate_fn_map={complex: total}) == {"a": 3j}
    with pytest.raises(TypeError, match="is made of complex"):
        default_collate([(1j, 1)])
    monkeypatch.setitem(default_collate_fn_map, complex, total)
    found = default_collate([(1j, 1), (2j, 5)])
    assert (found[0], found[1].tolist()) == (3j, [1, 5])
    assert collate([1.0], collate_fn_map=default_collate_fn_map).dtype is fw.float64
