"""Datasets and splits."""

from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import data
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.philox import Generator


def test_tensor_dataset() -> None:
    images = np.arange(12, dtype=np.float32).reshape(4, 3)
    dataset = data.TensorDataset(images, fw.tensor([5, 6, 7, 8]))
    assert len(dataset) == 4
    image, label = dataset[2]
    assert image.tolist() == [6, 7, 8]
    assert label == 7
    assert [part.tolist() for part in dataset.fetch_batch([3, 0])] == [
        [[9, 10, 11], [0, 1, 2]],
        [8, 5],
    ]


@pytest.mark.parametrize(
    "arrays", [(), (np.zeros(3), np.zeros(4)), (np.zeros(()), np.zeros(3))]
)
def test_sizes_must_be_equal(arrays: tuple[np.ndarray, ...]) -> None:
    with pytest.raises(ShapeError, match="their first dimensions must be there and eq"):
        data.TensorDataset(*arrays)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([7, 4], [7, 4]),
        ([0.5, 0.5], [6, 5]),
        ([0.1, 0.2, 0.7], [2, 2, 7]),
        ([11], [11]),
        ([1.0], [11]),
    ],
)
def test_random_split(lengths: list[Any], expected: list[int]) -> None:
    dataset = data.TensorDataset(np.arange(11))
    parts = data.random_split(dataset, lengths)
    assert [len(part) for part in parts] == expected
    taken = [int(part[k][0]) for part in parts for k in range(len(part))]
    assert sorted(taken) == list(range(11))
    assert taken != list(range(11))


def test_a_generator_repeats_the_split() -> None:
    dataset = data.TensorDataset(np.arange(50))
    first, second = (
        data.random_split(dataset, [25, 25], Generator(3))[0].indices for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("lengths", [[5, 5], [0.5, 0.6], [12, -1], []])
def test_bad_lengths_are_named(lengths: list[Any]) -> None:
    with pytest.raises(ValueError, match="the dataset has 11 samples"):
        data.random_split(data.TensorDataset(np.arange(11)), lengths)


def test_subclasses_define_both_methods() -> None:
    with pytest.raises(NotImplementedError, match=r"Dataset\.__len__"):
        len(data.Dataset[Any]())
    with pytest.raises(NotImplementedError, match=r"Dataset\.__getitem__"):
        data.Dataset[Any]()[0]
