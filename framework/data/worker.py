"""Workers of a loader: threads that fetch batches, and what they know of themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..base.philox import Generator, default_generator
from .thread_random import ThreadRandom


@dataclass(frozen=True)
class WorkerInfo:
    """What `get_worker_info` says in a worker.

    Attributes
    ----------
    id : int
        From 0 to `num_workers` - 1.
    num_workers : int
    seed : int
        Of the worker's random numbers: it differs from worker to worker and from pass
        to pass, and follows from the loader's generator.
    dataset : Dataset
        The loader's; of an `IterableDataset` this worker's copy.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_own = threading.local()


def get_worker_info() -> WorkerInfo | None:
    """Return what a worker knows of itself; None outside of workers."""
    info: WorkerInfo | None = getattr(_own, "info", None)
    return info


class Worker:
    """One thread that fetches batches in the order in which they are asked for.

    Random numbers that are drawn in the thread come from generators of its own: those
    of the library, of `random` and of `numpy.random`.

    Parameters
    ----------
    info : WorkerInfo
    init : callable or None
        Called in the thread with the worker's number, before its first batch.
    """

    def __init__(
        self, info: WorkerInfo, init: Callable[[int], object] | None = None
    ) -> None:
        self.info = info
        self._init = init
        self._begun = False
        self._random = ThreadRandom(info.seed, info.id)
        from concurrent.futures import ThreadPoolExecutor

        self._threads = ThreadPoolExecutor(1, f"vkbackend-loader-{info.id}")

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the future of a call in the thread."""
        return self._threads.submit(self._call, function, *arguments)

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if not self._begun:
            _own.info = self.info
            default_generator.use_in_thread(Generator(self.info.seed))
            self._random.use_in_thread()
            if self._init is not None:
                self._init(self.info.id)
            self._begun = True
        return function(*arguments)

    def stop(self) -> None:
        """Forget what was not begun, and wait for what was."""
        try:
            self._threads.shutdown(cancel_futures=True)
        finally:
            self._random.release()
