"""Lowering of kernel calls to launches: horizontal fusion, barriers, slot memory."""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

import vkbackend

from ..codegen.ir.horizontal import (
    MAX_HORIZONTAL_WORKGROUPS,
    STARTS,
    HorizontalLaunch,
    horizontal_groups,
    starts_of,
    workgroup_owners,
)
from ..ir.kernel_call import Grid, fold_grid
from .memory_planner import (
    LiveRange,
    aligned_size,
    asap_levels,
    barrier_intervals,
    place,
)

Item = TypeVar("Item")

Address = tuple[int, int]
"""A kernel argument that becomes a device address: slot and offset in bytes."""

MAX_SHARED_SIZE = 1 << 24
"""Bytes of a value that may share an allocation with others of its plan."""

MAX_SHARED_BYTES = 1 << 28
"""Bytes of all values of a plan that share an allocation, before any aliasing."""

SOFTWARE_MAX_WORKGROUPS = 64
"""Workgroups up to which a launch is fused horizontally on a software device.

There a dispatch costs as much as some ten thousand elements, and arguments from a table
are read anew for each.
"""


class Launch(NamedTuple):
    """Launch: one dispatch of a plan, complete but for addresses and scalars.

    Attributes
    ----------
    pack : callable
        Packs the argument values to bytes: addresses, then packed words, then scalars.
    scalars : tuple of (int, int)
        Node, and position among its scalars.
    address_fields, scalar_fields : tuple of (str, int)
        Kind and byte offset of each address and scalar.
    reads, writes : tuple of int
        Slots.
    allocate : tuple of (int, int)
        Slots that get memory before the launch, and their sizes in bytes.
    in_place : tuple of (int, int)
        In-place candidates: slots read and written element by element, so that the
        second may alias the first.
    buffers : tuple of Buffer
        Buffers besides slots, which no other launch uses.
    copies : (int, int) or None
        Slots of which it makes the second equal to the first: not needed where they
        share memory.
    """

    pipeline: vkbackend.Pipeline
    grid: Grid
    pack: Callable[..., bytes]
    addresses: tuple[Address, ...]
    words: tuple[float, ...]
    scalars: tuple[tuple[int, int], ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    allocate: tuple[tuple[int, int], ...]
    in_place: tuple[tuple[int, int], ...] = ()
    buffers: tuple[vkbackend.Buffer, ...] = ()
    address_fields: tuple[tuple[str, int], ...] = ()
    scalar_fields: tuple[tuple[str, int], ...] = ()
    copies: tuple[int, int] | None = None


class JoinedCall(NamedTuple):
    """What a kernel call may be in a horizontal fusion group; see `JoinedTiles`.

    Attributes
    ----------
    own : hashable
        Its constants if it is alone. Calls that have the same keep them.
    groups : int
    tiles : tuple of (Grid, callable)
        Grid, and what returns the pipeline of a horizontal fusion group.
    """

    own: Hashable
    groups: int
    tiles: tuple[tuple[Grid, Callable[[bool], vkbackend.Pipeline]], ...]


class KernelCall(NamedTuple):
    """Kernel call, which may be fused horizontally into a launch.

    Attributes
    ----------
    pipeline : callable
        Returns the kernel: alone, or (True) for a horizontal fusion group.
    program : hashable or None
        Program by which calls are grouped for horizontal fusion; None if it cannot be.
    addresses, words, scalars : mapping
        Arguments by name; see `Launch`.
    copies : (int, int) or None
        See `Launch`.
    buffers : tuple of Buffer
        Buffers besides slots.
    joined : JoinedCall or None
        If its `program` is that of calls with other constants, too.
    """

    pipeline: Callable[[bool], vkbackend.Pipeline]
    grid: Grid
    addresses: Mapping[str, Address]
    words: Mapping[str, float]
    scalars: Mapping[str, tuple[int, int]]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    allocate: tuple[tuple[int, int], ...]
    in_place: tuple[tuple[int, int], ...] = ()
    program: Hashable | None = None
    buffers: tuple[vkbackend.Buffer, ...] = ()
    copies: tuple[int, int] | None = None
    joined: JoinedCall | None = None


@dataclass(frozen=True)
class ExecutionPlan:
    """Execution plan: launches with barriers and memory, in one batch.

    Attributes
    ----------
    steps : tuple of (Launch, bool)
        Launches with work, each with whether a barrier precedes it.
    memory : (tuple of int, tuple of int)
        Slots that get memory of their own, and their sizes in bytes.
    aliases : tuple of (int, int)
        Slots that reuse the buffer of a dead slot (donation).
    block : tuple of (int, int)
        Slots that share one allocation, and their offsets in it.
    block_size : int
        Bytes of the shared allocation.
    reads, writes : tuple of int
        Slots that any launch reads, without those whose memory is written through an
        alias, and slots that any launch writes.
    buffers : tuple of Buffer
        Buffers of launches besides slots.
    """

    steps: tuple[tuple[Launch, bool], ...] = ()
    memory: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    aliases: tuple[tuple[int, int], ...] = ()
    block: tuple[tuple[int, int], ...] = ()
    block_size: int = 0
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    buffers: tuple[vkbackend.Buffer, ...] = ()


class Packing(NamedTuple):
    """How arguments by these names are packed; see `Launch`."""

    pack: Callable[..., bytes]
    address_fields: tuple[tuple[str, int], ...]
    scalar_fields: tuple[tuple[str, int], ...]


def launches(
    gpu: vkbackend.Device,
    calls: Sequence[KernelCall],
    packings: dict[Hashable, Packing] | None = None,
    host: Collection[int] = (),
) -> list[Launch]:
    """Return the launches of kernel calls, in an execution order.

    Calls that take what different host steps make stay apart: together they would wait
    for the last of these, and keep what the others have made until then.

    Parameters
    ----------
    gpu : vkbackend.Device
        Device of the plan.
    calls : sequence of KernelCall
        In an order in which they may run.
    packings : dict of Hashable to Packing, optional
        Filled: how arguments are packed, by pipeline and their names.
    host : collection of int
        Slots that host steps write.
    """
    packings = {} if packings is None else packings
    most = (
        MAX_HORIZONTAL_WORKGROUPS
        if gpu.info.target.hides_latency
        else SOFTWARE_MAX_WORKGROUPS
    )
    rows = []
    for call, after in zip(calls, last_host_steps(calls, host)):
        groups = math.prod(call.grid)
        program = None
        if call.program is not None and groups <= most:
            program = (call.program, after) if after else call.program
        rows.append(HorizontalLaunch(program, groups, call.reads, call.writes))
    made = []
    for members in horizontal_groups(rows):
        chosen = [calls[member] for member in members]
        made.append(
            _single_launch(chosen[0], packings)
            if len(chosen) == 1
            else _horizontal_launch(gpu, _with_one_tile(chosen))
        )
    return made


def _with_one_tile(calls: list[KernelCall]) -> list[KernelCall]:
    """Return the calls of a horizontal fusion group with the same constants."""
    joined = calls[0].joined
    own = {call.joined.own for call in calls if call.joined is not None}
    if joined is None or len(own) == 1:
        return calls
    for at in range(len(joined.tiles)):
        tiles = [call.joined.tiles[at] for call in calls if call.joined is not None]
        if sum(math.prod(grid) for grid, _ in tiles) >= joined.groups:
            break
    return [
        call._replace(grid=grid, pipeline=pipeline)
        for call, (grid, pipeline) in zip(calls, tiles, strict=True)
    ]


def last_host_steps(calls: Sequence[KernelCall], host: Collection[int]) -> list[int]:
    """Return the last host step that each call depends on, from 1; 0 without one."""
    if not host:
        return [0] * len(calls)
    count, found, steps = 0, [], dict[int, int]()
    for call in calls:
        after = max([steps.get(slot, 0) for slot in call.reads], default=0)
        if any(slot in host for slot in call.writes):
            count += 1
            after = count
        steps.update(dict.fromkeys(call.writes, after))
        found.append(after)
    return found


def _packing(pipeline: vkbackend.Pipeline, call: KernelCall) -> Packing:
    fields = pipeline.arguments.fields
    return Packing(
        pipeline.packer((*call.addresses, *call.words, *call.scalars)),
        _fields(fields, call.addresses),
        _fields(fields, call.scalars),
    )


def _single_launch(call: KernelCall, known: dict[Hashable, Packing]) -> Launch:
    """Return the launch of a call; `known` grows by how its arguments are packed."""
    pipeline = call.pipeline(False)
    names = *call.addresses, None, *call.words, None, *call.scalars
    packing = known.get((pipeline, names))
    if packing is None:
        packing = known[pipeline, names] = _packing(pipeline, call)
    return Launch(
        pipeline,
        call.grid,
        packing.pack,
        tuple(call.addresses.values()),
        tuple(call.words.values()),
        tuple(call.scalars.values()),
        call.reads,
        call.writes,
        call.allocate,
        call.in_place,
        call.buffers,
        address_fields=packing.address_fields,
        scalar_fields=packing.scalar_fields,
        copies=call.copies,
    )


def persistent_scratch(gpu: vkbackend.Device, size: int) -> vkbackend.Buffer:
    """Return zero-initialised memory for a launch; see `PersistentScratch`.

    A barrier separates two runs of a plan, so that one block is enough for all.
    """
    buffer = gpu.allocate(size, name="lasting")
    gpu.upload(np.zeros(size, np.uint8), buffer)
    return buffer


def _horizontal_launch(gpu: vkbackend.Device, calls: Sequence[KernelCall]) -> Launch:
    """Return one launch for a horizontal fusion group of kernel calls."""
    pipeline = calls[0].pipeline(True)
    owners, firsts = workgroup_owners([math.prod(call.grid) for call in calls])
    grid = fold_grid(len(owners))
    missing = math.prod(grid) - len(owners)
    owners = np.append(owners, np.full(missing, len(calls) - 1, np.uint32))
    buffer = gpu.allocate(owners.nbytes, name="siblings")
    gpu.upload(owners, buffer)
    words = [word for call in calls for word in call.words.values()]
    readers = collections.Counter(_concatenated([call.reads for call in calls]))
    return Launch(
        pipeline,
        grid,
        _table_packer(pipeline, calls),
        _concatenated([call.addresses.values() for call in calls]),
        (buffer.address, *starts_of(firsts), *words, *firsts),
        _concatenated([call.scalars.values() for call in calls]),
        tuple(dict.fromkeys(_concatenated([call.reads for call in calls]))),
        tuple(dict.fromkeys(_concatenated([call.writes for call in calls]))),
        _concatenated([call.allocate for call in calls]),
        # Calls of a group run in any order: an input that two share is not donated.
        tuple(
            pair for call in calls for pair in call.in_place if readers[pair[0]] == 1
        ),
        (buffer, *_concatenated([call.buffers for call in calls])),
        _row_fields(pipeline, [call.addresses for call in calls]),
        _row_fields(pipeline, [call.scalars for call in calls]),
    )


def _fields(
    fields: Sequence[Any], names: Iterable[str], start: int = 0
) -> tuple[tuple[str, int], ...]:
    """Return kind and byte offset of arguments by name."""
    found = {field.name: field for field in fields}
    return tuple((found[name].kind, start + found[name].offset) for name in names)


def _row_fields(
    pipeline: vkbackend.Pipeline, names: Sequence[Iterable[str]]
) -> tuple[tuple[str, int], ...]:
    """Return kind and byte offset of arguments by name, one each per fused call."""
    rows = pipeline.arguments.rows
    assert rows is not None
    return _concatenated(
        [
            _fields(rows.fields, each, rows.offset + k * rows.stride)
            for k, each in enumerate(names)
        ]
    )


def _table_packer(
    pipeline: vkbackend.Pipeline, calls: Sequence[KernelCall]
) -> Callable[..., bytes]:
    """Return a packer of values, given by kind, into the argument table."""
    rows = pipeline.arguments.rows
    assert rows is not None
    names: list[tuple[int, str]] = []
    for k, call in enumerate(calls):
        names += [(k, name) for name in call.addresses]
    names += [(-1, name) for name in ("sibling_of", *STARTS)]
    for k, call in enumerate(calls):
        names += [(k, name) for name in call.words]
    names += [(k, "first") for k in range(len(calls))]
    for k, call in enumerate(calls):
        names += [(k, name) for name in call.scalars]
    place = {name: at for at, name in enumerate(names)}
    fields = [field.name for field in rows.fields]
    order = [place[k, name] for k in range(len(calls)) for name in fields]
    head = [place[-1, field.name] for field in pipeline.arguments.fields]
    pick = itemgetter(*head, *order)
    table = pipeline.table_packer(len(calls))
    return lambda *values: table(*pick(values))


def _concatenated(parts: Iterable[Iterable[Item]]) -> tuple[Item, ...]:
    return tuple(itertools.chain.from_iterable(parts))


def execution_plan(
    gpu: vkbackend.Device, made: Sequence[Launch], live_out: Collection[int]
) -> ExecutionPlan:
    """Return the execution plan of launches: barriers, aliases and slot memory.

    Parameters
    ----------
    gpu : vkbackend.Device
        Device of the plan.
    made : sequence of Launch
        In execution order.
    live_out : collection of int
        Slots that outlive the batch and so have memory of their own.

    Raises
    ------
    ArgumentError
        If the device cannot run so many workgroups at once.
    """
    check = gpu.batch().check_grid
    for launch in made:
        check(launch.pipeline, launch.grid)
    busy, intervals, aliases = _without_copies(
        [launch for launch in made if math.prod(launch.grid)]
    )
    reads = dict.fromkeys(_concatenated([launch.reads for launch in busy]))
    aliased = set(aliases.values())
    # A result has memory of its own, also if that is first another slot's.
    owned = set(live_out)
    for slot in live_out:
        while slot in aliases:
            slot = aliases[slot]
            owned.add(slot)
    memory: dict[int, int] = {}
    shared: dict[int, int] = {}
    shared_bytes = 0
    for slot, size in _concatenated([launch.allocate for launch in made]):
        if slot in aliases:
            continue
        if (
            slot in owned
            or size > MAX_SHARED_SIZE
            or shared_bytes + size > MAX_SHARED_BYTES
        ):
            memory[slot] = size
        else:
            shared[slot] = size
            shared_bytes += aligned_size(size)
    live_ranges = _live_ranges(busy, intervals, aliases)
    always = (0, max(intervals, default=0))
    block = place(
        [LiveRange(size, *live_ranges.get(k, always)) for k, size in shared.items()]
    )
    return ExecutionPlan(
        tuple(
            (launch, now != before)
            for launch, now, before in zip(busy, intervals, [0, *intervals])
        ),
        (tuple(memory), tuple(memory.values())),
        tuple(aliases.items()),
        tuple(zip(shared, block.offsets)),
        block.size,
        tuple(slot for slot in reads if slot not in aliased),
        tuple(dict.fromkeys(_concatenated([launch.writes for launch in busy]))),
        _concatenated([launch.buffers for launch in busy]),
    )


def _without_copies(
    made: Sequence[Launch],
) -> tuple[list[Launch], list[int], dict[int, int]]:
    """Return launches in order, their barrier intervals, and aliases.

    Left out are copies to slots that alias what they would be copied from.
    """
    candidates = set(_concatenated([launch.in_place for launch in made]))
    spared = {launch.copies for launch in made if launch.copies in candidates}
    while True:
        busy = _in_level_order(
            [_after_sources(each, spared) for each in made if each.copies not in spared]
        )
        intervals = barrier_intervals([(each.reads, each.writes) for each in busy])
        aliases = _aliases(busy, intervals)
        needed = {pair for pair in spared if pair and aliases.get(pair[1]) != pair[0]}
        if not needed:
            return busy, intervals, aliases
        spared -= needed


def _after_sources(
    launch: Launch, spared: Collection[tuple[int, int] | None]
) -> Launch:
    """Return a launch that waits for slots whose memory it changes without a copy."""
    more = [old for old, new in launch.in_place if (old, new) in spared]
    return launch._replace(reads=(*launch.reads, *more)) if more else launch


def _live_ranges(
    made: Sequence[Launch], intervals: Sequence[int], aliases: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """Return the live range of each slot's memory, in barrier intervals.

    A slot that aliases another extends the live range of that one.
    """
    live_ranges: dict[int, tuple[int, int]] = {}
    for launch, interval in zip(made, intervals):
        for slot in (*launch.reads, *launch.writes):
            while slot in aliases:
                slot = aliases[slot]
            live_ranges[slot] = live_ranges.get(slot, (interval, interval))[0], interval
    return live_ranges


def _in_level_order(made: Sequence[Launch]) -> list[Launch]:
    """Return launches in the order that needs the fewest barriers.

    A result that aliases an operand adds no dependency; see `_aliases`.
    """
    found = asap_levels([(launch.reads, launch.writes) for launch in made])
    return [made[k] for k in sorted(range(len(made)), key=found.__getitem__)]


def _aliases(made: Sequence[Launch], intervals: Sequence[int]) -> dict[int, int]:
    """Return which results reuse the buffer of a dead operand (donation).

    Parameters
    ----------
    made : sequence of Launch
        In execution order.
    intervals : sequence of int
        Barrier interval of each: all other readers are in earlier ones.
    """
    readers: dict[int, list[int]] = {}
    for k, launch in enumerate(made):
        for slot in launch.reads:
            readers.setdefault(slot, []).append(k)
    aliases: dict[int, int] = {}
    used: set[int] = set()
    for k, launch in enumerate(made):
        for old, new in launch.in_place:
            others = [at for at in readers.get(old, ()) if at != k]
            earlier = not others or intervals[others[-1]] < intervals[k]
            if earlier and old not in used and new not in aliases:
                aliases[new] = old
                used.add(old)
    return aliases
