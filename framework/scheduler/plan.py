"""Planning one graph: kernels in order, their arguments, and memory by slots."""

# Longer than most: a plan and what lowers a graph to it share one numbering of slots.

from __future__ import annotations

import itertools
import weakref
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import vkbackend

from ..base.dtype import DType
from ..base.shape import Shape
from ..base.trace_hooks import Changing, StreamWord
from ..codegen.elementwise_variants import build_chosen_kernel
from ..codegen.epilogue_fusion import NO_EPILOGUE, Joined, join_products
from ..codegen.glsl.aliasing import arguments_in_memory, overlays, results_over_operands
from ..codegen.glsl.rowwise import emit_any
from ..codegen.ir.program import Program
from ..codegen.lower_elementwise import FusedKernel
from ..codegen.lower_rowwise import row_space, subgroup_of
from ..codegen.partitioner import SWITCHED_OFF, Item, boundaries, group
from ..codegen.rematerialize import again, steps_of
from ..codegen.rowwise_variants import build_chosen_rows
from ..ir.kernel_call import (
    BufferOffset,
    Dispatch,
    Grid,
    PersistentScratch,
    Scratch,
    device_macros,
)
from ..ir.lazy_graph import Node, Value
from .launch import Address, Draft, Launch, Running, lasting, launches, running


class Note(NamedTuple):
    """One operation, as reports name it.

    Attributes
    ----------
    reads, slots : tuple of int
        Operations whose results it reads; negative numbers are values from outside.
        Slots of its results.
    held : bool
        Whether somebody holds a result.
    """

    op: str
    shape: Shape
    dtype: DType
    reads: tuple[int, ...]
    held: bool
    slots: tuple[int, ...]


@dataclass(eq=False)
class Plan:
    """A schedule.

    Attributes
    ----------
    slots : int
        Values and scratch areas in all.
    inputs, outputs : list of (int, int, int)
        Slot, node, and position among the node's inputs or outputs: the values that
        come from outside, and those that stay.
    launches : list of Launch
        In execution order.
    running : Running
        How they run in one batch.
    units : list of list of int
        Which nodes each kernel runs.
    again : dict of int to list of int
        What kernels compute again, by their first node; see `codegen.rematerialize`.
    device : str
        Where it runs.
    number : int
        Plans are counted as they are built.
    notes : list of Note
        The nodes.
    items : list of Item
        What the rules of fusion saw, in the order of the nodes that run; empty if these
        were not to join.
    sources : dict of int to str
        GLSL of generated kernels, by their first node.
    packed : object
        Arguments packed for the next run; see `executor`.
    """

    slots: int
    inputs: list[tuple[int, int, int]]
    outputs: list[tuple[int, int, int]] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    running: Running = field(default_factory=Running)
    units: list[list[int]] = field(default_factory=list)
    again: dict[int, list[int]] = field(default_factory=dict)
    device: str = ""
    number: int = field(default_factory=itertools.count().__next__)
    notes: list[Note] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    sources: dict[int, str] = field(default_factory=dict)
    packed: Any = None

    def boundaries(self) -> list[tuple[int, int, str]]:
        """Return pairs of units of which one reads the other, and why they are two."""
        numbers = sorted(number for unit in self.units for number in unit)
        place = {number: position for position, number in enumerate(numbers)}
        if not self.items:
            return self._all_apart()
        return boundaries(self.items, [[place[n] for n in unit] for unit in self.units])

    def _all_apart(self) -> list[tuple[int, int, str]]:
        """Return every pair of units of which one reads the other."""
        unit_of = {at: number for number, unit in enumerate(self.units) for at in unit}
        pairs = {
            (unit_of[read], unit_of[at])
            for at in unit_of
            for read in self.notes[at].reads
            if read in unit_of and unit_of[read] != unit_of[at]
        }
        return [(first, second, SWITCHED_OFF) for first, second in sorted(pairs)]


_live: weakref.WeakSet[Plan] = weakref.WeakSet()
_watching: list[list[Plan]] = []


def live_plans() -> list[Plan]:
    """Return the plans that somebody still keeps, oldest first."""
    return sorted(_live, key=lambda plan: plan.number)


@contextmanager
def built_plans() -> Iterator[list[Plan]]:
    """Collect the plans that are built inside, whether or not somebody keeps them."""
    found: list[Plan] = []
    _watching.append(found)
    try:
        yield found
    finally:
        # By identity: equal lists are not the same one.
        _watching[:] = [each for each in _watching if each is not found]


def build_plan(
    gpu: vkbackend.Device,
    nodes: Sequence[Node],
    slots: dict[int, int],
    *,
    fusing: bool = True,
    state: Collection[int] | None = None,
    held: Collection[int] | None = None,
    spare: Collection[int] = (),
) -> Plan:
    """Group nodes into kernels, build their pipelines and lay out their arguments.

    Parameters
    ----------
    gpu : vkbackend.Device
        Where they run.
    nodes : sequence of Node
        A pending graph in recorded order.
    slots : dict of int to int
        A number for each value of the graph, by `id`.
    fusing : bool, default True
        Whether operations may join one kernel.
    state : collection of int or None
        For a replay, the `id` of values that it may write over once they have been
        read.
    held : collection of int or None
        The `id` of values that somebody holds, which may change meanwhile: garbage is
        collected at any moment. None finds out.
    spare : collection of int
        The `id` of values that nobody will read again, whose memory results may take.
    """
    if held is None:
        held = {
            id(each) for node in nodes for each in node.outputs if each.external_refs
        }
    return _Builder(gpu, nodes, slots, state, held, spare).build(fusing)


class _Builder:
    def __init__(
        self,
        gpu: vkbackend.Device,
        nodes: Sequence[Node],
        slots: dict[int, int],
        state: Collection[int] | None,
        held: Collection[int],
        spare: Collection[int],
    ) -> None:
        self.gpu = gpu
        self.nodes = nodes
        self.slots = slots
        self.state = state
        self.held = held
        self.spare = spare if state is None else state
        self.wide = gpu.info.kind == "software" and gpu.info.shader_int64
        self.producer = {
            id(value): number
            for number, node in enumerate(nodes)
            for value in node.outputs
        }
        self.plan = Plan(len(slots), [], device=gpu.info.name)
        self.drafts: list[Draft] = []

    def build(self, fusing: bool) -> Plan:
        numbers = self._alive()
        units = self._units(numbers) if fusing else [[number] for number in numbers]
        steps = steps_of(self.nodes, numbers, self.producer, self.held)
        self.plan.again = again(steps, units) if fusing else {}
        wanted = self._wanted(units)
        joined = self._joined(units, wanted) if fusing else {}
        products = {row.product for row in joined.values()}
        units = [unit for unit in units if unit[0] not in products]
        for unit in units:
            row = joined.get(unit[0])
            if row is not None:
                self.plan.sources[row.product] = row.source
                self._plan_kernels(self.nodes[row.product], row)
            elif len(unit) > 1 or self._is_generated(self.nodes[unit[0]]):
                self._plan_fused(unit, wanted)
            else:
                self._plan_kernels(self.nodes[unit[0]])
        self.plan.units = [
            [joined[unit[0]].product, *unit] if unit[0] in joined else unit
            for unit in units
        ]
        self._find_inputs(numbers)
        self.plan.launches = launches(self.gpu, self.drafts)
        kept = {slot for slot, _, _ in self.plan.outputs}
        self.plan.running = running(self.gpu, self.plan.launches, kept)
        self.plan.notes = [self._note(node) for node in self.nodes]
        _live.add(self.plan)
        for found in _watching:
            found.append(self.plan)
        return self.plan

    def _is_generated(self, node: Node) -> bool:
        """Whether an operation runs in a generated kernel, also when it is alone.

        A reduction that may be fused is, so that its order of sums is always the same.
        """
        return node.op.is_elementwise or row_space(node, self.gpu.info) is not None

    def _joined(self, units: list[list[int]], wanted: set[int]) -> dict[int, Joined]:
        info, state = self.gpu.info, self.state or ()
        return join_products(info, self.nodes, units, wanted, self.held, state)

    def _note(self, node: Node) -> Note:
        """Return what reports say of a node."""
        reads = [
            self.producer.get(id(value), -1 - self.slots[id(value)])
            for value, _ in node.inputs
        ]
        held = any(id(value) in self.held for value in node.outputs)
        slots = tuple(self.slots[id(value)] for value in node.outputs)
        dtype, shape = node.outputs[0].dtype, node.layouts[0].shape
        return Note(node.op.name, shape, dtype, tuple(reads), held, slots)

    def _units(self, numbers: list[int]) -> list[list[int]]:
        """Return which nodes share a kernel."""
        place = {number: position for position, number in enumerate(numbers)}
        self.plan.items = [self._item(number, place) for number in numbers]
        groups = group(self.plan.items)
        return [[numbers[member] for member in members] for members in groups]

    def _alive(self) -> list[int]:
        """Nodes with a result that somebody holds, and all that these need."""
        alive: set[int] = set()
        for number in reversed(range(len(self.nodes))):
            node = self.nodes[number]
            if number in alive or any(id(value) in self.held for value in node.outputs):
                alive.add(number)
                for value, _ in node.inputs:
                    if id(value) in self.producer:
                        alive.add(self.producer[id(value)])
        return sorted(alive)

    def _item(self, number: int, place: dict[int, int]) -> Item:
        node = self.nodes[number]
        reads = []
        outside = sum(id(value) in self.held for value in node.outputs)
        for value, layout in node.inputs:
            source = self.producer.get(id(value))
            if source is None:
                outside += 1
            else:
                reads.append((place[source], layout))
        if node.op.is_elementwise:
            alone = self._writes_alone(node.outputs[0].dtype)
            shape = node.layouts[0].shape
            return Item(shape, tuple(reads), outside, alone=alone)
        space = row_space(node, self.gpu.info)
        if space is None:
            return Item(None, tuple(reads), outside)
        return Item(space.shape, tuple(reads), outside, space.split)

    def _writes_alone(self, dtype: DType) -> bool:
        """Whether kernels can write one element without its neighbours."""
        feature, info = dtype.storage_feature, self.gpu.info
        return dtype.itemsize >= 4 or feature is None or bool(getattr(info, feature))

    def _wanted(self, units: list[list[int]]) -> set[int]:
        """Values that leave their kernel: held, or read by another one."""
        wanted: set[int] = set()
        for unit in units:
            members = {*unit, *self.plan.again.get(unit[0], ())}
            for node in [self.nodes[number] for number in members]:
                results = map(id, node.outputs)
                wanted.update(value for value in results if value in self.held)
                for value, _ in node.inputs:
                    source = self.producer.get(id(value))
                    if source is not None and source not in members:
                        wanted.add(id(value))
        return wanted

    def _plan_fused(self, unit: list[int], wanted: set[int]) -> None:
        first, more = unit[0], self.plan.again.get(unit[0], [])
        for number in more:
            wanted = wanted.difference(map(id, self.nodes[number].outputs))
        unit = sorted([*more, *unit])
        nodes = [self.nodes[number] for number in unit]
        numbers = [number for node in nodes for _, number in node.scalars]
        changes = any(isinstance(number, Changing | StreamWord) for number in numbers)
        # Blocks need arguments that are pushed.
        lanes = subgroup_of(self.gpu.info) if self.wide and not changes else 0
        if any(node.op.reduction for node in nodes):
            kernel = build_chosen_rows(nodes, wanted, self.gpu.info, lanes=lanes)
        else:
            kernel = build_chosen_kernel(nodes, wanted, self.gpu.info, lanes=lanes)
        inputs = {
            name: (self.slots[id(value)], offset)
            for name, value, offset in kernel.inputs
        }
        outputs = {name: (self.slots[id(value)], 0) for name, value in kernel.outputs}
        over = tuple(
            (self.slots[id(value)], self.slots[id(result)])
            for value, result in overlays(kernel, self.spare)
        )
        source = self.plan.sources[first] = self._source(kernel, changes, bool(over))
        # Without `self` and nodes, which a draft would keep until cycles are collected.
        gpu, wide, macros = self.gpu, self.wide, device_macros(self.gpu.info)
        program, rounds = kernel.program, kernel.rounds
        title, constants = f"fused/{kernel.name}", {"LOCAL_X": kernel.workgroup}

        def pipeline(siblings: bool) -> vkbackend.Pipeline:
            text = source
            if siblings:
                assert isinstance(program, Program)
                text = emit_any(program, wide, rounds, siblings=True)
                text = results_over_operands(text) if over else text
            return gpu.pipeline(
                title,
                source=text,
                defines=macros,
                constants=constants,
                contract=False,
            )

        self._add(
            pipeline,
            kernel.grid,
            inputs | outputs,
            dict(kernel.words),
            {
                f"s{k}": (unit[member], at)
                for k, (member, at) in enumerate(kernel.scalars)
            },
            reads=[slot for slot, _ in inputs.values()],
            writes=[slot for slot, _ in outputs.values()],
            allocate=self._memory([value for _, value in kernel.outputs]),
            over=over,
            program=(program, kernel.workgroup, bool(over))
            if isinstance(program, Program) and not kernel.lanes
            else None,
        )

    def _source(self, kernel: FusedKernel, changes: bool, over: bool) -> str:
        """Return the kernel's GLSL, of a kind that can be replayed if it must be."""
        source = emit_any(kernel.program, self.wide, kernel.rounds, kernel.lanes)
        source = arguments_in_memory(source) if changes else source
        return results_over_operands(source) if over else source

    def _plan_kernels(self, node: Node, joined: Joined | None = None) -> None:
        """Plan an operation that has a hand-written kernel, or several in sequence."""
        names = node.op.tensor_names(node.params)
        inputs = {
            name: (self.slots[id(value)], layout.offset * value.dtype.itemsize)
            for name, (value, layout) in zip(names, node.inputs)
        }
        outputs = {
            name: (self.slots[id(value)], 0)
            for name, value in zip(node.op.output_names, node.outputs)
        }
        if joined is None:
            allocate = self._memory(node.outputs)
            input_specs, params = node.op.input_specs(node), dict(node.params)
            dispatches = node.op.dispatches(self.gpu.info, input_specs, params)
        else:
            results = [value for _, value in joined.kernel.outputs]
            # The product itself has no memory, and its address is not used.
            outputs["out"] = (self.slots[id(results[0])], 0)
            allocate, dispatches = self._memory(results), joined.dispatches
        scratch: dict[Scratch, Address] = {}
        for dispatch in dispatches:
            for value in dispatch.push.values():
                area = value.memory if isinstance(value, BufferOffset) else value
                if isinstance(area, Scratch) and area not in scratch:
                    scratch[area] = (self.plan.slots, 0)
                    allocate.append((self.plan.slots, area.size))
                    self.plan.slots += 1
            epilogue = joined if dispatch is dispatches[-1] else None
            self._plan_dispatch(dispatch, inputs, outputs, scratch, allocate, epilogue)
            allocate = []

    def _plan_dispatch(
        self,
        dispatch: Dispatch,
        inputs: Mapping[str, Address],
        outputs: Mapping[str, Address],
        scratch: Mapping[Scratch, Address],
        allocate: list[tuple[int, int]],
        joined: Joined | None = None,
    ) -> None:
        addresses: dict[str, Address] = {}
        words: dict[str, float] = {}
        reads, writes, held = [], [], []
        for name, value in dispatch.push.items():
            if isinstance(value, int | float):
                words[name] = value
                continue
            if isinstance(value, PersistentScratch):
                held.append(lasting(self.gpu, value.size))
                words[name] = held[-1].address
                continue
            memory, offset = value if isinstance(value, BufferOffset) else (value, 0)
            if isinstance(memory, Scratch):
                slot, start = scratch[memory]
                reads.append(slot)
                writes.append(slot)
            elif memory in inputs:
                slot, start = inputs[memory]
                reads.append(slot)
            else:
                slot, start = outputs[memory]
                writes.append(slot)
            addresses[name] = (slot, start + offset)
        name, source, more = dispatch.kernel, None, NO_EPILOGUE
        if joined is not None:
            name, source = f"{name}+{joined.kernel.name}", joined.source
            more = joined.arguments(self.slots)
        macros = {**device_macros(self.gpu.info), **dispatch.defines}
        pipeline = self.gpu.pipeline(
            name,
            source=source,
            defines=macros,
            constants=dispatch.constants,
            contract=joined is None,
        )
        self._add(
            lambda _: pipeline,
            dispatch.grid,
            addresses | more.used | more.written,
            words | more.words,
            more.scalars,
            [*reads, *(slot for slot, _ in more.used.values())],
            [*writes, *(slot for slot, _ in more.written.values())],
            allocate,
            held=held,
        )

    def _add(
        self,
        pipeline: Callable[[bool], vkbackend.Pipeline],
        grid: Grid,
        addresses: Mapping[str, Address],
        words: Mapping[str, float],
        scalars: Mapping[str, tuple[int, int]],
        reads: Sequence[int],
        writes: Sequence[int],
        allocate: Sequence[tuple[int, int]],
        over: tuple[tuple[int, int], ...] = (),
        program: Hashable | None = None,
        held: Sequence[vkbackend.Buffer] = (),
    ) -> None:
        draft = Draft(
            pipeline,
            grid,
            addresses,
            words,
            scalars,
            tuple(dict.fromkeys(reads)),
            tuple(dict.fromkeys(writes)),
            tuple(allocate),
            over,
            program,
            tuple(held),
        )
        self.drafts.append(draft)

    def _memory(self, values: Sequence[Value]) -> list[tuple[int, int]]:
        return [(self.slots[id(v)], v.numel * v.dtype.itemsize) for v in values]

    def _find_inputs(self, numbers: Sequence[int]) -> None:
        seen = set()
        for number in numbers:
            for at, (value, _) in enumerate(self.nodes[number].inputs):
                if id(value) not in self.producer and id(value) not in seen:
                    seen.add(id(value))
                    self.plan.inputs.append((self.slots[id(value)], number, at))
            for at, value in enumerate(self.nodes[number].outputs):
                if id(value) in self.held:
                    self.plan.outputs.append((self.slots[id(value)], number, at))
