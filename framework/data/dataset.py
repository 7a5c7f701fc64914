"""Datasets: samples by index, or one after the other."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ..base.errors import DatasetError, IndexRangeError
from ..base.philox import Generator, default_generator
from ..dispatch.diagnosis import explain_constructor
from ..tensor.from_data import as_tensor
from ..tensor.tensor import Tensor
from .representation import Represented
from .sampler import permutation

Sample = TypeVar("Sample", covariant=True)


class Dataset(Represented, Generic[Sample]):
    """Samples by index; subclasses define `__getitem__`, and usually `__len__`.

    A subclass that can fetch many samples at once may define `__getitems__(indices)`,
    which returns a list of samples, or `fetch_batch(indices)`, as `TensorDataset`
    does, which returns a whole batch of NumPy arrays; a loader then calls it in place
    of `__getitem__`, the second unless it has a `collate_fn`.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        explain_constructor(cls)

    def __getitem__(self, index: int) -> Sample:
        raise NotImplementedError(
            f"{type(self).__name__}.__getitem__: it is not defined"
        )

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample], Iterable[Sample]):
    """Samples one after the other; subclasses define `__iter__`.

    With workers, each iterates over a copy of its own: without `get_worker_info` in
    `__iter__`, which says which part is its, every sample comes once for each worker.
    """

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples along the first dimension of tensors.

    Parameters
    ----------
    *tensors : Tensor or numpy.ndarray, shape (samples, ...)

    Attributes
    ----------
    tensors : tuple of Tensor

    Raises
    ------
    DatasetError
        If there are none, or their first sizes differ.

    Examples
    --------
    >>> dataset = TensorDataset(fw.zeros(5, 2), fw.arange(5))
    >>> len(dataset), dataset[3][1].item()
    (5, 3)
    """

    def __init__(self, *tensors: Tensor | np.ndarray) -> None:
        self.tensors = tuple(
            each if isinstance(each, Tensor) else as_tensor(np.asarray(each))
            for each in tensors
        )
        shapes = [tuple(each.shape) for each in self.tensors]
        if not shapes or not all(shapes) or len({shape[0] for shape in shapes}) != 1:
            raise DatasetError(
                f"TensorDataset: the tensors are {shapes};"
                " their first dimensions must be there and equal"
            )
        self._arrays: tuple[np.ndarray, ...] | None = None

    def __repr__(self) -> str:
        shapes = [str(tuple(each.shape)) for each in self.tensors]
        return f"{type(self).__name__}(shapes {', '.join(shapes)})"

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(each[index] for each in self.tensors)

    def fetch_batch(self, indices: Sequence[int]) -> tuple[Any, ...]:
        """Return the samples of several indices, stacked; of host tensors, arrays."""
        if any(each.is_gpu or each.requires_grad for each in self.tensors):
            return self[list(indices)]
        if self._arrays is None:
            self._arrays = tuple(each.host_copy() for each in self.tensors)
        return tuple(array[np.asarray(indices, np.intp)] for array in self._arrays)


class StackDataset(Dataset[Any]):
    """Samples made of those of several datasets at the same index.

    Parameters
    ----------
    *args : Dataset
        A sample is a tuple of theirs.
    **kwargs : Dataset
        A sample is a dictionary of theirs; instead of `args`.

    Raises
    ------
    ValueError
        If there is none, both kinds are given, or lengths differ.
    """

    shown = ("datasets",)

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                f"StackDataset: there are {len(args)} datasets by position and"
                f" {len(kwargs)} by name; exactly one kind must be given"
            )
        self.datasets = args or kwargs
        lengths = [len(each) for each in self._members()]
        if len(set(lengths)) != 1:
            raise ValueError(f"StackDataset: lengths are {lengths}; they must be equal")
        self._length = lengths[0]

    def _members(self) -> list[Any]:
        kept = self.datasets
        return list(kept.values() if isinstance(kept, dict) else kept)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.datasets, dict):
            return {name: each[index] for name, each in self.datasets.items()}
        return tuple(each[index] for each in self.datasets)


class ConcatDataset(Dataset[Any]):
    """Samples of several datasets, one after the other.

    Parameters
    ----------
    datasets : iterable of Dataset
        With lengths.

    Attributes
    ----------
    datasets : list of Dataset
    cumulative_sizes : list of int
        Where each ends.

    Raises
    ------
    DatasetError
        If there is none, or one is an `IterableDataset`, which has no indices.
    """

    shown = ("datasets",)

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise DatasetError("ConcatDataset: there is no dataset; give at least one")
        for each in self.datasets:
            if isinstance(each, IterableDataset):
                raise DatasetError(
                    f"ConcatDataset: {type(each).__name__} has no indices; use"
                    " ChainDataset"
                )
        lengths = (len(each) for each in self.datasets)
        self.cumulative_sizes = list(itertools.accumulate(lengths))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexRangeError(
                f"ConcatDataset: index is {index}; it must be from {-len(self)} to"
                f" {len(self) - 1}"
            )
        number = bisect.bisect_right(self.cumulative_sizes, place)
        before = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][place - before]


class ChainDataset(IterableDataset[Any]):
    """Samples of several iterable datasets, one after the other.

    Parameters
    ----------
    datasets : iterable of IterableDataset

    Raises
    ------
    DatasetError
        When it is iterated over, if one is no `IterableDataset`.
    """

    shown = ("datasets",)

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)

    def __iter__(self) -> Iterator[Any]:
        for each in self.datasets:
            if not isinstance(each, IterableDataset):
                raise DatasetError(
                    f"ChainDataset: a dataset is a {type(each).__name__}; it must be an"
                    " IterableDataset"
                )
            yield from each

    def __len__(self) -> int:
        return sum(len(each) for each in self.datasets)


class Subset(Dataset[Sample]):
    """Some samples of another dataset.

    Parameters
    ----------
    dataset : Dataset
    indices : sequence of int
        Numbers of the samples in `dataset`.
    """

    shown = ("dataset", "indices")

    def __init__(self, dataset: Dataset[Sample], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Sample:
        if isinstance(index, list):
            chosen: Any = [self.indices[each] for each in index]
            return self.dataset[chosen]
        return self.dataset[self.indices[index]]


def random_split(
    dataset: Dataset[Sample],
    lengths: Sequence[int] | Sequence[float],
    generator: Generator | None = default_generator,
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
    count = len(dataset)  # type: ignore[arg-type]  # those that are split have lengths
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
    order = permutation(count, generator or default_generator)
    ends = np.cumsum(sizes)
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends)]
