"""Baselines of the benchmarks: PyTorch, on a GPU if available, or NumPy."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

PEERS = ("torch", "numpy")

_REST_SECONDS = 0.15
"""Time that the host's other threads may go on spinning after work of theirs: those of
OpenBLAS do for some 2^28 clocks, and take a software device's cores meanwhile."""


class Peer:
    """Baseline (the peer) and its clock.

    Parameters
    ----------
    name : str
        One of `PEERS`.

    Raises
    ------
    ImportError
        If it is not installed.
    """

    def __init__(self, name: str) -> None:
        self.torch: Any = importlib.import_module("torch") if name == "torch" else None
        self.cuda = self.torch is not None and self.torch.cuda.is_available()
        module: ModuleType = np if self.torch is None else self.torch
        self.name = f"{name} {module.__version__}" + (" cuda" if self.cuda else "")

    def array(self, values: np.ndarray[Any, Any], dtype: str) -> Any:
        """Return an array as the peer has them, on its device."""
        if self.torch is None:
            return values.astype(dtype)
        tensor = self.torch.from_numpy(values)
        return tensor.to("cuda" if self.cuda else "cpu", getattr(self.torch, dtype))

    def host(self, result: Any) -> np.ndarray[Any, Any]:
        """Return a result as float64 in NumPy."""
        if self.torch is not None:
            result = result.detach().double().cpu().numpy()
        return np.asarray(result, np.float64)

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """Convolve float32 in float32 inside; PyTorch's default on a GPU is TF32.

        TF32 has 10 bits of the 23, so results to compare with are not made in it.
        """
        if self.torch is None:
            yield
            return
        cudnn = self.torch.backends.cudnn
        before = cudnn.allow_tf32
        cudnn.allow_tf32 = False
        try:
            yield
        finally:
            cudnn.allow_tf32 = before

    def synchronize(self) -> None:
        """Wait for everything that it was asked to do."""
        if self.cuda:
            self.torch.cuda.synchronize()

    def seconds(
        self, run: Callable[[], Sequence[Any]], repeat: int, wall: bool
    ) -> float:
        """Return the time of one run, of `repeat` in a row."""
        if self.cuda and not wall:
            return self._on_device(run, repeat)
        self.synchronize()
        start = time.perf_counter()
        for _ in range(repeat):
            run()
        self.synchronize()
        seconds = time.perf_counter() - start
        if not self.cuda:
            time.sleep(_REST_SECONDS)
        return seconds / repeat

    def _on_device(self, run: Callable[[], Sequence[Any]], repeat: int) -> float:
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.torch.cuda.synchronize()
        start.record()
        for _ in range(repeat):
            run()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000 / repeat
