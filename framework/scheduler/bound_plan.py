"""Bound plans: packed arguments of an execution plan, run on other addresses."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter

import numpy as np

import vkbackend

from ..ir.lazy_graph import Node
from .dynamic_args import FORMATS, DynamicArguments
from .launch import ExecutionPlan, Launch

Command = tuple[vkbackend.Pipeline, bytes, int, int, int]

Memory = Sequence[tuple[vkbackend.Buffer, int]]
"""Buffer of each slot, and the address in it."""

_ALIGNMENT = 16
"""Bytes to which the arguments of each launch are aligned."""

_ADDRESS_SIZE = 8

_ADDRESS = struct.Struct("<Q")
MAX_SINGLE_WRITES = 16
"""Addresses up to which they are written one by one, which is quicker then."""

_FORMS = {kind: struct.Struct(f"<{form}") for kind, form in FORMATS.items()}
_address_in: Callable[[tuple[vkbackend.Buffer, int]], int] = itemgetter(1)
_UNFIT = (struct.error, TypeError, OverflowError)


class AddressTable:
    """Positions of buffer addresses in packed arguments."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int]] = []
        self._last: list[int] = []

    def add(self, place: int, number: int, offset: int) -> None:
        """Add a position: the buffer whose address stands there, and an offset."""
        self._rows.append((place, number, offset))

    def fix(self, content: bytearray) -> None:
        """Set the packed arguments; no position is added afterwards."""
        self._content = content
        table = np.array(self._rows, np.uint64).reshape(-1, 3)
        self._words = np.frombuffer(content, np.uint64, len(content) // _ADDRESS_SIZE)
        self._places = table[:, 0].astype(np.intp) // _ADDRESS_SIZE
        self._numbers = table[:, 1].astype(np.intp)
        self._offsets = table[:, 2]

    def write(self, addresses: Iterable[int]) -> None:
        """Write the buffers' addresses, in order, if they changed since the last."""
        given = list(addresses)
        if given != self._last:
            # While it is empty, an interrupt leaves no addresses that count as written.
            self._last = []
            if len(self._rows) <= MAX_SINGLE_WRITES:
                for place, number, offset in self._rows:
                    _ADDRESS.pack_into(self._content, place, given[number] + offset)
            else:
                found = np.array(given, np.uint64)
                self._words[self._places] = found[self._numbers] + self._offsets
            self._last = given


class BoundPlan:
    """Bound plan: the arguments of an execution plan's launches, packed once.

    What differs from run to run is written over: addresses, and numbers of nodes.

    Parameters
    ----------
    execution_plan : ExecutionPlan
        Its launches and barriers.
    nodes : sequence of Node
        Of the plan's key; their numbers are packed.
    sources : mapping of int to (int, int), optional
        Address table of each slot, and index in it. By default the slot is the index
        in the only table.

    Attributes
    ----------
    content : bytearray
        The packed arguments of all launches.
    numbers : list of (Launch, int, list)
        What `write_numbers` writes: each launch with numbers, the start of its
        arguments; form, place and source of each number.
    """

    def __init__(
        self,
        execution_plan: ExecutionPlan,
        nodes: Sequence[Node],
        sources: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        self.content = bytearray()
        self._plan = execution_plan
        self._sequence: vkbackend.DispatchSequence | None = None
        tables = 1 + max([table for table, _ in (sources or {}).values()], default=0)
        self._tables = [AddressTable() for _ in range(tables)]
        self._starts: list[int] = []
        # Each command with the place of its arguments in the content.
        self._commands: list[
            tuple[vkbackend.Pipeline, slice, int, int, int] | None
        ] = []
        self.numbers: list[
            tuple[Launch, int, list[tuple[struct.Struct, int, int, int]]]
        ] = []
        for launch, barrier in execution_plan.steps:
            if barrier:
                self._commands.append(None)
            self._add(launch, nodes, sources)
        for table in self._tables:
            table.fix(self.content)

    def _add(
        self,
        launch: Launch,
        nodes: Sequence[Node],
        sources: Mapping[int, tuple[int, int]] | None,
    ) -> None:
        """Pack the arguments of a launch, behind the others."""
        start, packed = len(self.content), _packed(launch, nodes)
        self.content += packed + bytes(-len(packed) % _ALIGNMENT)
        self._starts.append(start)
        arguments = slice(start, start + len(packed))
        self._commands.append((launch.pipeline, arguments, *launch.grid))
        for (slot, offset), (_, at) in zip(launch.addresses, launch.address_fields):
            table, index = (0, slot) if sources is None else sources[slot]
            self._tables[table].add(start + at, index, offset)
        if launch.scalars:
            places = [
                (_FORMS[kind], start + at, *source)
                for (kind, at), source in zip(launch.scalar_fields, launch.scalars)
            ]
            self.numbers.append((launch, start, places))

    def write(self, addresses: Iterable[int], table: int = 0) -> None:
        """Write the addresses of a table, in order."""
        self._tables[table].write(addresses)

    def write_numbers(self, nodes: Sequence[Node]) -> None:
        """Write the numbers of other nodes of the plan's key."""
        content = self.content
        for launch, start, places in self.numbers:
            try:
                for form, at, node, k in places:
                    form.pack_into(content, at, nodes[node].numbers[k])
            except _UNFIT:
                # It rounds a float beyond the range, or says which number is wrong.
                packed = _packed(launch, nodes)
                for form, at, _, _ in places:
                    found = packed[at - start : at - start + form.size]
                    content[at : at + form.size] = found

    def add_dynamic(
        self,
        arguments: DynamicArguments,
        nodes: Sequence[Node],
        starts: Sequence[int | None] | None = None,
    ) -> None:
        """Add the numbers of nodes that change from run to run to dynamic arguments.

        Parameters
        ----------
        arguments : DynamicArguments
        nodes : sequence of Node
        starts : sequence of (int or None), optional
            Where the arguments of each launch begin if not in `content`; None where
            they cannot change.
        """
        launches = [launch for launch, _ in self._plan.steps]
        for launch, start in zip(launches, self._starts if starts is None else starts):
            for field, (node, k) in zip(launch.scalar_fields, launch.scalars):
                number = nodes[node].numbers[k]
                arguments.add(launch.pipeline.name, field, start, number)

    def commands(self) -> list[Command | None]:
        """Return the dispatches and barriers, for `Batch.extend`."""
        content = bytes(self.content)
        return [
            row and (row[0], content[row[1]], row[2], row[3], row[4])
            for row in self._commands
        ]

    def record(self, batch: vkbackend.Batch, memory: Memory) -> None:
        """Record the launches in a batch, with slots in memory."""
        self.write(map(_address_in, memory))
        batch.extend(self.commands(), *self._touched(memory))

    def begin(self, gpu: vkbackend.Device, memory: Memory) -> vkbackend.Batch:
        """Return a batch that begins with the launches, with slots in memory."""
        sequence = self._sequence or self._make_sequence(gpu)
        self._tables[0].write(map(_address_in, memory))
        batch = gpu.batch()
        sequence.begin(batch, bytes(self.content), *self._touched(memory))
        return batch

    def submission(
        self, gpu: vkbackend.Device, memory: Memory
    ) -> vkbackend.Batch | vkbackend.SequenceSubmission:
        """Return what submits the launches alone, with slots in memory."""
        sequence = self._sequence or self._make_sequence(gpu)
        self._tables[0].write(map(_address_in, memory))
        return sequence.submission(bytes(self.content), *self._touched(memory))

    def _make_sequence(self, gpu: vkbackend.Device) -> vkbackend.DispatchSequence:
        self._sequence = gpu.sequence(self._commands)
        return self._sequence

    def _touched(
        self, memory: Memory
    ) -> tuple[list[vkbackend.Buffer], list[vkbackend.Buffer]]:
        """Return the buffers that the launches read, and those that they write."""
        plan = self._plan
        read: list[vkbackend.Buffer] = [*plan.buffers]
        written: list[vkbackend.Buffer] = []
        for slot in plan.reads:
            read.append(memory[slot][0])
        for slot in plan.writes:
            written.append(memory[slot][0])
        return read, written


def _packed(launch: Launch, nodes: Sequence[Node]) -> bytes:
    """Return the packed arguments of a launch, with zeros for addresses."""
    numbers = [nodes[node].numbers[k] for node, k in launch.scalars]
    return launch.pack(*[0] * len(launch.addresses), *launch.words, *numbers)
