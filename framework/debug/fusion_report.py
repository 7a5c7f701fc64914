"""Fusion report: kernels before and after, bytes saved, boundaries, GLSL."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..autotune import autotune
from ..base.device import GpuDevice, opened_devices
from ..codegen.partitioner import OWN_KERNEL
from ..scheduler.node_table import NodeSummary
from ..scheduler.plan import Plan, built_plans, live_plans
from ..scheduler.scheduler import flush
from .fusion_svg import Arrow, Box, draw

_KIBIBYTE = 1024


@dataclass(frozen=True)
class Kernel:
    """Kernel of a schedule.

    Attributes
    ----------
    operations : tuple of str
        Its ops, as `relu (32, 64) float32`.
    values_read, values_written : int
        Values of other kernels, or from outside, that it loads; and those it stores.
    bytes_saved : int
        Bytes of results that never reach memory, as their readers are in the kernel.
    glsl : str
        Its generated source; empty for a hand-written kernel.
    beside : tuple of int
        Other kernels of its horizontal fusion group, in the same dispatch.
    again : tuple of str
        Ops that it rematerialises instead of reading another kernel's result.
    """

    operations: tuple[str, ...]
    values_read: int
    values_written: int
    bytes_saved: int
    glsl: str
    beside: tuple[int, ...] = ()
    again: tuple[str, ...] = ()


@dataclass(frozen=True)
class Boundary:
    """Boundary between two dependent kernels, and why they were not fused."""

    first: int
    second: int
    reason: str


@dataclass(frozen=True)
class Schedule:
    """Schedule of one flush of the lazy graph, or of one trace: kernels in order.

    Attributes
    ----------
    dispatches : int
        Dispatches on the device: fewer than kernels with horizontal fusion, more where
        a hand-written kernel has several stages.
    """

    device: str
    kernels: tuple[Kernel, ...]
    boundaries: tuple[Boundary, ...]
    dispatches: int

    @property
    def operations(self) -> int:
        """Number of ops: kernels without fusion."""
        return sum(len(kernel.operations) for kernel in self.kernels)

    @property
    def bytes_saved(self) -> int:
        """Bytes of results that never reach memory."""
        return sum(kernel.bytes_saved for kernel in self.kernels)


@dataclass(frozen=True)
class FusionReport:
    """Fusion report, schedule by schedule; print it, or `save` it.

    Attributes
    ----------
    schedules : tuple of Schedule
        In execution order.
    """

    schedules: tuple[Schedule, ...]

    @property
    def kernels_before(self) -> int:
        """Number of ops: kernels without fusion."""
        return sum(schedule.operations for schedule in self.schedules)

    @property
    def kernels_after(self) -> int:
        """Number of kernels."""
        return sum(len(schedule.kernels) for schedule in self.schedules)

    @property
    def dispatches(self) -> int:
        """Number of dispatches."""
        return sum(schedule.dispatches for schedule in self.schedules)

    @property
    def bytes_saved(self) -> int:
        """Bytes of results that never reach memory."""
        return sum(schedule.bytes_saved for schedule in self.schedules)

    def __str__(self) -> str:
        return self.text()

    def text(self, *, glsl: bool = False) -> str:
        """Return the report as text, optionally with generated sources."""
        lines = [f"fusion: {_summary(self)}"]
        for number, schedule in enumerate(self.schedules, start=1):
            lines += [
                "",
                f"schedule {number} on {schedule.device}: {_summary(schedule)}",
            ]
            for at, kernel in enumerate(schedule.kernels, start=1):
                lines += _kernel_lines(at, kernel, glsl)
            lines += [
                f"  boundary {boundary.first + 1} -> {boundary.second + 1}:"
                f" {boundary.reason}"
                for boundary in schedule.boundaries
            ]
        return "\n".join(lines)

    def svg(self) -> str:
        """Return the report as a picture: kernels, their values, and boundaries."""
        columns = []
        for number, schedule in enumerate(self.schedules, start=1):
            boxes = [_box(at, k) for at, k in enumerate(schedule.kernels, start=1)]
            edges = [Arrow(b.first, b.second, b.reason) for b in schedule.boundaries]
            columns.append((f"schedule {number}: {_summary(schedule)}", boxes, edges))
        return draw(f"fusion: {_summary(self)}", columns)

    def save(self, path: str | Path) -> None:
        """Write the picture if the name ends in `.svg`, otherwise the whole text."""
        target = Path(path)
        picture = target.suffix == ".svg"
        text = self.svg() if picture else self.text(glsl=True) + "\n"
        target.write_text(text, encoding="utf-8")


def fusion_report(
    function: Callable[..., Any] | None = None, *arguments: Any
) -> FusionReport:
    """Return the fusion report of Vulkan devices so far, or of a function.

    Parameters
    ----------
    function : callable, optional
        Called with `arguments`; the report then covers the schedules of the call, its
        result included whether or not that is read, and also those cached already;
        what `jit` has traced before is replayed and schedules nothing. None covers
        every schedule that is still cached.
    *arguments
        Arguments of the function.

    Returns
    -------
    FusionReport
        Empty if nothing ran on a device.

    Examples
    --------
    >>> x = ones(1000, device="gpu")
    >>> report = fusion_report(lambda: (x * 2 + 1).relu().sum().item())
    >>> report.kernels_before
    4
    """
    devices = opened_devices()
    for device in devices:
        flush(device)
    if function is None:
        return _report(live_plans())
    # Benchmarks of autotuning are not the function's own work.
    with _fresh_plan_caches(devices), autotune.paused(), built_plans() as found:
        # Referenced, as dead values are not computed.
        result = function(*arguments)
        for device in opened_devices():
            flush(device)
    del result
    return _report(found)


@contextmanager
def _fresh_plan_caches(devices: Sequence[GpuDevice]) -> Iterator[None]:
    """Empty the devices' plan caches inside the block, and restore them afterwards."""
    with ExitStack() as stack:
        for device in devices:
            stack.enter_context(device.fresh_plan_cache())
        yield


def _report(plans: Sequence[Plan]) -> FusionReport:
    return FusionReport(tuple(map(_schedule, plans)))


def _schedule(plan: Plan) -> Schedule:
    group_of = {
        at: number
        for number, kernel_group in enumerate(plan.kernel_groups)
        for at in kernel_group
    }
    summaries = plan.summaries
    computed = [
        {*kernel_group, *plan.rematerialised.get(kernel_group[0], ())}
        for kernel_group in plan.kernel_groups
    ]
    taken = [
        {read for at in members for read in summaries[at].reads} - members
        for members in computed
    ]
    outside = set().union(*taken)
    beside = _beside(plan, group_of)
    kernels = []
    for number, kernel_group in enumerate(plan.kernel_groups):
        written = [at for at in kernel_group if summaries[at].external or at in outside]
        inside = [summaries[at] for at in kernel_group if at not in written]
        kernels.append(
            Kernel(
                tuple(_operation(summaries[at]) for at in kernel_group),
                len(taken[number]),
                len(written),
                sum(math.prod(note.shape) * note.dtype.itemsize for note in inside),
                plan.sources.get(kernel_group[0], ""),
                beside.get(number, ()),
                tuple(
                    _operation(summaries[at])
                    for at in plan.rematerialised.get(kernel_group[0], ())
                ),
            )
        )
    found = (
        Boundary(first, second, _reason(plan, first, second, reason))
        for first, second, reason in plan.boundaries()
    )
    dispatches = len(plan.execution_plan.steps)
    return Schedule(plan.device, tuple(kernels), tuple(found), dispatches)


def _beside(plan: Plan, group_of: dict[int, int]) -> dict[int, tuple[int, ...]]:
    """Return the other members of each kernel's horizontal fusion group."""
    makers = {
        slot: group_of[at] for at in group_of for slot in plan.summaries[at].slots
    }
    found = {}
    for launch in plan.launches:
        kernel_groups = sorted(
            {makers[slot] for slot in launch.writes if slot in makers}
        )
        for kernel_group in kernel_groups if len(kernel_groups) > 1 else ():
            found[kernel_group] = tuple(
                other for other in kernel_groups if other != kernel_group
            )
    return found


def _reason(plan: Plan, first: int, second: int, reason: str) -> str:
    """Return a reason, with the names of hand-written kernels where they are it."""
    if reason != OWN_KERNEL:
        return reason
    kernel_groups = plan.kernel_groups[first], plan.kernel_groups[second]
    names = [
        plan.summaries[kernel_group[0]].op
        for kernel_group in kernel_groups
        if kernel_group[0] not in plan.sources
    ]
    return f"hand-written: {', '.join(dict.fromkeys(names))}"


def _operation(note: NodeSummary) -> str:
    return f"{note.op} {tuple(note.shape)} {note.dtype.name}"


def _summary(part: FusionReport | Schedule) -> str:
    if isinstance(part, FusionReport):
        before, after = part.kernels_before, part.kernels_after
    else:
        before, after = part.operations, len(part.kernels)
    said = f"{before} -> {after} kernels"
    if part.dispatches != after:
        said += f" in {part.dispatches} dispatch{'es' * (part.dispatches != 1)}"
    return f"{said}, {_size(part.bytes_saved)} never reach memory"


def _size(count: int) -> str:
    return f"{count} bytes" if count < _KIBIBYTE else f"{count / _KIBIBYTE:.1f} KiB"


def _kernel_lines(at: int, kernel: Kernel, glsl: bool) -> list[str]:
    kind = "generated" if kernel.glsl else "hand-written"
    lines = [
        f"  kernel {at}, {kind}, reads {kernel.values_read}, writes"
        f" {kernel.values_written}, saves {_size(kernel.bytes_saved)}"
    ]
    if kernel.beside:
        others = ", ".join(str(other + 1) for other in kernel.beside)
        lines.append(f"    in one dispatch with kernel {others}")
    lines += [f"    {operation}" for operation in kernel.operations]
    lines += [f"    {operation}, computed again" for operation in kernel.again]
    if glsl and kernel.glsl:
        lines += [f"    | {line}".rstrip() for line in kernel.glsl.splitlines()]
    return lines


def _box(at: int, kernel: Kernel) -> Box:
    title = f"kernel {at}"
    if kernel.bytes_saved:
        title += f": saves {_size(kernel.bytes_saved)}"
    return Box(title, kernel.operations, bool(kernel.glsl))
