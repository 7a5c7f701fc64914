"""Plan of a graph: kernels in order, their arguments, and memory by slots."""

# Longer than most: a plan and the lowering of a graph to it share one slot numbering.

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
from operator import itemgetter

import vkbackend
from vkbackend.collector import collector_paused

from ..base.dtype import DType
from ..base.index_checks import slot_of
from ..base.trace_hooks import DYNAMIC
from ..codegen.epilogue_fusion import (
    NO_EPILOGUE,
    FusedEpilogue,
    dispatch_class,
    fuse_epilogues,
)
from ..codegen.glsl.aliasing import in_place_pairs
from ..codegen.norm_prologue import NormPrologue, fuse_norms
from ..codegen.partitioner import SWITCHED_OFF, FusionNode, boundaries, group
from ..codegen.rematerialize import operations_of, rematerialised
from ..codegen.rewrites import rewritten
from ..codegen.rowwise_kernel import row_space, subgroup_of
from ..ir.host_step import host_steps
from ..ir.kernel_call import (
    Dispatch,
    Grid,
    IndexSlot,
    Scratch,
    SortedArguments,
    device_macros,
    sorted_arguments,
)
from ..ir.lazy_graph import Node, Value
from .bound_plan import BoundPlan
from .launch import (
    Address,
    ExecutionPlan,
    JoinedCall,
    KernelCall,
    Launch,
    execution_plan,
    launches,
    persistent_scratch,
)
from .lowering_cache import LoweringCache
from .node_table import NodeSummary, NodeTable


@dataclass(eq=False)
class Plan:
    """Plan: the kernels of a graph, as launches over slots.

    Attributes
    ----------
    slots : int
        Values and scratch areas in all.
    inputs, outputs : list of (int, int, int)
        Slot, node, and position among the node's inputs or outputs: the values that
        come from outside, and the live-out ones.
    launches : list of Launch
        In execution order.
    execution_plan : ExecutionPlan
        Their barriers and memory in one batch.
    kernel_groups : list of list of int
        Nodes of each kernel.
    rematerialised : dict of int to list of int
        Nodes rematerialised in each kernel, by its first node; see
        `codegen.rematerialize`.
    device : str
        Device of the plan.
    number : int
        Serial number of the plan.
    table : NodeTable or None
        The nodes.
    spaces : list of FusionNode
        Nodes as the partitioner saw them, without their operands, in the order of the
        nodes that run; empty if fusion was off.
    varies : bool
        Whether steps of loops were found, for other numbers of them.
    sources : dict of int to str
        GLSL of generated kernels, by their first node.
    bound_plan : BoundPlan or None
        Its packed arguments, once it has run.
    places : tuple of list of int
        Addresses of the memory that it was given, the last time and the one before.
    """

    slots: int
    inputs: list[tuple[int, int, int]]
    outputs: list[tuple[int, int, int]] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    execution_plan: ExecutionPlan = field(default_factory=ExecutionPlan)
    kernel_groups: list[list[int]] = field(default_factory=list)
    rematerialised: dict[int, list[int]] = field(default_factory=dict)
    device: str = ""
    number: int = field(default_factory=itertools.count().__next__)
    table: NodeTable | None = None
    spaces: list[FusionNode] = field(default_factory=list)
    varies: bool = True
    sources: dict[int, str] = field(default_factory=dict)
    bound_plan: BoundPlan | None = None
    places: tuple[list[int], ...] = ()

    @property
    def summaries(self) -> list[NodeSummary]:
        """The nodes, for reports."""
        return [] if self.table is None else self.table.summaries()

    def boundaries(self) -> list[tuple[int, int, str]]:
        """Return dependent pairs of kernel groups, and why each pair was not fused."""
        numbers = sorted(
            number for kernel_group in self.kernel_groups for number in kernel_group
        )
        place = {number: position for position, number in enumerate(numbers)}
        if not self.spaces or self.table is None:
            return self._all_apart()
        return boundaries(
            self.table.fusion_nodes(numbers, self.spaces, self.varies),
            [[place[n] for n in kernel_group] for kernel_group in self.kernel_groups],
        )

    def _all_apart(self) -> list[tuple[int, int, str]]:
        """Return every dependent pair of kernel groups."""
        group_of = {
            at: number
            for number, kernel_group in enumerate(self.kernel_groups)
            for at in kernel_group
        }
        pairs = {
            (group_of[read], group_of[at])
            for at in group_of
            for read in self.summaries[at].reads
            if read in group_of and group_of[read] != group_of[at]
        }
        return [(first, second, SWITCHED_OFF) for first, second in sorted(pairs)]


_live: weakref.WeakSet[Plan] = weakref.WeakSet()
_plan_collectors: list[list[Plan]] = []


def live_plans() -> list[Plan]:
    """Return the plans that are still referenced, oldest first."""
    return sorted(_live, key=lambda plan: plan.number)


@contextmanager
def built_plans() -> Iterator[list[Plan]]:
    """Collect the plans that are built inside, referenced or not."""
    found: list[Plan] = []
    _plan_collectors.append(found)
    try:
        yield found
    finally:
        # By identity: equal lists are not the same one.
        _plan_collectors[:] = [each for each in _plan_collectors if each is not found]


def build_plan(
    gpu: vkbackend.Device,
    nodes: Sequence[Node],
    slots: dict[int, int],
    *,
    fusing: bool = True,
    state: Collection[int] | None = None,
    external: Collection[int] | None = None,
    donated: Collection[int] = (),
    varies: bool = True,
    cache: LoweringCache | None = None,
) -> Plan:
    """Group nodes into kernels, build their pipelines and lay out their arguments.

    Parameters
    ----------
    gpu : vkbackend.Device
        Device of the plan.
    nodes : sequence of Node
        A lazy graph in recorded order.
    slots : dict of int to int
        A number for each value of the graph, by `id`.
    fusing : bool, default True
        Whether nodes may be fused.
    state : collection of int or None
        For a replay, the `id` of state values, which it may overwrite once they have
        been read.
    external : collection of int or None
        The `id` of values with external references, which may change meanwhile:
        garbage is collected at any moment. None derives them.
    donated : collection of int
        The `id` of dead inputs, whose memory results may alias.
    varies : bool, default True
        Whether other graphs have other numbers of a loop's steps; see
        `codegen.repeated_steps`.
    cache : LoweringCache or None
        What other plans have in common with it. None finds it out anew.
    """
    if external is None:
        external = {
            id(each) for node in nodes for each in node.outputs if each.external_refs
        }
    cache = cache or LoweringCache()
    # What it makes on the way is garbage at its end: promoted meanwhile to the oldest
    # objects, it would have these looked through, which took a third of the time.
    with collector_paused():
        builder = _Builder(gpu, nodes, slots, state, external, donated, varies, cache)
        return builder.build(fusing)


class _Builder:
    def __init__(
        self,
        gpu: vkbackend.Device,
        nodes: Sequence[Node],
        slots: dict[int, int],
        state: Collection[int] | None,
        external: Collection[int],
        donated: Collection[int],
        varies: bool,
        cache: LoweringCache,
    ) -> None:
        self.gpu = gpu
        nodes = rewritten(nodes, external, self._is_generated)
        self.nodes = nodes
        self.slots = slots
        self.state = state
        self.external = external
        self.donated = donated if state is None else state
        self.free = {slots[key] for key in self.donated if key in slots}
        # What the plan makes and nobody else refers to is dead after its readers.
        made = [id(each) for node in nodes for each in node.outputs]
        self.free.update([slots[key] for key in made if key not in external])
        self.wide_words = gpu.info.target.uniform_loads
        self.table = NodeTable(nodes, slots, external)
        self.plan = Plan(len(slots), [], device=gpu.name, varies=varies)
        self.calls: list[KernelCall] = []
        self.norms: dict[int, list[NormPrologue]] = {}
        # Equal groups of nodes, as those of a loop's steps are, have one kernel.
        self.cache = cache
        # Index slots of kernels: node, words of the call, argument.
        self.index_slots: list[tuple[int, dict[str, float], str, IndexSlot]] = []

    def build(self, fusing: bool) -> Plan:
        table = self.table
        numbers = table.live_nodes()
        kernel_groups = (
            self._kernel_groups(numbers) if fusing else [[number] for number in numbers]
        )
        operations = operations_of(self.nodes, numbers, table.sources, table.external)
        self.plan.rematerialised = (
            rematerialised(operations, kernel_groups) if fusing else {}
        )
        live_out = self._live_out(kernel_groups)
        fused = self._fuse_epilogues(kernel_groups, live_out) if fusing else {}
        products = {row.product for row in fused.values()}
        self.norms = self._fuse_norms(kernel_groups, fused) if fusing else {}
        products.update([row.norm for rows in self.norms.values() for row in rows])
        kernel_groups = [
            kernel_group
            for kernel_group in kernel_groups
            if kernel_group[0] not in products
        ]
        for kernel_group in kernel_groups:
            row = fused.get(kernel_group[0])
            if row is not None:
                self.plan.sources[row.product] = row.source
                self._plan_kernels(row.product, row)
            elif len(kernel_group) > 1 or self._is_generated(
                self.nodes[kernel_group[0]]
            ):
                self._plan_fused(kernel_group, live_out)
            else:
                self._plan_kernels(kernel_group[0])
        self.plan.kernel_groups = [
            [fused[kernel_group[0]].product, *kernel_group]
            if kernel_group[0] in fused
            else kernel_group
            for kernel_group in kernel_groups
        ]
        self._name_norms()
        self._find_inputs(numbers)
        self._assign_index_slots()
        # Only replays run host steps.
        steps = [] if self.state is None else host_steps(self.nodes)
        host = {self.slots[id(each.outputs[0])] for each, _ in steps}
        self.plan.launches = launches(self.gpu, self.calls, self.cache.packings, host)
        if self.state is None:
            kept = {slot for slot, _, _ in self.plan.outputs}
            self.plan.execution_plan = execution_plan(
                self.gpu, self.plan.launches, kept
            )
        else:
            # A replay has barriers and memory of its own.
            self.plan.execution_plan = ExecutionPlan(
                tuple((each, False) for each in self.plan.launches if all(each.grid))
            )
        self.plan.table = table
        _live.add(self.plan)
        for found in _plan_collectors:
            found.append(self.plan)
        return self.plan

    def _is_generated(self, node: Node) -> bool:
        """Whether a node runs in a generated kernel, also when it is alone.

        A fusible reduction always does, so that its summation order is the same.
        """
        return node.op.is_elementwise or row_space(node, self.gpu.info) is not None

    def _fuse_epilogues(
        self, kernel_groups: list[list[int]], live_out: set[int]
    ) -> dict[int, FusedEpilogue]:
        info, state = self.gpu.info, self.state or ()
        return fuse_epilogues(
            info,
            self.nodes,
            kernel_groups,
            live_out,
            self.external,
            state,
            self.cache.epilogues,
        )

    def _fuse_norms(
        self, kernel_groups: list[list[int]], fused: dict[int, FusedEpilogue]
    ) -> dict[int, list[NormPrologue]]:
        epilogues = {row.product: row for row in fused.values()}

        def dispatches(number: int) -> Sequence[Dispatch]:
            row = epilogues.get(number)
            return (
                self._dispatches(self.nodes[number]) if row is None else row.dispatches
            )

        return fuse_norms(self.nodes, kernel_groups, fused, self.external, dispatches)

    def _name_norms(self) -> None:
        """Add each norm that products take over to the first one's kernel group."""
        named = set()
        for kernel_group in self.plan.kernel_groups:
            for norm in self.norms.get(kernel_group[0], ()):
                if norm.norm not in named:
                    named.add(norm.norm)
                    kernel_group.insert(0, norm.norm)

    def _kernel_groups(self, numbers: list[int]) -> list[list[int]]:
        """Return the kernel groups of nodes."""
        spaces, plan = self.cache.spaces, self.plan
        for number in numbers:
            signature = self.table.signatures[number]
            space = spaces[signature]
            if space is None:
                space = spaces[signature] = self._space_of(self.nodes[number])
            plan.spaces.append(space)
        groups = group(self.table.fusion_nodes(numbers, plan.spaces, plan.varies))
        return [[numbers[member] for member in members] for members in groups]

    def _space_of(self, node: Node) -> FusionNode:
        """Return a node without its operands: the same for nodes of one signature."""
        if node.op.is_elementwise:
            alone = self._writes_alone(node.outputs[0].dtype)
            shape = node.layouts[0].shape
            return FusionNode(shape, (), 0, alone=alone, kind=node.signature)
        space = row_space(node, self.gpu.info)
        if space is None:
            return FusionNode(None, (), 0)
        return FusionNode(space.shape, (), 0, space.split)

    def _writes_alone(self, dtype: DType) -> bool:
        """Whether kernels can write one element without its neighbours."""
        feature, info = dtype.storage_feature, self.gpu.info
        return dtype.itemsize >= 4 or feature is None or bool(getattr(info, feature))

    def _live_out(self, kernel_groups: list[list[int]]) -> set[int]:
        """Return live-out values of kernels: external, or read by another one."""
        live_out: set[int] = set()
        nodes, table, more = self.nodes, self.table, self.plan.rematerialised
        for kernel_group in kernel_groups:
            members = {*kernel_group, *more.get(kernel_group[0], ())}
            for number in members:
                if table.external[number]:
                    results = map(id, nodes[number].outputs)
                    live_out.update([each for each in results if each in self.external])
                for value, source in zip(nodes[number].values, table.sources[number]):
                    if source >= 0 and source not in members:
                        live_out.add(id(value))
        return live_out

    def _plan_fused(self, kernel_group: list[int], live_out: set[int]) -> None:
        first, more = kernel_group[0], self.plan.rematerialised.get(kernel_group[0])
        if more:
            for number in more:
                live_out = live_out.difference(map(id, self.nodes[number].outputs))
            kernel_group = sorted([*more, *kernel_group])
        nodes = [self.nodes[number] for number in kernel_group]
        numbers = [number for node in nodes for number in node.numbers]
        changes = any([isinstance(number, DYNAMIC) for number in numbers])
        # Uniform vector loads need push constants.
        lanes = subgroup_of(self.gpu.info) if self.wide_words and not changes else 0
        kernel = self.cache.kernel_of(self.gpu, nodes, live_out, lanes)
        slots, inputs, outputs = self.slots, kernel.inputs, kernel.outputs
        in_place = tuple(
            [
                (slots[id(value)], slots[id(result)])
                for value, result in in_place_pairs(kernel, self.donated)
            ]
        )
        self.plan.sources[first] = self.cache.source(
            kernel, changes, bool(in_place), self.wide_words
        )
        addresses = {name: (slots[id(value)], at) for name, value, at in inputs}
        addresses |= {name: (slots[id(value)], 0) for name, value in outputs}
        scalars = [(kernel_group[member], at) for member, at in kernel.scalars]
        program = kernel.program
        self._add(
            self.cache.pipeline_maker(self.gpu, kernel, changes, bool(in_place)),
            kernel.grid,
            addresses,
            dict(kernel.words),
            {f"s{k}": scalar for k, scalar in enumerate(scalars)},
            reads=[slots[id(value)] for _, value, _ in inputs],
            writes=[slots[id(value)] for _, value in outputs],
            allocate=self._memory([value for _, value in outputs]),
            in_place=in_place,
            program=(self.cache.number_of(program), kernel.workgroup, bool(in_place))
            if not program.group and not program.lanes
            else None,
        )

    def _assign_index_slots(self) -> None:
        """Set the addresses of index slots, in the order of the nodes."""
        for _, words, name, wanted in sorted(self.index_slots, key=itemgetter(0)):
            record = self.gpu.status_record()
            slot = slot_of(wanted.site, wanted.size, record)
            words[name] = record.address + 4 * slot

    def _plan_kernels(self, number: int, fused: FusedEpilogue | None = None) -> None:
        """Plan a node that has a hand-written kernel, or several in sequence."""
        node, slots = self.nodes[number], self.table.reads[number]
        inputs = {
            name: (slot, offset)
            for (name, offset), slot in zip(self._operands(node), slots)
        }
        outputs = {
            name: (slot, 0)
            for name, slot in zip(node.op.output_names, self.table.writes[number])
        }
        if fused is None:
            allocate = self._memory(node.outputs)
            dispatches = self._dispatches(node)
        else:
            results = [value for _, value in fused.kernel.outputs]
            # A fused product has no memory, and its address is not used.
            outputs["out"] = (self.slots[id(results[0])], 0)
            allocate, dispatches = self._memory(results), fused.dispatches
        if number in self.norms:
            last = self._with_norms(number, dispatches[-1], inputs)
            dispatches = [*dispatches[:-1], last]
        scratch: dict[Scratch, Address] = {}
        changed: dict[int, int | None] = {}
        for dispatch in dispatches:
            arguments = self._arguments(dispatch)
            for area in arguments.scratch:
                if area not in scratch:
                    scratch[area] = (self.plan.slots, 0)
                    allocate.append((self.plan.slots, area.size))
                    self.plan.slots += 1
            epilogue = fused if dispatch is dispatches[-1] else None
            words = self._plan_dispatch(
                dispatch,
                arguments,
                inputs,
                outputs,
                scratch,
                allocate,
                changed,
                epilogue,
            )
            if dispatch.copies is not None:
                source, target = dispatch.copies
                whole = _is_whole(node, source, target)
                changed[outputs[target][0]] = inputs[source][0] if whole else None
            for name, wanted in arguments.index_slots:
                self.index_slots.append((number, words, name, wanted))
            allocate = []

    def _with_norms(
        self, number: int, last: Dispatch, inputs: dict[str, Address]
    ) -> Dispatch:
        """Return a dispatch with its norms, whose operands join `inputs`."""
        norms = self.norms[number]
        for norm in norms:
            (_, rows), (_, gamma) = self._operands(self.nodes[norm.norm])
            slots, (_, within) = self.table.reads[norm.norm], inputs[norm.rows]
            inputs[norm.rows] = slots[0], rows + within
            inputs[norm.weight] = slots[1], gamma
        key = "norm", id(last), *((each.argument, each.eps) for each in norms)
        found = self.cache.dispatches.get(key)
        if found is None:
            normed = last
            for norm in norms:
                normed = norm.dispatch(normed)
            found = self.cache.dispatches[key] = [normed, last]
        return found[0]

    def _operands(self, node: Node) -> list[tuple[str, int]]:
        """Return the names of a node's inputs, and their offsets in bytes."""
        found = self.cache.operands.get(node.signature)
        if found is None:
            names = node.op.tensor_names(node.params)
            found = self.cache.operands[node.signature] = [
                (name, layout.offset * value.dtype.itemsize)
                for name, (value, layout) in zip(names, node.inputs)
            ]
        return found

    def _arguments(self, dispatch: Dispatch) -> SortedArguments:
        # Dispatches of equal nodes are one object, which lives as long as the cache.
        found = self.cache.arguments.get(id(dispatch))
        if found is None:
            found = self.cache.arguments[id(dispatch)] = sorted_arguments(dispatch)
        return found

    def _dispatches(self, node: Node) -> Sequence[Dispatch]:
        """Return the dispatches of a node, those of earlier ones of its class."""
        key = dispatch_class(node)
        found = self.cache.dispatches[key]
        if found is None:
            input_specs, params = node.op.input_specs(node), dict(node.params)
            found = node.op.dispatches(self.gpu.info, input_specs, params)
            self.cache.dispatches[key] = found
        return found

    def _plan_dispatch(
        self,
        dispatch: Dispatch,
        arguments: SortedArguments,
        inputs: Mapping[str, Address],
        outputs: Mapping[str, Address],
        scratch: Mapping[Scratch, Address],
        allocate: list[tuple[int, int]],
        changed: dict[int, int | None],
        fused: FusedEpilogue | None = None,
    ) -> dict[str, float]:
        """Plan one dispatch; return the words of its call.

        `changed` are the slots of which it changes a part, and the slot of what they
        began as, if they may have its memory.
        """
        addresses: dict[str, Address] = {}
        words = dict(arguments.words)
        reads, writes, external = [], [], []
        copies = None
        if dispatch.copies is not None:
            begun, target = dispatch.copies
            copies = inputs[begun][0], outputs[target][0]
            changed = {}
        for name, wanted in arguments.persistent:
            external.append(persistent_scratch(self.gpu, wanted.size))
            words[name] = external[-1].address
        for name, memory, offset in arguments.memory:
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
                # Of what it begins with, a part stays.
                reads += [slot] if slot in changed else []
            addresses[name] = (slot, start + offset)
        in_place = [
            (old, new)
            for new, old in changed.items()
            # What it reads of the old one must stay until it has.
            if new in writes and old in self.free and old not in reads
        ]
        # Later dispatches find what this one has changed.
        changed.update((new, None) for new in list(changed) if new in writes)
        name, source, more = dispatch.kernel, None, NO_EPILOGUE
        if fused is not None:
            name, source = f"{name}+{fused.kernel.name}", fused.source
            more = fused.arguments(self.slots)
        key = id(dispatch), source
        pipeline = self.cache.pipelines.get(key)
        if pipeline is None:
            pipeline = self.cache.pipelines[key] = self.gpu.pipeline(
                name,
                source=source,
                defines={**device_macros(self.gpu.info), **dispatch.defines},
                constants=dispatch.constants,
                contract=fused is None,
            )
        if fused is not None:
            words |= more.words
            addresses |= more.used
            addresses |= more.written
            reads += [slot for slot, _ in more.used.values()]
            writes += [slot for slot, _ in more.written.values()]
        program, joined = None, None
        if dispatch.joins and fused is None:
            program, joined = self.cache.program_of(self.gpu, dispatch, pipeline)
        self._add(
            self.cache.joining_maker(self.gpu, pipeline, dispatch),
            dispatch.grid,
            addresses,
            words,
            more.scalars,
            reads,
            writes,
            allocate,
            tuple(in_place),
            program,
            external=external,
            copies=copies,
            joined=joined,
        )
        return words

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
        in_place: tuple[tuple[int, int], ...] = (),
        program: Hashable | None = None,
        external: Sequence[vkbackend.Buffer] = (),
        copies: tuple[int, int] | None = None,
        joined: JoinedCall | None = None,
    ) -> None:
        call = KernelCall(
            pipeline,
            grid,
            addresses,
            words,
            scalars,
            tuple(dict.fromkeys(reads)),
            tuple(dict.fromkeys(writes)),
            tuple(allocate),
            in_place,
            program,
            tuple(external),
            copies,
            joined,
        )
        self.calls.append(call)

    def _memory(self, values: Sequence[Value]) -> list[tuple[int, int]]:
        return [(self.slots[id(value)], value.nbytes) for value in values]

    def _find_inputs(self, numbers: Sequence[int]) -> None:
        seen, table = set(), self.table
        for number in numbers:
            for at, source in enumerate(table.sources[number]):
                if source < 0 and source not in seen:
                    seen.add(source)
                    self.plan.inputs.append((-1 - source, number, at))
            if table.external[number]:
                for at, value in enumerate(self.nodes[number].outputs):
                    if id(value) in self.external:
                        slot = table.writes[number][at]
                        self.plan.outputs.append((slot, number, at))


def _is_whole(node: Node, source: str, target: str) -> bool:
    """Return whether an input is all of a value that is as large as an output.

    Only then may the output have its memory: a view may begin anywhere in it.
    """
    names = node.op.tensor_names(node.params)
    value, layout = node.inputs[names.index(source)]
    result = node.outputs[node.op.output_names.index(target)]
    return not layout.offset and value.nbytes == result.nbytes
