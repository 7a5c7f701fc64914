"""Times of statements, each of which ends with a wait for the device."""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable
from typing import Any

from ..eager.base_tensor import evaluate

__all__ = ["Measurement", "Timer"]


class Measurement:
    """Times that a `Timer` measured.

    Attributes
    ----------
    number_per_run : int
    raw_times : list of float
        Seconds of each run.
    times : list of float
        Seconds of one execution, in each run.
    """

    def __init__(self, number_per_run: int, raw_times: list[float], label: str) -> None:
        self.number_per_run = number_per_run
        self.raw_times = raw_times
        self.label = label

    @property
    def times(self) -> list[float]:
        """Seconds of one execution, in each run."""
        return [each / self.number_per_run for each in self.raw_times]

    @property
    def mean(self) -> float:
        """Mean of the times."""
        return statistics.mean(self.times)

    @property
    def median(self) -> float:
        """Median of the times."""
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """Range of the middle half of the times; 0 for one."""
        if len(self.times) < 2:
            return 0.0
        first, _, third = statistics.quantiles(self.times, n=4)
        return third - first

    def __repr__(self) -> str:
        return (
            f"<Measurement of {self.label}: median {self.median * 1e6:.2f} us,"
            f" {len(self.raw_times)} runs of {self.number_per_run}>"
        )


class Timer:
    """Timer of a statement.

    Parameters
    ----------
    stmt, setup : str
        Statements; the second one runs once before.
    global_setup : str
        Must be empty: there is no C++.
    timer : callable
        Clock in seconds.
    globals : dict or None
        Names of the statements.
    label, sub_label, description : str or None
        What is printed.
    env : str or None
        Has no effect.
    num_threads : int, default 1
        Has no effect.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = time.perf_counter,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        self._label = " ".join(each for each in (label or stmt, sub_label) if each)

        def clock() -> float:
            # Work is pending until it is needed; it belongs to the time.
            evaluate()
            return timer()

        self._timer = timeit.Timer(stmt, setup, clock, globals)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Return the time of a run of `number` executions, after a short warm-up."""
        self._timer.timeit(max(number // 100, 1))
        return Measurement(number, [self._timer.timeit(number)], self._label)

    def repeat(self, repeat: int = -1, number: int = -1) -> Any:
        """Refuse, as PyTorch's does: use `blocked_autorange`."""
        raise NotImplementedError("Timer.repeat: use Timer.blocked_autorange")

    def blocked_autorange(
        self, callback: Any = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Return times of as many runs as fill `min_run_time` seconds."""
        number = 1
        while (taken := self._timer.timeit(number)) < min_run_time / 1000:
            number *= 10
        times: list[float] = []
        while sum(times) < min_run_time:
            taken = self._timer.timeit(number)
            times.append(taken)
            if callback is not None:
                callback(number, taken)
        return Measurement(number, times, self._label)

    adaptive_autorange = blocked_autorange
