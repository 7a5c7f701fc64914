"""From drafts of kernel runs to dispatches: siblings, barriers, memory by slots."""

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
from typing import Any, TypeVar

import numpy as np

import vkbackend

from ..codegen.ir.horizontal import MOST_WORKGROUPS, Sibling, families, sibling_of
from ..ir.kernel_call import Grid, fold_grid
from .memory_planner import Area, levels, place, rounded, waves

Item = TypeVar("Item")

Address = tuple[int, int]
"""A kernel argument that becomes a device address: slot and offset in bytes."""

SMALL = 1 << 24
"""Bytes of a value that may share an allocation with others of its plan."""

MOST_SHARED = 1 << 28
"""Bytes of all values of a plan that share an allocation, were they side by side."""

FEW_GROUPS = 64
"""Workgroups of a run that may have siblings on a software device.

There a dispatch costs as much as some ten thousand elements, and arguments from a table
are read anew for each.
"""


@dataclass(frozen=True)
class Launch:
    """One dispatch of a plan, complete but for addresses and scalars.

    Attributes
    ----------
    pack : callable
        From the argument values, addresses then words then scalars, to bytes.
    scalars : tuple of (int, int)
        Node, and position among its scalars.
    address_fields, scalar_fields : tuple of (str, int)
        Of each address and scalar its kind, and where it lies in the bytes.
    reads, writes : tuple of int
        Slots.
    allocate : tuple of (int, int)
        Slots that get memory before the launch, and their sizes in bytes.
    over : tuple of (int, int)
        Slots that are read and written element by element, so that the second may lie
        where the first does.
    held : tuple of Buffer
        What it uses besides slots, and no other launch does.
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
    over: tuple[tuple[int, int], ...] = ()
    held: tuple[vkbackend.Buffer, ...] = ()
    address_fields: tuple[tuple[str, int], ...] = ()
    scalar_fields: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Draft:
    """One run of one kernel, which may become part of a dispatch.

    Attributes
    ----------
    pipeline : callable
        Returns the kernel, for itself or (True) for siblings.
    program : hashable or None
        What the kernel computes, if it may have siblings.
    addresses, words, scalars : mapping
        Arguments by name; see `Launch`.
    held : tuple of Buffer
        What it uses besides slots; only if it has no `program`.
    """

    pipeline: Callable[[bool], vkbackend.Pipeline]
    grid: Grid
    addresses: Mapping[str, Address]
    words: Mapping[str, float]
    scalars: Mapping[str, tuple[int, int]]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    allocate: tuple[tuple[int, int], ...]
    over: tuple[tuple[int, int], ...] = ()
    program: Hashable | None = None
    held: tuple[vkbackend.Buffer, ...] = ()


@dataclass(frozen=True)
class Running:
    """How launches run at once, in one batch.

    Attributes
    ----------
    steps : tuple of (Launch, bool)
        Launches that have work, and whether a barrier goes in front.
    memory : (tuple of int, tuple of int)
        Slots that get memory of their own, and their sizes in bytes.
    taken : tuple of (int, int)
        Slots that lie where others, which nobody reads any more, do.
    block : tuple of (int, int)
        Slots that share one allocation, and where in it each lies.
    block_size : int
        Bytes of it.
    reads, writes : tuple of int
        Slots that any launch reads, without those whose memory is written as another
        slot, and slots that any writes.
    held : tuple of Buffer
        What launches use besides slots.
    """

    steps: tuple[tuple[Launch, bool], ...] = ()
    memory: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    taken: tuple[tuple[int, int], ...] = ()
    block: tuple[tuple[int, int], ...] = ()
    block_size: int = 0
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    held: tuple[vkbackend.Buffer, ...] = ()


def launches(gpu: vkbackend.Device, drafts: Sequence[Draft]) -> list[Launch]:
    """Return the dispatches of drafts, in an order in which they may run.

    Parameters
    ----------
    gpu : vkbackend.Device
        Where they run.
    drafts : sequence of Draft
        In an order in which they may run.
    """
    most = FEW_GROUPS if gpu.info.kind == "software" else MOST_WORKGROUPS
    rows = []
    for draft in drafts:
        groups = math.prod(draft.grid)
        program = draft.program if groups <= most else None
        rows.append(Sibling(program, groups, draft.reads, draft.writes))
    made = []
    for members in families(rows):
        chosen = [drafts[member] for member in members]
        made.append(_alone(chosen[0]) if len(chosen) == 1 else _side(gpu, chosen))
    return made


def _alone(draft: Draft) -> Launch:
    pipeline = draft.pipeline(False)
    return Launch(
        pipeline,
        draft.grid,
        pipeline.packer((*draft.addresses, *draft.words, *draft.scalars)),
        tuple(draft.addresses.values()),
        tuple(draft.words.values()),
        tuple(draft.scalars.values()),
        draft.reads,
        draft.writes,
        draft.allocate,
        draft.over,
        draft.held,
        address_fields=_fields(pipeline.arguments.fields, draft.addresses),
        scalar_fields=_fields(pipeline.arguments.fields, draft.scalars),
    )


def lasting(gpu: vkbackend.Device, size: int) -> vkbackend.Buffer:
    """Return memory of zeros for a launch; see `PersistentScratch`.

    Two runs of a plan are apart by a barrier, so that one block is enough for all.
    """
    buffer = gpu.allocate(size, name="lasting")
    gpu.upload(np.zeros(size, np.uint8), buffer)
    return buffer


def _side(gpu: vkbackend.Device, drafts: Sequence[Draft]) -> Launch:
    """Return one launch for several drafts of one program."""
    pipeline = drafts[0].pipeline(True)
    whose, firsts = sibling_of([math.prod(draft.grid) for draft in drafts])
    grid = fold_grid(len(whose))
    missing = math.prod(grid) - len(whose)
    whose = np.append(whose, np.full(missing, len(drafts) - 1, np.uint32))
    buffer = gpu.allocate(whose.nbytes, name="siblings")
    gpu.upload(whose, buffer)
    words = [word for draft in drafts for word in draft.words.values()]
    readers = collections.Counter(_joined([draft.reads for draft in drafts]))
    return Launch(
        pipeline,
        grid,
        _table_packer(pipeline, drafts),
        _joined([draft.addresses.values() for draft in drafts]),
        (buffer.address, *words, *firsts),
        _joined([draft.scalars.values() for draft in drafts]),
        tuple(dict.fromkeys(_joined([draft.reads for draft in drafts]))),
        tuple(dict.fromkeys(_joined([draft.writes for draft in drafts]))),
        _joined([draft.allocate for draft in drafts]),
        # Siblings run in any order: what two of them read must stay.
        tuple(pair for draft in drafts for pair in draft.over if readers[pair[0]] == 1),
        (buffer,),
        _row_fields(pipeline, [draft.addresses for draft in drafts]),
        _row_fields(pipeline, [draft.scalars for draft in drafts]),
    )


def _fields(
    fields: Sequence[Any], names: Iterable[str], start: int = 0
) -> tuple[tuple[str, int], ...]:
    """Return kind and place of arguments by name."""
    found = {field.name: field for field in fields}
    return tuple((found[name].kind, start + found[name].offset) for name in names)


def _row_fields(
    pipeline: vkbackend.Pipeline, names: Sequence[Iterable[str]]
) -> tuple[tuple[str, int], ...]:
    """Return kind and place of arguments by name, given for each sibling."""
    rows = pipeline.arguments.rows
    assert rows is not None
    return _joined(
        [
            _fields(rows.fields, each, rows.offset + k * rows.stride)
            for k, each in enumerate(names)
        ]
    )


def _table_packer(
    pipeline: vkbackend.Pipeline, drafts: Sequence[Draft]
) -> Callable[..., bytes]:
    """Return what packs values, given by kind, as the kernel takes them: by sibling."""
    rows = pipeline.arguments.rows
    assert rows is not None
    names: list[tuple[int, str]] = []
    for k, draft in enumerate(drafts):
        names += [(k, name) for name in draft.addresses]
    names.append((-1, "sibling_of"))
    for k, draft in enumerate(drafts):
        names += [(k, name) for name in draft.words]
    names += [(k, "first") for k in range(len(drafts))]
    for k, draft in enumerate(drafts):
        names += [(k, name) for name in draft.scalars]
    place = {name: at for at, name in enumerate(names)}
    fields = [field.name for field in rows.fields]
    order = [place[k, name] for k in range(len(drafts)) for name in fields]
    pick = itemgetter(place[-1, "sibling_of"], *order)
    table = pipeline.table_packer(len(drafts))
    return lambda *values: table(*pick(values))


def _joined(parts: Iterable[Iterable[Item]]) -> tuple[Item, ...]:
    return tuple(itertools.chain.from_iterable(parts))


def running(
    gpu: vkbackend.Device, made: Sequence[Launch], kept: Collection[int]
) -> Running:
    """Return how launches run in one batch.

    Parameters
    ----------
    gpu : vkbackend.Device
        Where they run.
    made : sequence of Launch
        In the order in which they run.
    kept : collection of int
        Slots that outlive the batch and so have memory of their own.

    Raises
    ------
    ArgumentError
        If the device cannot run so many workgroups at once.
    """
    check = gpu.batch().check_grid
    for launch in made:
        check(launch.pipeline, launch.grid)
    busy = _in_waves([launch for launch in made if math.prod(launch.grid)])
    times = waves([(launch.reads, launch.writes) for launch in busy])
    taken = _taken(busy, times)
    reads = dict.fromkeys(_joined([launch.reads for launch in busy]))
    lent = set(taken.values())
    memory: dict[int, int] = {}
    shared: dict[int, int] = {}
    beside = 0
    for slot, size in _joined([launch.allocate for launch in made]):
        if slot in taken:
            continue
        if slot in kept or size > SMALL or beside + size > MOST_SHARED:
            memory[slot] = size
        else:
            shared[slot] = size
            beside += rounded(size)
    lives = _lives(busy, times, taken)
    always = (0, max(times, default=0))
    block = place([Area(size, *lives.get(k, always)) for k, size in shared.items()])
    return Running(
        tuple(
            (launch, now != before)
            for launch, now, before in zip(busy, times, [0, *times])
        ),
        (tuple(memory), tuple(memory.values())),
        tuple(taken.items()),
        tuple(zip(shared, block.offsets)),
        block.size,
        tuple(slot for slot in reads if slot not in lent),
        tuple(dict.fromkeys(_joined([launch.writes for launch in busy]))),
        _joined([launch.held for launch in busy]),
    )


def _lives(
    made: Sequence[Launch], times: Sequence[int], taken: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """Return the first and last wave in which the memory of each slot is used.

    What lies where another slot does uses the memory of that one.
    """
    lives: dict[int, tuple[int, int]] = {}
    for launch, time in zip(made, times):
        for slot in (*launch.reads, *launch.writes):
            while slot in taken:
                slot = taken[slot]
            lives[slot] = lives.get(slot, (time, time))[0], time
    return lives


def _in_waves(made: Sequence[Launch]) -> list[Launch]:
    """Return launches in the order that needs the fewest barriers.

    A result that lies where an operand does adds nothing to wait for; see `_taken`.
    """
    found = levels([(launch.reads, launch.writes) for launch in made])
    return [made[k] for k in sorted(range(len(made)), key=found.__getitem__)]


def _taken(made: Sequence[Launch], times: Sequence[int]) -> dict[int, int]:
    """Return which results lie where an operand does that nobody reads any more.

    Parameters
    ----------
    made : sequence of Launch
        In the order in which they run.
    times : sequence of int
        The wave of each: all other readers are in earlier ones.
    """
    readers: dict[int, list[int]] = {}
    for k, launch in enumerate(made):
        for slot in launch.reads:
            readers.setdefault(slot, []).append(k)
    taken: dict[int, int] = {}
    used: set[int] = set()
    for k, launch in enumerate(made):
        for old, new in launch.over:
            others = [at for at in readers[old] if at != k]
            earlier = not others or times[others[-1]] < times[k]
            if earlier and old not in used and new not in taken:
                taken[new] = old
                used.add(old)
    return taken
