"""Tensors joined into one."""

from typing import Literal

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from tests.framework.ops.agree import Row, agree
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.base.errors import ShapeError

ROWS = {
    "cat": Row(
        lambda *x: ops.cat(x, 1),
        lambda *x: torch.cat(x, 1),
        (3, 4),
        sources=((3, 1), (3, 7)),
    ),
    "stack": Row(
        lambda *x: ops.stack(x, 1),
        lambda *x: torch.stack(x, 1),
        (3, 4),
        sources=((3, 4),),
    ),
    "hstack": Row(
        lambda *x: ops.hstack(x), lambda *x: torch.hstack(x), (3, 4), sources=((3, 2),)
    ),
    "hstack flat": Row(
        lambda *x: ops.hstack(x), lambda *x: torch.hstack(x), (3,), sources=((2,),)
    ),
    "vstack": Row(
        lambda *x: ops.vstack(x), lambda *x: torch.vstack(x), (4,), sources=((3, 4),)
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_as_in_torch(name: str, place: Device) -> None:
    agree(ROWS[name], place)


def test_many_parts_take_several_passes(place: Device) -> None:
    parts = [np.full((2, k), k, np.float32) for k in range(1, 70)]
    found = ops.cat([fw.tensor(part, device=place) for part in parts], 1)
    assert np.array_equal(found.numpy(), np.concatenate(parts, 1))


def test_dtypes_promote(place: Device) -> None:
    x = ops.cat([fw.ones(2, "int32", place), fw.zeros(1, device=place)])
    assert x.dtype is float32
    assert x.tolist() == [1, 1, 0]


def test_one_tensor_is_copied(place: Device) -> None:
    x = fw.ones(2, device=place)
    ops.cat([x]).zero_()
    assert x.tolist() == [1, 1]


def test_empty_vectors_join_anything(place: Device) -> None:
    x = fw.ones((2, 3), device=place)
    assert ops.cat([fw.zeros(0, device=place), x]).shape == (2, 3)
    assert ops.cat([fw.zeros(0), fw.zeros(0)]).shape == (0,)


def test_bad_input() -> None:
    with pytest.raises(ShapeError) as raised:
        ops.stack([fw.ones(2), fw.ones(3)])
    assert str(raised.value) == "stack: shapes (2,) and (3,) differ; they must be equal"
    with pytest.raises(ShapeError) as raised:
        ops.stack([])
    assert str(raised.value) == "stack: there are no tensors; at least one is needed"


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_meshgrid(indexing: Literal["ij", "xy"], place: Device) -> None:
    vectors = [np.arange(n, dtype=np.float32) for n in (3, 4, 2)]
    expected = np.meshgrid(*vectors, indexing=indexing)
    for given in (vectors, [vectors]):
        ours = [
            [fw.tensor(v, device=place) for v in each]
            if isinstance(each, list)
            else fw.tensor(each, device=place)
            for each in given
        ]
        found = ops.meshgrid(*ours, indexing=indexing)
        for mine, wanted in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine.numpy(), wanted)


def test_meshgrid_of_few() -> None:
    (only,) = ops.meshgrid(fw.arange(3), indexing="xy")
    assert only.tolist() == [0, 1, 2]
    assert [each.shape for each in ops.meshgrid(fw.arange(3), fw.tensor(1))] == [
        (3, 1),
        (3, 1),
    ]


@pytest.mark.parametrize("name", ["uint8", "int16", "float32", "int64"])
@pytest.mark.parametrize("skipped", [0, 1])
@pytest.mark.parametrize("size", [16, 20])
def test_parts_in_whole_vectors(
    name: str, skipped: int, size: int, place: Device, rng: np.random.Generator
) -> None:
    """Where lines, and where they begin, are multiples of 16 bytes, and where not."""
    data = rng.integers(0, 100, (3, 2, 3, 5, size + skipped)).astype(name)
    lines = [fw.tensor(part, device=place)[..., skipped:] for part in data]
    found = ops.stack([part.transpose(1, 2) for part in lines], 2)
    expected = np.stack([part[..., skipped:].swapaxes(1, 2) for part in data], 2)
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("name", ["int8", "float16", "float32"])
def test_views_that_begin_within_a_word(name: str, place: Device) -> None:
    """Some begin at a word and some do not, all in the same strides."""
    data = np.arange(60).reshape(4, 3, 5).astype(name)
    x = fw.tensor(data, device=place)
    found = ops.stack([x[:, k] for k in (2, 0, 1)], 1)
    np.testing.assert_array_equal(found.numpy(), data[:, [2, 0, 1]])
