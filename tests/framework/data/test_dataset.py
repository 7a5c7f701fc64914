"""Datasets and splits."""

from collections.abc import Iterator
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


def test_subclasses_define_what_is_used() -> None:
    with pytest.raises(TypeError, match="has no len"):
        len(data.Dataset[Any]())  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match=r"Dataset\.__getitem__"):
        data.Dataset[Any]()[0]
    with pytest.raises(TypeError, match="abstract"):
        data.IterableDataset[Any]()  # type: ignore[abstract]


def test_samples_are_tensors_and_iteration_ends() -> None:
    dataset = data.TensorDataset(fw.arange(3), fw.zeros(3, 2))
    assert all(isinstance(part, fw.Tensor) for part in dataset[1])
    assert [int(number) for number, _ in dataset] == [0, 1, 2]  # type: ignore[attr-defined]
    with pytest.raises(IndexError):
        dataset[3]
    with pytest.raises(IndexError):
        data.Subset(dataset, [2, 1])[2]


def test_concatenated() -> None:
    first, second = (
        data.TensorDataset(np.arange(3)),
        data.TensorDataset(np.arange(9, 11)),
    )
    both = first + second
    assert isinstance(both, data.ConcatDataset)
    assert both.cumulative_sizes == [3, 5]
    assert [int(both[k][0]) for k in range(-5, 5)] == [0, 1, 2, 9, 10] * 2
    with pytest.raises(IndexError, match="it must be from -5 to 4"):
        both[5]
    with pytest.raises(ValueError, match="give at least one"):
        data.ConcatDataset([])
    with pytest.raises(TypeError, match="use ChainDataset"):
        data.ConcatDataset([data.ChainDataset([])])


def test_stacked() -> None:
    first, second = [1, 2, 3], ["a", "b", "c"]
    assert data.StackDataset(first, second)[1] == (2, "b")
    assert data.StackDataset(number=first, name=second)[-1] == {
        "number": 3,
        "name": "c",
    }
    with pytest.raises(ValueError, match=r"lengths are \[3, 2\]"):
        data.StackDataset(first, [1, 2])
    with pytest.raises(ValueError, match="exactly one kind"):
        data.StackDataset()


class Count(data.IterableDataset[int]):
    """Numbers from 0, which workers share out."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        info = data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.count, step))

    def __len__(self) -> int:
        return self.count


def test_chained() -> None:
    chain = Count(2) + Count(3)
    assert list(chain) == [0, 1, 0, 1, 2]
    assert len(chain) == 5
    with pytest.raises(TypeError, match="it must be an IterableDataset"):
        list(data.ChainDataset([[1]]))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_iterable(workers: int) -> None:
    loader = data.DataLoader(Count(10), 2, num_workers=workers)
    batches = [batch.tolist() for batch in loader]
    assert sorted(number for batch in batches for number in batch) == list(range(10))
    if workers == 3:
        # Batch by batch from each worker in turn, as long as it has any.
        assert batches == [[0, 3], [1, 4], [2, 5], [6, 9], [7], [8]]
    whole = data.DataLoader(Count(7), 2, num_workers=workers, drop_last=True)
    assert all(len(batch) == 2 for batch in whole)
