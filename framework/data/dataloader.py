"""Data loader: batches of a dataset, in order, optionally prefetched by threads."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..base.device import CPU, Device, GpuDevice
from ..base.device import find_device as get_device
from ..base.philox import Generator as RandomGenerator
from ..base.philox import default_generator
from ..tensor.tensor import Tensor
from .collate import collate, map_arrays
from .dataset import Dataset, Subset, permutation

Batches = Generator[Any, None, None]


class DataLoader:
    """Iterates over a dataset in batches of tensors.

    Parameters
    ----------
    dataset : Dataset
        Or anything with `__len__` and `__getitem__`.
    batch_size : int, default 1
        Samples of a batch.
    shuffle : bool, default False
        Whether each pass takes the samples in a new random order.
    num_workers : int, default 0
        Threads that fetch and collate batches ahead; batches stay in order.
    collate_fn : callable, default `collate`
        From a list of samples to a batch of NumPy arrays, which become tensors.
    drop_last : bool, default False
        Whether an incomplete last batch is left out.
    generator : Generator
        Where the order comes from; by default what `fw.manual_seed` seeds.
    prefetch_factor : int, default 2
        Batches that each thread works ahead.
    device : Device, str or None
        Where the batches go; the next one is uploaded before one is handed out. None
        leaves them on the host.

    Raises
    ------
    ValueError
        If a size is out of range.

    Notes
    -----
    A pass that is left early stops its threads before it returns. An error in a thread
    is raised where its batch is due.

    Examples
    --------
    >>> dataset = data.TensorDataset(np.arange(5))
    >>> [batch.tolist() for batch, in data.DataLoader(dataset, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        generator: RandomGenerator = default_generator,
        prefetch_factor: int = 2,
        device: Device | str | None = None,
    ) -> None:
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("num_workers", num_workers, 0),
            ("prefetch_factor", prefetch_factor, 1),
        ):
            if value < least:
                raise ValueError(
                    f"DataLoader: {name} is {value}; it must be at least {least}"
                )
        self.dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.generator = generator
        self.prefetch_factor = prefetch_factor
        self.device = get_device(device or CPU)

    def __len__(self) -> int:
        """Return the number of batches of one pass."""
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        batches = self._threaded() if self.num_workers else self._inline()
        uploaded = (map_arrays(self._tensor, batch) for batch in batches)
        try:
            ahead = 1 if isinstance(self.device, GpuDevice) else 0
            yield from _ahead(uploaded, ahead)
        finally:
            batches.close()

    def _tensor(self, array: Any) -> Tensor:
        return Tensor.from_data(array, device=self.device)

    def _indices(self) -> Iterator[Sequence[int]]:
        """Yield the indices of each batch's samples."""
        count = len(self.dataset)
        order: Sequence[int] = range(count)
        if self.shuffle:
            order = permutation(count, self.generator)
        for batch in range(len(self)):
            yield order[batch * self.batch_size : (batch + 1) * self.batch_size]

    def _fetch(self, indices: Sequence[int]) -> Any:
        """Return one batch on the host."""
        dataset = self.dataset
        while isinstance(dataset, Subset):
            indices = [dataset.indices[index] for index in indices]
            dataset = dataset.dataset
        fetch_batch = getattr(dataset, "fetch_batch", None)
        if fetch_batch is not None and self.collate_fn is None:
            return fetch_batch(indices)
        samples = [dataset[index] for index in indices]
        return (self.collate_fn or collate)(samples)

    def _inline(self) -> Batches:
        return (self._fetch(indices) for indices in self._indices())

    def _threaded(self) -> Batches:
        """Yield batches that threads prefetch, in order, a bounded number ahead."""
        indices = self._indices()
        waiting: deque[Future[Any]] = deque()
        threads = ThreadPoolExecutor(self.num_workers, "vkbackend-loader")
        try:
            ahead = self.num_workers * self.prefetch_factor
            for each in itertools.islice(indices, ahead):
                waiting.append(threads.submit(self._fetch, each))
            while waiting:
                batch = waiting.popleft().result()
                for each in itertools.islice(indices, 1):
                    waiting.append(threads.submit(self._fetch, each))
                yield batch
        finally:
            threads.shutdown(cancel_futures=True)


def _ahead(items: Iterator[Any], count: int) -> Iterator[Any]:
    """Yield items after `count` further ones have been taken."""
    taken: deque[Any] = deque()
    for item in items:
        taken.append(item)
        if len(taken) > count:
            yield taken.popleft()
    yield from taken
