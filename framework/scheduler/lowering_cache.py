"""Cache of lowered kernels, by structure: what plans of one device have in common.

A graph that is another number of a loop's steps has another plan, of kernels that were
all in the one before. Only their order, slots and memory are then planned anew. Past a
limit another cache begins, which takes over what is used of the one before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..autotune import autotune
from ..base.recent_cache import RecentCache
from ..codegen.elementwise_variants import build_chosen_kernel
from ..codegen.glsl.aliasing import arguments_in_memory, results_over_operands
from ..codegen.glsl.kernel import emit
from ..codegen.lower import structure_of, with_values
from ..codegen.rowwise_variants import build_chosen_rows
from ..ir.kernel_call import device_macros
from .launch import JoinedCall

if TYPE_CHECKING:
    import vkbackend

    from ..base.device import GpuDevice
    from ..codegen.epilogue_fusion import FusedEpilogue
    from ..codegen.ir.program import KernelProgram
    from ..codegen.lower import LoweredKernel
    from ..codegen.partitioner import FusionNode
    from ..ir.kernel_call import Dispatch, SortedArguments
    from ..ir.lazy_graph import Node, NodeSignature
    from .launch import Packing

MAX_LOWERED = 4096
"""Kernels and dispatches of a cache, past which planning begins the next one."""

Epilogue = tuple["FusedEpilogue | None"]
"""What is known of an epilogue: that it is fused, or that it cannot be."""


class LoweringCache:
    """What planning finds out about kernels, each by what decides it.

    Parameters
    ----------
    older : LoweringCache or None
        One that is full. What is asked for of its kernels, nodes, dispatches and
        epilogues comes from there; the rest is made anew of these.

    Attributes
    ----------
    kernels : RecentCache of Hashable to LoweredKernel
        Generated kernels, with places of values instead of these; see `structure_of`.
    programs, numbers : dict of KernelProgram to int, dict of int to int
        Numbers of programs, which are long: they are compared once each. By `id` too,
        as `kernels` keeps them alive.
    sources : dict of (int, bool, bool) to str
        GLSL of a program, by its number, and whether arguments are in memory and
        results alias operands.
    pipelines : dict of Hashable to Pipeline
    makers : dict of Hashable to callable
        What makes a generated kernel's pipeline, alone or fused horizontally.
    spaces : RecentCache of NodeSignature to FusionNode
        Nodes as the partitioner sees them, without what they read.
    dispatches : RecentCache of Hashable to sequence of Dispatch
        By `dispatch_class`.
    arguments : dict of int to SortedArguments
        Of a dispatch, by its `id`, as `dispatches` and `epilogues` keep it alive.
    operands : dict of NodeSignature to list of (str, int)
        Names and offsets in bytes of inputs of hand-written kernels.
    epilogues : RecentCache of Hashable to tuple of (FusedEpilogue or None)
    packings : dict of Hashable to Packing
    """

    def __init__(self, older: LoweringCache | None = None) -> None:
        self.kernels: RecentCache[Hashable, LoweredKernel] = _growing()
        self.spaces: RecentCache[NodeSignature, FusionNode] = _growing()
        self.dispatches: RecentCache[Hashable, Sequence[Dispatch]] = _growing()
        self.epilogues: RecentCache[Hashable, Epilogue] = _growing()
        if older is not None:
            self.kernels.older = dict(older.kernels)
            self.spaces.older = dict(older.spaces)
            self.dispatches.older = dict(older.dispatches)
            self.epilogues.older = dict(older.epilogues)
        self.programs: dict[KernelProgram, int] = {}
        self.numbers: dict[int, int] = {}
        self.sources: dict[tuple[int, bool, bool], str] = {}
        self.pipelines: dict[Hashable, vkbackend.Pipeline] = {}
        self.makers: dict[Hashable, Callable[[bool], vkbackend.Pipeline]] = {}
        self.arguments: dict[int, SortedArguments] = {}
        self.operands: dict[NodeSignature, list[tuple[str, int]]] = {}
        self.packings: dict[Hashable, Packing] = {}

    def is_full(self) -> bool:
        """Return whether it has grown to its limit."""
        count = len(self.kernels) + len(self.spaces) + len(self.dispatches)
        return count + len(self.epilogues) >= MAX_LOWERED

    def pipeline_maker(
        self,
        gpu: vkbackend.Device,
        kernel: LoweredKernel,
        changes: bool,
        in_place: bool,
    ) -> Callable[[bool], vkbackend.Pipeline]:
        """Return what makes a kernel's pipeline, alone or fused horizontally."""
        # Without nodes, which the call would keep until a cycle collection.
        program, workgroup = kernel.program, kernel.workgroup
        title = f"fused/{kernel.name}"
        key = title, self.number_of(program), changes, in_place, workgroup
        maker = self.makers.get(key)
        if maker is not None:
            return maker
        wide_words = gpu.info.target.uniform_loads
        pipelines, source = self.pipelines, self.source(kernel, *key[2:4], wide_words)

        def pipeline(horizontal: bool) -> vkbackend.Pipeline:
            found = pipelines.get((*key, horizontal))
            if found is None:
                found = pipelines[(*key, horizontal)] = build(horizontal)
            return found

        def build(horizontal: bool) -> vkbackend.Pipeline:
            text = source
            if horizontal:
                text = emit(program, wide_words, horizontal=True)
                text = results_over_operands(text) if in_place else text
            return gpu.pipeline(
                title,
                source=text,
                defines=device_macros(gpu.info),
                constants={"LOCAL_X": workgroup},
                contract=False,
            )

        self.makers[key] = pipeline
        return pipeline

    def joining_maker(
        self,
        gpu: vkbackend.Device,
        pipeline: vkbackend.Pipeline,
        dispatch: Dispatch,
    ) -> Callable[[bool], vkbackend.Pipeline]:
        """Return what makes a hand-written kernel's pipeline; alone it is given."""
        pipelines = self.pipelines
        constants, defines = dispatch.constants, dispatch.defines
        program = dispatch.kernel, (*constants.items(),), (*defines.items(),)

        def found(horizontal: bool) -> vkbackend.Pipeline:
            if not horizontal:
                return pipeline
            if program not in pipelines:
                macros = {**defines, "HORIZONTAL": "1"}
                pipelines[program] = gpu.pipeline(
                    dispatch.kernel,
                    defines={**device_macros(gpu.info), **macros},
                    constants=constants,
                )
            return pipelines[program]

        return found

    def program_of(
        self, gpu: vkbackend.Device, dispatch: Dispatch, pipeline: vkbackend.Pipeline
    ) -> tuple[Hashable, JoinedCall | None]:
        """Return by what a dispatch is fused horizontally, and with what tiles."""
        kernel, defines = dispatch.kernel, (*dispatch.defines.items(),)
        own = (*dispatch.constants.items(),)
        if dispatch.joined is None:
            return (kernel, own, defines), None
        groups, tiles = dispatch.joined
        made = tuple(
            (grid, self.joining_maker(gpu, pipeline, replace(dispatch, constants=each)))
            for grid, each in tiles
        )
        of_all = tuple((*each.items(),) for _, each in tiles)
        return (kernel, of_all, defines), JoinedCall(own, groups, made)

    def kernel_of(
        self,
        gpu: vkbackend.Device,
        nodes: Sequence[Node],
        live_out: set[int],
        lanes: int,
    ) -> LoweredKernel:
        """Return the kernel of nodes, that of earlier ones of the same structure."""
        structure, values = structure_of(nodes, live_out)
        key = structure, lanes
        known = self.kernels[key]
        if known is None:
            rows = any(node.op.reduction for node in nodes)
            build = build_chosen_rows if rows else build_chosen_kernel
            known = build(nodes, live_out, gpu.info, lanes=lanes)
            places = {id(value): place for place, value in enumerate(values)}
            self.kernels[key] = with_values(known, lambda value: places[id(value)])
            return known
        return with_values(known, values.__getitem__)

    def number_of(self, program: KernelProgram) -> int:
        """Return a number of a program, the same for equal ones."""
        numbers, programs = self.numbers, self.programs
        found = numbers.get(id(program))
        if found is None:
            found = programs.setdefault(program, len(programs))
            numbers[id(program)] = found
        return found

    def source(
        self, kernel: LoweredKernel, changes: bool, in_place: bool, wide_words: bool
    ) -> str:
        """Return the kernel's GLSL, with indirect arguments and aliasing as needed."""
        key = self.number_of(kernel.program), changes, in_place
        source = self.sources.get(key)
        if source is None:
            source = emit(kernel.program, wide_words)
            source = arguments_in_memory(source) if changes else source
            source = results_over_operands(source) if in_place else source
            self.sources[key] = source
        return source


def _growing() -> RecentCache[Any, Any]:
    """Return a cache without a limit: what has an `id` stays while a plan is made."""
    return RecentCache(sys.maxsize)


def lowering_cache(device: GpuDevice) -> LoweringCache:
    """Return the lowering cache of a device's plans.

    An empty one where a plan is to find out what it would measure, and after a change
    of what kernels are chosen by.
    """
    if not autotune.is_settled():
        return LoweringCache()
    plans = device.plan_cache
    generation = device.generation & ~1  # The same for fused and unfused plans.
    known = plans.lowering
    if known is None or known[0] != generation:
        known = plans.lowering = generation, LoweringCache()
    elif known[1].is_full():
        known = plans.lowering = generation, LoweringCache(known[1])
    return known[1]
