"""Datasets: samples by index."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np

from ..base.errors import ShapeError
from ..base.philox import Generator, default_generator, uniform
from ..tensor.tensor import Tensor

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """Samples by index; subclasses define `__len__` and `__getitem__`.

    A subclass that can fetch many samples at once may define
    `fetch_batch(indices)`, as `TensorDataset` does, which returns nested NumPy arrays;
    a loader then calls it in place of fetching and stacking single samples.
    """

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__}.__len__: it is not defined")

    def __getitem__(self, index: int) -> Sample:
        raise NotImplementedError(
            f"{type(self).__name__}.__getitem__: it is not defined"
        )


class TensorDataset(Dataset[tuple[np.ndarray, ...]]):
    """Samples along the first dimension of arrays.

    Parameters
    ----------
    *arrays : numpy.ndarray or Tensor, shape (samples, ...)
        Kept on the host.

    Raises
    ------
    ShapeError
        If there are none, or their first sizes differ.

    Examples
    --------
    >>> dataset = TensorDataset(np.zeros((5, 2)), np.arange(5))
    >>> len(dataset), dataset[3][1].item()
    (5, 3)
    """

    def __init__(self, *arrays: np.ndarray | Tensor) -> None:
        self.arrays = tuple(
            array.numpy() if isinstance(array, Tensor) else np.asarray(array)
            for array in arrays
        )
        shapes = [array.shape for array in self.arrays]
        if not shapes or not all(shapes) or len({shape[0] for shape in shapes}) != 1:
            raise ShapeError(
                f"TensorDataset: the arrays are {shapes};"
                " their first dimensions must be there and equal"
            )

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(array[index]) for array in self.arrays)

    def fetch_batch(self, indices: Sequence[int]) -> tuple[np.ndarray, ...]:
        """Return the samples of several indices, stacked."""
        return tuple(array[np.asarray(indices, np.intp)] for array in self.arrays)


class Subset(Dataset[Sample]):
    """Some samples of another dataset.

    Parameters
    ----------
    dataset : Dataset
    indices : sequence of int
        Numbers of the samples in `dataset`.
    """

    def __init__(self, dataset: Dataset[Sample], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Sample:
        return self.dataset[self.indices[index]]


def random_split(
    dataset: Dataset[Sample],
    lengths: Sequence[int] | Sequence[float],
    generator: Generator = default_generator,
) -> list[Subset[Sample]]:
    """Split a dataset at random into parts without common samples.

    Parameters
    ----------
    dataset : Dataset
    lengths : sequence of int or of float
        Sizes of the parts, or their shares of the whole, which are rounded down; what
        is left over goes to the first parts, one each.
    generator : Generator
        Where the draws come from; by default what `fw.manual_seed` seeds.

    Raises
    ------
    ValueError
        If sizes do not add up to the whole, or shares to 1.
    """
    count = len(dataset)
    sizes = [int(length) for length in lengths]
    if math.isclose(sum(lengths), 1.0) and sum(sizes) != count:
        sizes = [math.floor(count * share) for share in lengths]
        for part in range(count - sum(sizes)):
            sizes[part % len(sizes)] += 1
    if sum(sizes) != count or min(sizes, default=0) < 0:
        raise ValueError(
            f"random_split: lengths are {list(lengths)}, the dataset has {count}"
            f" samples; they must add up to {count}, or to 1.0"
        )
    order = permutation(count, generator)
    ends = np.cumsum(sizes)
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends)]


def permutation(count: int, generator: Generator) -> list[int]:
    """Return the indices below `count` in random order."""
    draws = uniform(count, generator.stream())
    order: list[int] = np.argsort(draws, kind="stable").tolist()
    return order
