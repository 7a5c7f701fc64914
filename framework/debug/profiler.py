"""Profiler: kernel times by the device's clock, as a table or a trace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import vkbackend

from ..base.device import GpuDevice
from ..base.device import find_device as get_device
from ..base.errors import StateError
from ..eager.base_tensor import evaluate

_MICROSECONDS = 1e6
_LONGEST_NAME = 72


class KernelTime(NamedTuple):
    """Kernel time: all runs of one kernel.

    Attributes
    ----------
    name : str
        The kernel and its constants; a fused one is named after its ops.
    calls : int
        Number of runs.
    seconds : float
        Total time.
    """

    name: str
    calls: int
    seconds: float


class Profile:
    """Profile measured by `profile`.

    Attributes
    ----------
    device : str
        The device's name.
    spans : list of vkbackend.Span
        Every kernel's run and every copy, in order.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self.spans: list[vkbackend.Span] = []

    def kernels(self) -> list[KernelTime]:
        """Return the kernels, longest total time first."""
        found: dict[str, KernelTime] = {}
        for span in self.spans:
            _, calls, seconds = found.get(span.name, KernelTime(span.name, 0, 0.0))
            found[span.name] = KernelTime(span.name, calls + 1, seconds + span.seconds)
        return sorted(found.values(), key=lambda row: row.seconds, reverse=True)

    def table(self, limit: int = 20) -> str:
        """Return the kernels with the longest total times as a table to print.

        Parameters
        ----------
        limit : int, default 20
            Most rows; the last line sums up the others.
        """
        rows = self.kernels()
        total = sum(row.seconds for row in rows)
        lines = [f"{self.device}: {total * 1e3:.3f} ms in {len(self.spans)} runs"]
        lines.append(f"{'ms':>10} {'share':>6} {'calls':>6} {'us each':>9}  kernel")
        for row in rows[:limit]:
            share = row.seconds / total if total else 0.0
            each = row.seconds / row.calls * _MICROSECONDS
            name = row.name
            if len(name) > _LONGEST_NAME:
                name = name[: _LONGEST_NAME - 3] + "..."
            lines.append(
                f"{row.seconds * 1e3:10.3f} {share:6.1%} {row.calls:6} {each:9.1f}"
                f"  {name}"
            )
        rest = rows[limit:]
        if rest:
            seconds = sum(row.seconds for row in rest)
            lines.append(f"{seconds * 1e3:10.3f} in {len(rest)} other kernels")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | Path) -> None:
        """Write the runs as a trace for `chrome://tracing` or ui.perfetto.dev."""
        start = self.spans[0].start_seconds if self.spans else 0.0
        events = [
            {
                "name": span.name,
                "cat": "kernel",
                "ph": "X",
                "ts": (span.start_seconds - start) * _MICROSECONDS,
                "dur": span.seconds * _MICROSECONDS,
                "pid": self.device,
                "tid": "compute",
                "args": {"groups": span.groups, "batch": span.batch},
            }
            for span in self.spans
        ]
        text = json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
        Path(path).write_text(text, encoding="utf-8")


@contextlib.contextmanager
def profile(device: object = None) -> Iterator[Profile]:
    """Measure each kernel that runs within the block, on the device's clock.

    The lazy graph is submitted before, and again at the end of the block, so that the
    profile covers the ops recorded in it. Replays of a `jit` function are recorded
    beforehand and are not measured.

    Parameters
    ----------
    device : device, str, int or None
        A Vulkan device, as `fw.device` takes it.

    Yields
    ------
    Profile
        Filled at the end of the block.

    Raises
    ------
    StateError
        If the device is the host, which has no kernels.

    Examples
    --------
    >>> import vkbackend.framework as fw
    >>> with fw.profile() as profile:  # doctest: +SKIP
    ...     model(x).sum().backward()
    >>> print(profile)  # doctest: +SKIP
    """
    found = get_device(device)  # type: ignore[arg-type]  # checked next
    if not isinstance(found, GpuDevice):
        raise StateError(
            f"profile: the device is {found.name}; only a Vulkan device has kernels to"
            " measure"
        )
    evaluate()
    result = Profile(found.name)
    with found.gpu.profile() as measured:
        try:
            yield result
        finally:
            evaluate()
    result.spans = measured.spans
