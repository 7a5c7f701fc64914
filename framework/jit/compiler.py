"""Compiler of traces: one plan, a memory plan by live ranges, dynamic arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import vkbackend

from ..base.errors import TraceError
from ..base.scoped_setting import SettingScope
from ..ir.host_step import HostStep, compiling, host_steps
from ..ir.lazy_graph import Array, Value
from ..scheduler.bound_plan import BoundPlan
from ..scheduler.dynamic_args import DynamicArguments
from ..scheduler.executor import buffer_of
from ..scheduler.kernel_search import autotuned_plan
from ..scheduler.launch import ExecutionPlan, Launch
from ..scheduler.lowering_cache import lowering_cache
from ..scheduler.memory_planner import (
    GRANULE,
    LiveRange,
    aligned_size,
    barrier_intervals,
    host_waits,
    late_order,
    list_schedule,
    peak_live_bytes,
    place,
    shared_buffers,
)
from ..scheduler.plan import Plan, build_plan
from .segments import Exchange, SegmentBuilder, SegmentedRecording

if TYPE_CHECKING:
    from ..base.device import GpuDevice
    from .tracer import Trace

MAX_LIGHT_WORKGROUPS = 16
"""Workgroups of a dispatch that may be delayed to run beside a heavier one."""

LARGE_BYTES = 1 << 18
"""Bytes of the results of a dispatch that does not come long before its turn."""

LATE_BYTES = 1 << 12
"""Bytes of a result that is made when a host step takes it, not at the beginning."""

MAX_LIGHT_INPUT_BYTES = 1 << 16
"""Bytes of its inputs, which stay live until then."""

STEPS_BEHIND, BYTES_BEHIND = 2, 64 << 20
"""Host steps that may still run when the device goes on with what follows them.

More may where they take no more bytes than these, together, and no more than the
largest one alone: small ones take a while, too, and the device would wait for memory
that they read.
"""

Place = tuple[vkbackend.Buffer, int]
"""A buffer and an offset in bytes."""


@dataclass
class State:
    """A storage that replays read or mutate.

    Attributes
    ----------
    array : callable
        Returns the storage, or None when it has been freed.
    buffer : Buffer
        Its memory in replays.
    value : Value
        Its value after the last replay.
    written : bool
        Whether replays mutate it.
    """

    array: Callable[[], Array | None]
    buffer: vkbackend.Buffer
    value: Value
    written: bool = True


Key = int | tuple[int, int]
"""A slot; or for a copy of what a host step takes, those of what it makes and takes."""


@dataclass
class _StepValue:
    """Live range of what a host step takes or makes, by launches."""

    step: HostStep
    size: int
    first: int = -1
    last: int = -1

    @property
    def in_place(self) -> bool:
        """Whether kernels may write it."""
        return self.step.in_place(self.size)

    def used(self, at: int) -> None:
        """Let it live at a launch."""
        self.first = at if self.first < 0 else self.first
        self.last = max(self.last, at)


class GraphInput(NamedTuple):
    """Destination of a graph input: buffer, offset and size in bytes."""

    buffer: vkbackend.Buffer
    offset: int
    size: int


@dataclass
class Executable:
    """Executable of a trace: recording, memory and dynamic arguments.

    Attributes
    ----------
    recording : Recording, SegmentedRecording or None
        None if the trace has no launches.
    words : DynamicArguments
        Its dynamic arguments.
    graph_inputs : list of GraphInput or None
        By input; None for one that no kernel reads.
    memory : dict of int to Buffer
        Buffers, by `id`, of the values that outlive a replay.
    constants : list of Value
        Values that kernels read and nothing in the trace writes.
    planned, alive, eager : int
        Bytes of intermediate results: in the memory plan, at the peak of live bytes,
        and as one allocation each.
    kept : int
        Bytes of results that outlive a replay.
    """

    recording: vkbackend.Recording | SegmentedRecording | None = None
    words: DynamicArguments = field(default_factory=DynamicArguments)
    graph_inputs: list[GraphInput | None] = field(default_factory=list)
    memory: dict[int, vkbackend.Buffer] = field(default_factory=dict)
    constants: list[Value] = field(default_factory=list)
    planned: int = 0
    alive: int = 0
    eager: int = 0
    kept: int = 0


def compile_trace(
    trace: Trace, state: dict[int, vkbackend.Buffer], varies: bool = False
) -> Executable:
    """Compile a trace into a recording.

    Parameters
    ----------
    trace : Trace
        After `isolate_outputs`; values still referenced then outlive each replay.
    state : dict of int to Buffer
        Memory of mutated storages, by `id` of their values on entry.
    varies : bool, default False
        Whether its kernels are to be those of other numbers of a loop's steps, too.
    """
    assert trace.device is not None
    return _TraceCompiler(trace, trace.device, state, varies).compile()


_HOST = -1
"""What stands for the host among slots, which order launches."""


class _TraceCompiler:
    def __init__(
        self,
        trace: Trace,
        device: GpuDevice,
        state: dict[int, vkbackend.Buffer],
        varies: bool,
    ) -> None:
        self.trace = trace
        self.device = device
        self.gpu = device.gpu
        self.state = state
        self.varies = varies
        self.nodes = trace.nodes
        self.values: dict[int, Value] = {}
        self.slots: dict[int, int] = {}
        for node in self.nodes:
            for value in (*[each.value for each in node.inputs], *node.outputs):
                self.values[id(value)] = value
                self.slots.setdefault(id(value), len(self.slots))
        self.steps = {
            self.slots[id(node.outputs[0])]: (step, node.values[0], node.outputs[0])
            for node, step in host_steps(self.nodes)
        }
        self.made = {id(value) for node in self.nodes for value in node.outputs}
        self.result = Executable()
        self.launches: list[Launch] = []
        self.buffers: dict[int, vkbackend.Buffer] = {}
        self.offsets: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        # Memory for copies of what steps take, by the slot of what they make.
        self.copies: dict[int, vkbackend.Buffer] = {}

    def compile(self) -> Executable:
        with SettingScope(compiling, True):
            plan = autotuned_plan(
                self.gpu,
                self.nodes,
                lambda: build_plan(
                    self.gpu,
                    self.nodes,
                    self.slots,
                    state=self.state,
                    varies=self.varies,
                    cache=lowering_cache(self.device),
                ),
            )
        for launch in plan.launches:
            self.sizes.update(launch.allocate)
        for value in self.trace.graph_inputs:
            if id(value) in self.slots:
                self.sizes[self.slots[id(value)]] = value.nbytes
        self.launches = self._ordered(plan.launches)
        if not self.launches:
            self.result.graph_inputs = [None] * len(self.trace.graph_inputs)
            self.result.words.fix(bytearray(), self.trace.actions, self.trace.draws)
            return self.result
        self._bind_external()
        final_copies = self._place_state()
        self._merge_copied(plan, {slot for slot, _, _ in final_copies})
        self._allocate_outputs(plan)
        self._allocate_exchanges()
        self._place_intermediates(final_copies)
        self._record(plan, final_copies)
        self._place_inputs()
        return self.result

    def _ordered(self, launches: list[Launch]) -> list[Launch]:
        """Return launches in an order of few barriers, light ones beside heavy ones.

        What needs the results of host steps comes after all that does not, and what
        is large not much earlier than its use.
        """
        replaced = {
            self.slots[id(array.value)]: self.slots[id(before)]
            for array, before in self.trace.rebound_arrays.values()
            if id(before) in self.slots
        }
        accesses = []
        for launch in launches:
            # A new value may alias the old one, so readers of that come first.
            old = [replaced[slot] for slot in launch.writes if slot in replaced]
            accesses.append((launch.reads, (*launch.writes, *old)))
        steps = [self._step_of(launch) is not None for launch in launches]
        waits = host_waits(accesses, steps)
        # Host steps stay in their order.
        accesses = [
            (reads, (*writes, _HOST) if is_step else writes)
            for (reads, writes), is_step in zip(accesses, steps)
        ]
        loads = [math.prod(launch.grid) for launch in launches]
        light = [
            load <= MAX_LIGHT_WORKGROUPS
            and not is_step
            and sum(self.sizes.get(slot, 0) for slot in launch.reads)
            <= MAX_LIGHT_INPUT_BYTES
            for load, launch, is_step in zip(loads, launches, steps)
        ]
        large = [
            sum([size for _, size in each.allocate]) >= LARGE_BYTES for each in launches
        ]
        levels = list_schedule(accesses, loads, light, large)
        order: list[tuple[int, float]] = list(zip(waits, levels))
        if any(steps):
            makes = [
                any([self.sizes[slot] >= LATE_BYTES for slot in each.writes])
                for each in launches
            ]
            order = late_order(accesses, order, steps, makes)
        return [launches[k] for k in sorted(range(len(order)), key=order.__getitem__)]

    def _step_of(self, launch: Launch) -> tuple[HostStep, Value, Value] | None:
        """Return the host step that a launch stands for, what it takes and makes."""
        return self.steps.get(launch.writes[0]) if launch.writes else None

    def _bind_external(self) -> None:
        """Bind values that the trace reads but does not make."""
        inputs = {id(value) for value in self.trace.graph_inputs}
        for key, value in self.values.items():
            if key in self.made or key in inputs:
                continue
            if value.node is not None:
                raise TraceError(
                    "jit: a tensor is used that another trace is making; let one"
                    " finish before the other uses its results"
                )
            slot = self.slots[key]
            if key in self.state:
                self.buffers[slot] = self.state[key]
            else:
                self.buffers[slot] = buffer_of(value)
                self.result.constants.append(value)

    def _place_state(self) -> list[tuple[int, vkbackend.Buffer, int]]:
        """Write new values of storages in place where no later read forbids it.

        Returns
        -------
        list of (int, Buffer, int)
            Slots that must be copied at the end, their destinations and sizes.
        """
        final_copies = []
        pairs = {
            (self.slots.get(id(before)), self.slots[id(array.value)])
            for array, before in self.trace.rebound_arrays.values()
        }
        order = _AccessOrder(
            [each for each in self.launches if each.copies not in pairs]
        )
        needless = set()
        for array, before in self.trace.rebound_arrays.values():
            after = array.value
            old, new = self.slots.get(id(before)), self.slots[id(after)]
            buffer = self.state[id(before)]
            self.result.memory[id(after)] = buffer
            if old is None or order.may_overwrite(old, new):
                self.buffers[new] = buffer
                needless.add((old, new))
            else:
                final_copies.append((new, buffer, after.nbytes))
        self.launches = [each for each in self.launches if each.copies not in needless]
        return final_copies

    def _merge_copied(self, plan: Plan, kept: set[int]) -> None:
        """Leave out copies of intermediates that nothing reads later.

        Both slots become that of the copy. `kept` are further slots that stay.
        """
        made = {self.slots[key] for key in self.made if key in self.slots}
        fixed = kept.union(self.buffers, [slot for slot, _, _ in plan.outputs])
        for _, taken, result in self.steps.values():
            fixed.update([self.slots[id(taken)], self.slots[id(result)]])
        for copy in [each for each in self.launches if each.copies is not None]:
            assert copy.copies is not None
            old, new = copy.copies
            rest = [each for each in self.launches if each is not copy]
            if (
                old not in made
                or old in fixed
                or new in self.buffers
                or not any((old, new) in each.in_place for each in rest)
                or not _AccessOrder(rest).may_overwrite(old, new)
            ):
                continue
            self.launches = [_renamed(each, old, new) for each in rest]

    def _allocate_outputs(self, plan: Plan) -> None:
        """Allocate the other results that outlive a replay."""
        for slot, node, at in plan.outputs:
            value = self.nodes[node].outputs[at]
            if id(value) not in self.result.memory:
                made = self.steps.get(slot)
                buffer = made and made[0].allocate(self.gpu, value.nbytes)
                if buffer is None:
                    buffer = self.gpu.allocate(value.nbytes, name="result of a replay")
                self.buffers[slot] = self.result.memory[id(value)] = buffer
                self.result.kept += aligned_size(value.nbytes)

    def _allocate_exchanges(self) -> None:
        """Allocate what host steps take and make, which are used beside launches.

        Values that are not live at once share whole buffers, by which segments tell
        what has to wait for a host step. A step that takes its value elsewhere has a
        buffer for a copy of it, which lives for as long. A value that is a part of what
        the step makes lies there from the start.
        """
        live: dict[Key, _StepValue] = {}
        steps: list[tuple[int, Key]] = []
        gathers: list[int] = []
        within = self._parts_of_results()
        for step, taken, made in self.steps.values():
            for value, makes in ((taken, False), (made, True)):
                slot = self.slots[id(value)]
                taken_there = makes or step.in_place(value.nbytes)
                apart = slot not in self.buffers and slot not in within
                if apart and taken_there:
                    live.setdefault(slot, _StepValue(step, value.nbytes))
        for value in self.trace.graph_inputs:
            slot = self.slots.get(id(value), _HOST)
            place = within.get(slot, (slot, 0))[0]
            if place in live:
                live[place].used(0)
        for at, launch in enumerate(self.launches):
            for slot in (*launch.reads, *launch.writes):
                place = within.get(slot, (slot, 0))[0]
                if place in live:
                    live[place].used(at)
            found = self._step_of(launch)
            if found is not None:
                read = within.get(launch.reads[0], (launch.reads[0], 0))[0]
                key: Key = read
                if read not in live or not found[0].in_place(found[1].nbytes):
                    key = launch.writes[0], read
                    live[key] = _StepValue(found[0], found[1].nbytes)
                    live[key].used(at)
                if found[2].nbytes > found[1].nbytes:
                    gathers.append(len(steps))
                steps.append((at, key))
        sizes: list[float] = [live[key].size for _, key in steps]
        for number in gathers:
            # A layer that is gathered lives no longer than it is used: many would stay.
            stays = live[steps[number][1]].last >= steps[-1][0]
            sizes[number] = 0 if stays else math.inf
        ends = steps_in_flight(sizes)
        for (_, key), end in zip(steps, ends):
            # The step may still take it: what is written there waits for its end.
            last = end == len(steps)
            live[key].used(len(self.launches) if last else steps[end][0])
        for in_place in (False, True):
            kind = {key: x for key, x in live.items() if x.in_place is in_place}
            self._share_buffers(kind)
        for slot, (whole, offset) in within.items():
            self.buffers[slot], self.offsets[slot] = self.buffers[whole], offset

    def _parts_of_results(self) -> dict[int, tuple[int, int]]:
        """Return values that host steps alone take, which lie in what these make.

        Returns
        -------
        dict of int to (int, int)
            By the slot of the value: that of the result, and the offset in bytes.
        """
        readers: dict[int, int] = {}
        for launch in self.launches:
            for slot in launch.reads:
                readers[slot] = readers.get(slot, 0) + 1
        found: dict[int, tuple[int, int]] = {}
        for step, taken, made in self.steps.values():
            slot, whole = self.slots[id(taken)], self.slots[id(made)]
            offset = step.source_within()
            bound = slot in self.buffers or whole in self.buffers
            if offset is None or bound or readers.get(slot) != 1:
                continue
            # As memory of its own would be, so that kernels write vectors.
            aligned = not (offset % GRANULE or taken.nbytes % GRANULE)
            if aligned and step.in_place(taken.nbytes):
                found[slot] = whole, offset
        return found

    def _share_buffers(self, live: dict[Key, _StepValue]) -> None:
        """Allocate buffers for values of steps that take the same kind of memory."""
        ranges = [LiveRange(each.size, each.first, each.last) for each in live.values()]
        chosen, lengths = shared_buffers(ranges)
        for at, size in enumerate(lengths):
            keys = [key for key, place in zip(live, chosen) if place == at]
            makers = {id(live[key].step): live[key].step for key in keys}.values()
            given = (each.allocate(self.gpu, size) for each in makers)
            buffer = next((each for each in given if each is not None), None)
            if buffer is None:
                # Then a copy would gain nothing.
                keys = [key for key in keys if isinstance(key, int)]
                if not keys:
                    continue
                buffer = self.gpu.allocate(size, name="host step")
            self.result.kept += aligned_size(size)
            for key in keys:
                if isinstance(key, int):
                    self.buffers[key] = buffer
                else:
                    self.copies[key[0]] = buffer

    def _place_intermediates(
        self, final_copies: list[tuple[int, vkbackend.Buffer, int]]
    ) -> None:
        """Plan the rest by live ranges, in as few allocations as the driver allows.

        Drivers limit an allocation to 2 to 4 GiB; a large model's plan is longer.
        """
        launches = self.launches
        intervals = barrier_intervals(
            [(launch.reads, launch.writes) for launch in launches]
        )
        end = intervals[-1] + 1
        live_ranges: dict[int, list[int]] = {}
        for launch, time in zip(launches, intervals):
            for slot in (*launch.reads, *launch.writes):
                live_ranges.setdefault(slot, [time, time])[1] = time
        for value in self.trace.graph_inputs:
            if self.slots.get(id(value)) in live_ranges:
                live_ranges[self.slots[id(value)]][0] = 0
        for slot, _, _ in final_copies:
            live_ranges[slot][1] = end
        slots = [slot for slot in live_ranges if slot not in self.buffers]
        ranges = [LiveRange(self.sizes[slot], *live_ranges[slot]) for slot in slots]
        memory_plan = place(
            ranges, self.gpu.info.max_allocation_size // GRANULE * GRANULE
        )
        pieces = [
            self.gpu.allocate(size, name="plan of a replay")
            for size in memory_plan.sizes
        ]
        for slot, piece, offset in zip(slots, memory_plan.pieces, memory_plan.offsets):
            self.buffers[slot], self.offsets[slot] = pieces[piece], offset
        self.result.planned = memory_plan.size
        self.result.alive = peak_live_bytes(ranges)
        self.result.eager = sum(aligned_size(area.size) for area in ranges)

    def _range(self, slot: int) -> vkbackend.Buffer | tuple[vkbackend.Buffer, int, int]:
        if slot not in self.offsets:
            return self.buffers[slot]
        return self.buffers[slot], self.offsets[slot], aligned_size(self.sizes[slot])

    def _record(
        self, plan: Plan, final_copies: list[tuple[int, vkbackend.Buffer, int]]
    ) -> None:
        steps = tuple((launch, False) for launch in self.launches)
        bound = BoundPlan(ExecutionPlan(steps), self.nodes)
        bound.write([self._address(slot) for slot in range(plan.slots)])
        builder = SegmentBuilder(self.gpu)
        for launch, command in zip(self.launches, bound.commands()):
            assert command is not None
            found = self._step_of(launch)
            if found is not None:
                exchange = self._exchange(*found)
                copy = self.copies.get(launch.writes[0])
                if copy is not None:
                    exchange = builder.copied(exchange, copy)
                builder.exchange(exchange)
                continue
            builder.launch(
                [self.buffers[slot] for slot in launch.reads],
                [self.buffers[slot] for slot in launch.writes],
            )
            builder.batch.dispatch(
                launch.pipeline,
                launch.grid,
                command[1],
                [*launch.buffers, *[self._range(slot) for slot in launch.reads]],
                [self._range(slot) for slot in launch.writes],
            )
        builder.finish()
        for slot, buffer, size in final_copies:
            start = self.offsets.get(slot, 0)
            builder.batch.copy(self.buffers[slot], buffer, start, 0, size)
        recording = (
            SegmentedRecording(builder)
            if builder.exchanges
            else self.gpu.record(builder.batch)
        )
        self.result.recording = recording
        bound.add_dynamic(self.result.words, self.nodes, recording.places)
        self.result.words.fix(recording.content, self.trace.actions, self.trace.draws)

    def _exchange(self, step: HostStep, taken: Value, made: Value) -> Exchange:
        """Return a host step with the memory of what it takes and makes."""
        places = [
            (self.buffers[slot], self.offsets.get(slot, 0), value.nbytes)
            for value in (taken, made)
            for slot in [self.slots[id(value)]]
        ]
        return Exchange(step, taken.dtype, *places)

    def _address(self, slot: int) -> int:
        """Return the address of a slot; 0 if no kernel uses it."""
        if slot not in self.buffers:
            return 0
        return self.buffers[slot].address + self.offsets.get(slot, 0)

    def _place_inputs(self) -> None:
        for value in self.trace.graph_inputs:
            slot = self.slots.get(id(value))
            if slot is None or slot not in self.buffers:
                self.result.graph_inputs.append(None)
                continue
            place = self.buffers[slot], self.offsets.get(slot, 0)
            self.result.graph_inputs.append(GraphInput(*place, value.nbytes))


def _renamed(launch: Launch, old: int, new: int) -> Launch:
    """Return the launch with slot `new` in place of `old`."""
    if old not in launch.reads and old not in launch.writes:
        return launch

    def number(slot: int) -> int:
        return new if slot == old else slot

    addresses = [(number(slot), offset) for slot, offset in launch.addresses]
    return launch._replace(
        addresses=tuple(addresses),
        reads=tuple(map(number, launch.reads)),
        writes=tuple(map(number, launch.writes)),
        in_place=tuple([(number(a), number(b)) for a, b in launch.in_place]),
        copies=launch.copies and (number(launch.copies[0]), number(launch.copies[1])),
    )


def steps_in_flight(sizes: Sequence[float]) -> list[int]:
    """Return up to which of the host steps that follow each may still take its value.

    Parameters
    ----------
    sizes : sequence of float
        Bytes that each takes; infinite for one that no more than `STEPS_BEHIND` follow.

    Returns
    -------
    list of int
        Number of the first one that comes after; that of all if there is none.
    """
    largest = max([each for each in sizes if each != math.inf], default=0)
    most = min(BYTES_BEHIND, largest)
    found = []
    for first in range(len(sizes)):
        stop = min(first + STEPS_BEHIND, len(sizes))
        total = sum(sizes[first:stop])
        while stop < len(sizes) and total + sizes[stop] <= most:
            total += sizes[stop]
            stop += 1
        found.append(stop)
    return found


class _AccessOrder:
    """First write and last read of each slot by launches in order."""

    def __init__(self, launches: list[Launch]) -> None:
        self._launches = launches
        self._last_reads: dict[int, int] = {}
        self._first_writes: dict[int, int] = {}
        for k, launch in enumerate(launches):
            self._last_reads.update(dict.fromkeys(launch.reads, k))
            for slot in launch.writes:
                self._first_writes.setdefault(slot, k)

    def may_overwrite(self, old: int, new: int) -> bool:
        """Whether slot `new` may alias `old`: every read comes before the write.

        An element-wise kernel may do both in place.
        """
        last, first = self._last_reads.get(old, -1), self._first_writes[new]
        in_place = last == first and (old, new) in self._launches[last].in_place
        return last < first or in_place
