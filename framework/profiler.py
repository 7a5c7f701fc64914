"""PyTorch's profiler: kernels by the device's clock, named regions by the host's.

Kernels are measured by `debug.profiler` while a region is recorded; there is nothing of
single ops on the host, as they only record nodes.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from .base.device import opened_devices
from .base.public_names import public_names as _public_names
from .debug.profiler import Profile
from .debug.profiler import profile as _kernels

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "emit_nvtx",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

_MICROSECONDS = 1e6


@contextlib.contextmanager
def emit_nvtx(enabled: bool = True, record_shapes: bool = False) -> Iterator[None]:
    """Return a block in which nothing changes: `profile` has its own marks.

    Parameters
    ----------
    enabled, record_shapes : bool
        Without effect.
    """
    yield


class ProfilerActivity(Enum):
    """What is measured; kernels of the Vulkan device are, whichever is asked for."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What a profiler does with a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """Return what can be asked for."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """Return a function that says what to do with each step.

    Parameters
    ----------
    wait, warmup, active : int
        Steps of a cycle that are left out, run, and recorded.
    repeat : int, default 0
        Number of cycles; 0 is without an end.
    skip_first : int, default 0
        Steps before the first cycle.
    skip_first_wait : int, default 0
        Whether the first cycle has no `wait`.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"schedule: wait, warmup, active, repeat, skip_first are {wait}, {warmup},"
            f" {active}, {repeat}, {skip_first}; active must be above 0, others at"
            " least 0"
        )

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"schedule: the step is {step}; it must be 0 or more")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        last = place == cycle - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


class _Region:
    """A named stretch of the host's time."""

    def __init__(self, name: str, start: float, seconds: float, calls: int = 1) -> None:
        self.key = self.name = name
        self.start = start
        self.seconds = seconds
        self.count = calls

    @property
    def cpu_time_total(self) -> float:
        """Microseconds of all calls."""
        return self.seconds * _MICROSECONDS

    @property
    def cpu_time(self) -> float:
        """Microseconds of a call."""
        return self.cpu_time_total / self.count

    self_cpu_time_total = cpu_time_total
    device_time_total = cuda_time_total = self_cuda_time_total = 0.0


class _Kernel(_Region):
    """Runs of a kernel; the time is the device's."""

    cpu_time_total = cpu_time = self_cpu_time_total = 0.0

    @property
    def device_time_total(self) -> float:  # type: ignore[override]
        """Microseconds of all calls."""
        return self.seconds * _MICROSECONDS

    cuda_time_total = self_cuda_time_total = device_time_total


class EventList(list[Any]):
    """Regions and kernels, as `profile.key_averages` returns them."""

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, **kwargs: Any
    ) -> str:
        """Return the longest as a table to print; other keywords have no effect."""
        lines = [f"{'name':<48} {'calls':>7} {'host us':>12} {'device us':>12}"]
        rows = sorted(self, key=lambda each: -each.seconds)
        for each in rows if row_limit < 0 else rows[:row_limit]:
            name = each.key if len(each.key) <= 48 else each.key[:45] + "..."
            host, device = each.cpu_time_total, each.device_time_total
            lines.append(f"{name:<48} {each.count:>7} {host:>12.1f} {device:>12.1f}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def total_average(self) -> _Region:
        """Return the sum of all."""
        seconds = sum(each.seconds for each in self)
        return _Region("Total", 0.0, seconds, sum(each.count for each in self) or 1)


def _summed(regions: Iterable[_Region]) -> EventList:
    found: dict[tuple[type, str], _Region] = {}
    for each in regions:
        known = found.get((type(each), each.key))
        if known is None:
            found[type(each), each.key] = type(each)(
                each.key, 0.0, each.seconds, each.count
            )
        else:
            known.seconds += each.seconds
            known.count += each.count
    return EventList(found.values())


class profile:  # noqa: N801 - PyTorch's name
    """Block whose kernels and named regions are measured.

    Parameters
    ----------
    activities : iterable of ProfilerActivity or None
        Has no effect: kernels of the devices in use, and regions, are measured.
    schedule : callable or None
        What to do with each step, as `schedule` makes it; without it all is recorded.
    on_trace_ready : callable or None
        Called with the profiler when a recording ends.
    record_shapes, profile_memory, with_stack, with_flops, with_modules
        Have no effect.

    Notes
    -----
    The devices are those in use when recording begins. Replays of functions of `fw.jit`
    are recorded beforehand; they run untraced within the block. `fw.profile` is the
    library's own.

    Examples
    --------
    >>> with fw.profiler.profile() as found:
    ...     with fw.profiler.record_function("step"):
    ...         _ = fw.ones(2) + 1
    >>> [each.key for each in found.key_averages() if each.key == "step"]
    ['step']
    """

    _open: list[profile] = []  # noqa: RUF012 - the profilers that record now

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        **kwargs: Any,
    ) -> None:
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self._regions: list[_Region] = []
        self._profiles: list[Profile] = []
        self._stack: contextlib.ExitStack | None = None

    def _action(self) -> ProfilerAction:
        if self.schedule is None:
            return ProfilerAction.RECORD
        return self.schedule(self.step_num)

    def start(self) -> None:
        """Begin with the first step."""
        if self._action() in _RECORDING:
            self._begin()

    def stop(self) -> None:
        """End what is being recorded."""
        if self._stack is not None:
            self._end(True)

    def _begin(self) -> None:
        self._regions, self._profiles = [], []
        self._stack = contextlib.ExitStack()
        for device in opened_devices():
            self._profiles.append(self._stack.enter_context(_kernels(device)))
        profile._open.append(self)

    def _end(self, is_ready: bool) -> None:
        stack, self._stack = self._stack, None
        profile._open.remove(self)
        if stack is not None:
            stack.close()
        if is_ready and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Say that a step ended and the next begins."""
        before = self._action()
        self.step_num += 1
        after = self._action()
        if self._stack is not None and (
            before is ProfilerAction.RECORD_AND_SAVE or after not in _RECORDING
        ):
            self._end(True)
        if self._stack is None and after in _RECORDING:
            self._begin()

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *args: object) -> None:
        self.stop()

    def events(self) -> EventList:
        """Return every region and every run of a kernel."""
        kernels = (
            _Kernel(span.name, span.start_seconds, span.seconds)
            for each in self._profiles
            for span in each.spans
        )
        return EventList([*self._regions, *kernels])

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """Return regions and kernels, those of one name summed."""
        return _summed(self.events())

    def export_chrome_trace(self, path: str) -> None:
        """Write regions and kernels as a trace for `chrome://tracing` or perfetto."""
        rows = [
            {
                "name": each.key, "ph": "X", "ts": each.start * _MICROSECONDS,
                "dur": each.seconds * _MICROSECONDS,
                "pid": "device" if isinstance(each, _Kernel) else "host", "tid": 0,
            }
            for each in self.events()
        ]  # fmt: skip
        Path(path).write_text(json.dumps({"traceEvents": rows}), encoding="utf-8")


class record_function:  # noqa: N801 - PyTorch's name
    """Named region: a block, or a function it decorates.

    Parameters
    ----------
    name : str
    args : str or None
        Has no effect.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self._start = 0.0

    def __enter__(self) -> record_function:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *args: object) -> None:
        seconds = time.perf_counter() - self._start
        for each in profile._open:
            each._regions.append(_Region(self.name, self._start, seconds))

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function each call of which is a region."""

        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return named


_ranges: list[record_function] = []


def range_push(msg: str) -> int:
    """Begin a region; return how many are open around it."""
    _ranges.append(record_function(msg).__enter__())
    return len(_ranges) - 1


def range_pop() -> int:
    """End the innermost region; return how many are open around it, -1 for none."""
    if _ranges:
        _ranges.pop().__exit__()
        return len(_ranges)
    return -1


def mark(msg: str) -> None:
    """Note a moment as a region without length."""
    with record_function(msg):
        pass


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return an `on_trace_ready` that writes traces into a folder, uncompressed.

    Parameters
    ----------
    dir_name : str
        The folder; it is made.
    worker_name : str or None
        Part of the files' names; None means "host".
    use_gzip : bool
        Without effect.
    """

    def handle(found: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{worker_name or 'host'}.{time.time_ns()}.pt.trace.json"
        found.export_chrome_trace(str(folder / name))

    return handle


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
