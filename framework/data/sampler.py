"""Samplers: the order in which a loader takes samples, and their batches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from ..base.errors import ShapeError
from ..base.philox import Generator, default_generator, integers, uniform
from ..base.process_group import group_for
from ..dispatch.diagnosis import explain_constructor
from ..tensor.from_data import as_tensor
from .representation import Represented

Index = TypeVar("Index", covariant=True)


def permutation(count: int, generator: Generator) -> list[int]:
    """Return the indices below `count` in random order."""
    draws = uniform(count, generator.stream())
    order: list[int] = np.argsort(draws, kind="stable").tolist()
    return order


class Sampler(Represented, Generic[Index]):
    """Order of samples; subclasses define `__iter__`, and usually `__len__`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        explain_constructor(cls)

    def __init__(self, data_source: Sized | None = None) -> None:
        pass

    def __iter__(self) -> Iterator[Index]:
        raise NotImplementedError(f"{type(self).__name__}.__iter__: it is not defined")


class SequentialSampler(Sampler[int]):
    """Every sample in order.

    Parameters
    ----------
    data_source : Dataset
    """

    shown = ("data_source",)

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Samples in a new random order each time.

    Parameters
    ----------
    data_source : Dataset
    replacement : bool, default False
        Whether a sample may come again before the others came.
    num_samples : int, optional
        How many are drawn; as many as there are if not given. Without replacement
        more than that are several orders, one after the other.
    generator : Generator, optional
        Where the draws come from; what `fw.manual_seed` seeds if not given.

    Raises
    ------
    TypeError
        If `replacement` is no bool.
    ValueError
        If `num_samples`, given or not, is not above 0.
    """

    shown = ("data_source", "replacement", "_num_samples")

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(
                f"RandomSampler: replacement is {replacement!r}; it must be a bool"
            )
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                f"RandomSampler: num_samples is {self.num_samples}, of"
                f" {len(data_source)} samples; it must be an int above 0"
            )

    @property
    def num_samples(self) -> int:
        """How many are drawn."""
        if self._num_samples is None:
            return len(self.data_source)
        return self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator = self.generator or default_generator
        count, wanted = len(self.data_source), self.num_samples
        if self.replacement:
            yield from integers(wanted, generator.stream(), count).tolist()
            return
        while wanted > 0:
            order = permutation(count, generator)
            yield from order[:wanted]
            wanted -= count

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in a new random order each time.

    Parameters
    ----------
    indices : sequence of int
    generator : Generator, optional
        See `RandomSampler`.
    """

    shown = ("indices",)

    def __init__(
        self, indices: Sequence[int], generator: Generator | None = None
    ) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        generator = self.generator or default_generator
        for place in permutation(len(self.indices), generator):
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Samples drawn in proportion to weights.

    Parameters
    ----------
    weights : sequence of float, or Tensor
        At least 0; they need not sum to 1.
    num_samples : int
        How many are drawn.
    replacement : bool, default True
        Whether a sample may be drawn again.
    generator : Generator, optional
        See `RandomSampler`.

    Raises
    ------
    ValueError
        If `num_samples` is no int above 0, `replacement` no bool, or weights are not a
        row of numbers of at least 0 with one above.
    ShapeError
        If more are drawn without replacement than have a weight above 0.

    Attributes
    ----------
    weights : Tensor, shape (samples,), float64
        On the host; a later draw is by what they are then.
    """

    shown = ("weights", "num_samples", "replacement")

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool):
            raise ValueError(
                f"WeightedRandomSampler: num_samples is {num_samples!r}; it must be an"
                " int above 0"
            )
        if num_samples <= 0:
            raise ValueError(
                f"WeightedRandomSampler: num_samples is {num_samples}; it must be above"
                " 0"
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                f"WeightedRandomSampler: replacement is {replacement!r}; it must be a"
                " bool"
            )
        array = np.asarray(weights, np.float64)
        self.weights = as_tensor(array)
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator
        if array.ndim != 1 or not (array >= 0).all() or not array.sum() > 0:
            raise ValueError(
                f"WeightedRandomSampler: weights have shape {array.shape}; they must be"
                " a row of numbers of at least 0, not all 0"
            )
        if not replacement and num_samples > np.count_nonzero(array):
            raise ShapeError(
                f"WeightedRandomSampler: {num_samples} samples of"
                f" {np.count_nonzero(array)} with a weight above 0; without replacement"
                " at most as many are possible"
            )

    def __iter__(self) -> Iterator[int]:
        generator = self.generator or default_generator
        weights = self.weights.host_copy()
        if self.replacement:
            drawn = uniform(self.num_samples, generator.stream()).astype(np.float64)
            ends = np.cumsum(weights)
            places = np.searchsorted(ends, drawn * ends[-1], side="right")
            # Rounding may lead past the last weight above 0.
            places = np.minimum(places, np.flatnonzero(weights)[-1])
            yield from places.tolist()
            return
        # Efraimidis and Spirakis, Weighted Random Sampling with a Reservoir, 2006
        drawn = uniform(len(weights), generator.stream()).astype(np.float64)
        with np.errstate(divide="ignore"):
            keys = -np.log1p(-drawn) / weights
        yield from np.argsort(keys, kind="stable")[: self.num_samples].tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Batches of the indices of another sampler.

    Parameters
    ----------
    sampler : Sampler or iterable of int
    batch_size : int
        At least 1.
    drop_last : bool
        Whether an incomplete last batch is left out.

    Raises
    ------
    ValueError
        If `batch_size` is not an int above 0, or `drop_last` no bool.

    Examples
    --------
    >>> list(data.BatchSampler(data.SequentialSampler(range(5)), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    shown = ("sampler", "batch_size", "drop_last")

    def __init__(
        self, sampler: Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        if (
            not isinstance(batch_size, int)
            or isinstance(batch_size, bool)
            or batch_size <= 0
        ):
            raise ValueError(
                f"BatchSampler: batch_size is {batch_size!r}; it must be an int above 0"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(
                f"BatchSampler: drop_last is {drop_last!r}; it must be a bool"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]  # one without has no length
        if self.drop_last:
            return count // self.batch_size
        return math.ceil(count / self.batch_size)


class DistributedSampler(Sampler[int]):
    """Part of a dataset that one of several processes takes.

    Parameters
    ----------
    dataset : Dataset
    num_replicas, rank : int, optional
        Number of processes, and which of them this is; by default those of `group`, or
        else of the process group that `init_process_group` has made.
    shuffle : bool, default True
        Whether the order changes with `set_epoch`.
    seed : int, default 0
        The same in all processes.
    drop_last : bool, default False
        Whether samples are left out, rather than repeated, where they do not divide.
    group : Group or ProcessGroup, optional
        Whose number of processes and rank are the defaults.

    Raises
    ------
    ValueError
        If `rank` is no number of a process, or there is no process group to ask.
    """

    shown = ("dataset", "num_replicas", "rank", "shuffle", "seed", "drop_last")

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        group: Any = None,
    ) -> None:
        if num_replicas is None:
            num_replicas = group_for("DistributedSampler", group).size()
        if rank is None:
            rank = group_for("DistributedSampler", group).rank()
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"DistributedSampler: rank is {rank}; it must be from 0 to"
                f" {num_replicas - 1}"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        count = len(dataset)
        self.num_samples = (
            count // num_replicas if drop_last else math.ceil(count / num_replicas)
        )
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        order = list(range(count))
        if self.shuffle:
            order = permutation(count, Generator(self.seed + self.epoch))
        if not self.drop_last and order:
            repeats = math.ceil(self.total_size / count)
            order = (order * repeats)[: self.total_size]
        return iter(order[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch."""
        self.epoch = epoch
