"""Data loader: batches of a dataset, in order, optionally prefetched by threads."""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

from ..base.device import Device, GpuDevice
from ..base.device import find_device as get_device
from ..base.philox import Generator as RandomGenerator
from ..base.philox import bits, default_generator
from ..dispatch.diagnosis import explaining
from ..tensor.from_data import as_tensor
from ..tensor.tensor import Tensor
from .collate import default_collate, default_convert, map_arrays, stack_samples
from .dataset import IterableDataset, Subset
from .sampler import BatchSampler, RandomSampler, SequentialSampler
from .worker import Worker, WorkerInfo

Batches = Generator[Any, None, None]
_END = object()
"""In the place of a batch of a worker whose samples are at their end."""

_FIXED = {
    *("batch_size", "batch_sampler", "sampler", "drop_last", "dataset"),
    "persistent_workers",
}
"""Attributes that are not set on a loader that is made."""


@explaining
class DataLoader:
    """Iterates over a dataset in batches of tensors.

    Parameters
    ----------
    dataset : Dataset or IterableDataset
        Or anything with `__len__` and `__getitem__`.
    batch_size : int or None, default 1
        Samples of a batch; None hands out single samples, converted.
    shuffle : bool, optional
        Whether each pass takes the samples in a new random order.
    sampler : Sampler or iterable of int, optional
        The order of samples.
    batch_sampler : Sampler or iterable of list of int, optional
        The indices of each batch; instead of the four arguments about them.
    num_workers : int, default 0
        Threads that fetch and collate batches ahead; batches stay in order.
    collate_fn : callable, optional
        From a list of samples to a batch; `default_collate` if not given.
    drop_last : bool, default False
        Whether an incomplete last batch is left out.
    timeout : float, default 0
        Seconds to wait for a worker's batch; 0 means any. Only with workers.
    worker_init_fn : callable, optional
        Called in each worker with its number.
    generator : Generator, optional
        Where the order and the workers' seeds come from; what `fw.manual_seed` seeds
        if not given.
    prefetch_factor : int, optional
        Batches that each worker works ahead; 2 if not given. Only with workers.
    device : Device, str or None
        Where the batches go; the next one is uploaded before one is handed out. None
        leaves them where the samples are. PyTorch's loader does not have it.
    pin_memory, pin_memory_device, persistent_workers, multiprocessing_context, in_order
        Taken for PyTorch's sake, without effect: workers are threads. The third and
        fourth only with workers.

    Raises
    ------
    ValueError
        If a size is out of range, or arguments exclude each other; and if an attribute
        that says what batches are made of is set later.
    AssertionError
        When it is iterated over, if `timeout` is given without workers.

    Notes
    -----
    A pass that is left early stops its threads before it returns. An error in a worker
    is raised where its batch is due.

    As a process of PyTorch's, each worker has its own default generator and its own
    `random` and `numpy.random`, seeded by `get_worker_info().seed`: what a dataset
    draws, by functions of these modules, does not depend on how threads take turns.
    What was imported from them by name, as by ``from random import random``, draws
    from the generator of the whole process.

    Examples
    --------
    >>> dataset = data.TensorDataset(fw.arange(5))
    >>> [batch.tolist() for batch, in data.DataLoader(dataset, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Sequence[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: Any = None,
        generator: RandomGenerator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        device: Device | str | None = None,
    ) -> None:
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("num_workers", num_workers, 0),
            ("prefetch_factor", prefetch_factor, 1),
            ("timeout", timeout, 0),
        ):
            is_number = isinstance(value, int | float)
            if value is not None and not (is_number and value >= least):
                raise ValueError(
                    f"DataLoader: {name} is {value!r}; it must be at least {least}"
                )
        for name, value in (
            ("prefetch_factor", prefetch_factor),
            ("persistent_workers", persistent_workers or None),
            ("multiprocessing_context", multiprocessing_context),
        ):
            if value is not None and not num_workers:
                raise ValueError(
                    f"DataLoader: {name} is {value!r}, but num_workers is 0; leave it"
                    " out, or have workers"
                )
        self._is_iterable = isinstance(dataset, IterableDataset)
        self._check_order(shuffle, sampler, batch_sampler, batch_size, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        is_batched = batch_size is not None or batch_sampler is not None
        self.collate_fn: Callable[[Any], Any] = collate_fn or (
            default_collate if is_batched else default_convert
        )
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        if prefetch_factor is None and num_workers:
            prefetch_factor = 2
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.device = None if device is None else get_device(device)
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler: Any = sampler
        if sampler is None and not self._is_iterable:
            self.sampler = (
                RandomSampler(dataset, generator=generator)
                if shuffle
                else SequentialSampler(dataset)
            )
        self.batch_sampler: Any = batch_sampler
        if batch_sampler is None and batch_size is not None and not self._is_iterable:
            self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)
        self._is_made = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and "_is_made" in self.__dict__:
            raise ValueError(
                f"DataLoader: {name} is set on a loader that is made; make another one"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """A context of `multiprocessing`, which has no effect; None if not given."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if isinstance(context, str):
            import multiprocessing

            methods = multiprocessing.get_all_start_methods()
            if context not in methods:
                raise ValueError(
                    f"DataLoader: multiprocessing_context is {context!r}; it must be"
                    f" one of {', '.join(methods)}"
                )
            context = multiprocessing.get_context(context)
        self._context = context

    def _check_order(
        self, shuffle: Any, sampler: Any, batch_sampler: Any, size: Any, drop: bool
    ) -> None:
        """Raise ValueError if arguments about the order exclude each other."""
        given = [
            name
            for name, is_given in (
                ("shuffle", bool(shuffle)),
                ("sampler", sampler is not None),
                ("batch_sampler", batch_sampler is not None),
            )
            if is_given
        ]
        if self._is_iterable and given:
            raise ValueError(
                f"DataLoader: {given[0]} was given, but the dataset is iterable and has"
                " an order of its own; leave it out"
            )
        if len(given) > 1:
            raise ValueError(
                f"DataLoader: {given[0]} and {given[1]} were given; give one of them"
            )
        if batch_sampler is not None and (size != 1 or drop):
            raise ValueError(
                "DataLoader: batch_sampler was given, and batch_size or drop_last;"
                " leave these out"
            )
        if size is None and drop:
            raise ValueError(
                "DataLoader: drop_last was given without batch_size; leave it out"
            )

    def __len__(self) -> int:
        """Return the number of batches of one pass.

        Raises
        ------
        TypeError
            If the dataset or sampler has no length.
        """
        if self._is_iterable:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            whole, rest = divmod(count, self.batch_size)
            return whole + (rest > 0 and not self.drop_last)
        order = self.sampler if self.batch_sampler is None else self.batch_sampler
        return len(order)

    def __repr__(self) -> str:
        kind = type(self.dataset).__name__
        return f"DataLoader({kind}, batch_size={self.batch_size})"

    def __iter__(self) -> LoaderIterator:
        if self.timeout and not self.num_workers:
            raise AssertionError(
                f"DataLoader: timeout is {self.timeout}, but num_workers is 0; leave it"
                " out, or have workers"
            )
        return LoaderIterator(self, self._batches())

    def _batches(self) -> Batches:
        """Yield the batches of one pass, where they go."""
        batches = self._threaded() if self.num_workers else self._inline()
        placed = (map_arrays(self._place, batch) for batch in batches)
        try:
            ahead = 1 if isinstance(self.device, GpuDevice) else 0
            yield from _ahead(placed, ahead)
        finally:
            batches.close()

    def _place(self, value: Any) -> Tensor:
        """Return an array or tensor as a tensor where batches go."""
        if isinstance(value, Tensor):
            return value if self.device is None else value.to(self.device)
        return as_tensor(value, device=self.device)

    # What a batch is made of

    def _orders(self) -> Iterator[Any]:
        """Yield the indices of each batch's samples, or of each sample."""
        if self.batch_sampler is not None:
            return iter(self.batch_sampler)
        return iter(self.sampler)

    def _fetch(self, order: Any) -> Any:
        """Return one batch on the host, or one sample."""
        if self.batch_sampler is None:
            return self.collate_fn(self.dataset[order])
        dataset, indices = self.dataset, list(order)
        while type(dataset) is Subset:
            indices = [dataset.indices[index] for index in indices]
            dataset = dataset.dataset
        fetch_batch = getattr(dataset, "fetch_batch", None)
        if fetch_batch is not None and self.collate_fn is default_collate:
            return _as_list(fetch_batch(indices))
        if hasattr(dataset, "__getitems__"):
            return self._collated(dataset.__getitems__(indices))
        return self._collated([dataset[index] for index in indices])

    def _collated(self, samples: list[Any]) -> Any:
        if self.collate_fn is default_collate:
            return stack_samples(samples)
        return self.collate_fn(samples)

    def _next_of(self, samples: Iterator[Any]) -> Any:
        """Return the next batch of an iterable dataset, or `_END`."""
        if self.batch_size is None:
            sample = next(samples, _END)
            return sample if sample is _END else self.collate_fn(sample)
        batch = list(itertools.islice(samples, self.batch_size))
        if not batch or (self.drop_last and len(batch) < self.batch_size):
            return _END
        return self._collated(batch)

    # Who makes it

    def _inline(self) -> Batches:
        if not self._is_iterable:
            yield from map(self._fetch, self._orders())
            return
        samples = iter(self.dataset)
        while (batch := self._next_of(samples)) is not _END:
            yield batch

    def _workers(self) -> list[Worker]:
        low, high = bits(2, (self.generator or default_generator).stream()).tolist()
        # As PyTorch's, a number that an int64 holds.
        base = low | (high >> 1) << 32
        datasets = (
            copy.copy(self.dataset) if self._is_iterable else self.dataset
            for _ in range(self.num_workers)
        )
        return [
            Worker(
                WorkerInfo(k, self.num_workers, base + k, dataset), self.worker_init_fn
            )
            for k, dataset in enumerate(datasets)
        ]

    def _threaded(self) -> Batches:
        """Yield batches that workers prefetch, in order, a bounded number ahead."""
        workers = self._workers()
        waiting: deque[tuple[Worker, Any]] = deque()
        ended: set[int] = set()
        asked = self._asked(workers, ended)
        try:
            ahead = self.num_workers * (self.prefetch_factor or 1)
            waiting.extend(itertools.islice(asked, ahead))
            while waiting:
                worker, future = waiting.popleft()
                batch = self._result(worker, future)
                if batch is _END:
                    ended.add(worker.info.id)
                waiting.extend(itertools.islice(asked, 1))
                if batch is not _END:
                    yield batch
        finally:
            for worker in workers:
                worker.stop()

    def _asked(
        self, workers: list[Worker], ended: set[int]
    ) -> Iterator[tuple[Worker, Any]]:
        """Ask workers in turn for batches; yield who was asked, and the future."""
        turn = itertools.cycle(workers)
        if not self._is_iterable:
            for order in self._orders():
                worker = next(turn)
                yield worker, worker.submit(self._fetch, order)
            return
        samples: dict[int, Iterator[Any]] = {}

        def step(info: WorkerInfo) -> Any:
            if info.id not in samples:
                samples[info.id] = iter(info.dataset)
            return self._next_of(samples[info.id])

        while len(ended) < len(workers):
            worker = next(turn)
            if worker.info.id not in ended:
                yield worker, worker.submit(step, worker.info)

    def _result(self, worker: Worker, future: Any) -> Any:
        from concurrent.futures import TimeoutError as FutureTimeoutError

        try:
            return future.result(self.timeout or None)
        except FutureTimeoutError:
            if future.done():
                raise
            raise RuntimeError(
                f"DataLoader: worker {worker.info.id} has made no batch for"
                f" {self.timeout} seconds, which is the timeout"
            ) from None


class LoaderIterator(Iterator[Any]):
    """One pass over a loader; its length is that of the whole pass.

    Parameters
    ----------
    loader : DataLoader
    batches : generator
        Of its batches.
    """

    def __init__(self, loader: DataLoader, batches: Batches) -> None:
        self._loader = loader
        self._batches = batches

    def __next__(self) -> Any:
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._loader)

    def close(self) -> None:
        """Stop the workers, and end the pass."""
        self._batches.close()


def _as_list(batch: Any) -> Any:
    """Return a tuple of members as a list, which collation makes of it."""
    return list(batch) if type(batch) is tuple else batch


def _ahead(items: Iterator[Any], count: int) -> Iterator[Any]:
    """Yield items after `count` further ones have been taken."""
    taken: deque[Any] = deque()
    for item in items:
        taken.append(item)
        if len(taken) > count:
            yield taken.popleft()
    yield from taken
