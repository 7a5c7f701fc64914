"""Plan key: what decides the plan of a lazy graph.

Ops, wiring, static arguments, layouts, live-out values and donated inputs; but neither
memory nor dynamic scalars, nor where parts of values in memory start.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..ir.lazy_graph import Node, Value

DONATED = -1
"""Marks, in a plan key, the slot of an input that may be donated."""

ValueSlice = tuple[Value, int]
"""Slice of a value in memory: all of it from so many elements on."""


def nodes_to_plan(
    nodes: Sequence[Node],
    wiring: tuple[object, ...],
    slots: dict[Value | ValueSlice, int],
) -> tuple[Sequence[Node], dict[int, int]]:
    """Return nodes to plan with, according to the wiring, and slots of values by `id`.

    Parts of values in memory are values of their own there.
    """
    parts: dict[Value | ValueSlice, Value] = {
        key: Value(key[0].numel - key[1], key[0].dtype, buffer=key[0].buffer)
        for key in slots
        if isinstance(key, tuple)
    }
    numbers = {id(parts.get(key, key)): slot for key, slot in slots.items()}
    if not parts:
        return nodes, numbers
    found, place = [], 0
    for node in nodes:
        rebased = node.signature.rebased
        if rebased is not None and wiring[place] is rebased[0]:
            keys = zip(node.values, rebased[1])
            values = tuple([parts.get(key, key[0]) for key in keys])
            found.append(node.with_operands(rebased[0], values))
        else:
            found.append(node)
        place += 1
        for _ in node.values:
            place += 2 if wiring[place] == DONATED else 1
        place += len(node.outputs)
    return found, numbers


def external_of(nodes: Sequence[Node], wiring: tuple[object, ...]) -> set[int]:
    """Return the live-out results according to the wiring, by `id`.

    They may be dead by now: then the next graph of this wiring still finds its plan.
    """
    external = set()
    place = 0
    for node in nodes:
        place += 1
        for _ in node.values:
            place += 2 if wiring[place] == DONATED else 1
        for value in node.outputs:
            if wiring[place]:
                external.add(id(value))
            place += 1
    return external


def plan_key(
    nodes: Sequence[Node],
    slots: dict[Value | ValueSlice, int],
    needed: Collection[Value] = (),
    former: Collection[Value] = (),
    donated: list[Value] | None = None,
    starts: dict[int, int] | None = None,
) -> tuple[object, ...]:
    """Return the plan key; numbers every value with a slot in order of appearance.

    Parameters
    ----------
    nodes : sequence of Node
        A lazy graph.
    slots : dict of (Value or ValueSlice) to int
        Filled. Not stored on values, which others share and an interrupt would leave
        numbered.
    needed : collection of Value
        Values that other nodes read later.
    former : collection of Value
        Rollback values of storages.
    donated : list of Value or None
        Filled with the inputs that have no external references any more.
    starts : dict of int to int or None
        Filled with the bytes of a value that are before a part of it, by the part's
        slot. None knows no parts: the key then holds where each operand starts.

    Returns
    -------
    tuple
        The plan key: node signatures, wiring, live-out results, donated inputs.
    """
    key: list[object] = []
    find, append_key, number = slots.get, key.append, len(slots)
    divided: set[Value] = set()
    for node in nodes:
        signature = node.signature
        values: Sequence[Value | ValueSlice] = node.values
        if signature.rebased is not None and starts is not None:
            if _starts_in_memory(node, signature.rebased[1]):
                signature, offsets = signature.rebased
                values = _parts(node, offsets, slots, starts, divided)
                number = len(slots)
        append_key(signature)
        for value in values:
            slot = find(value)
            if slot is None:
                slot = slots[value] = number
                number += 1
                if (
                    donated is not None
                    and type(value) is Value
                    and value.external_refs == 0
                ):
                    if not (value in needed or value in former or value in divided):
                        donated.append(value)
                        append_key(DONATED)
            append_key(slot)
        for value in node.outputs:
            slots[value] = number
            number += 1
            append_key(value.external_refs > 0 or value in needed)
    return tuple(key)


def _starts_in_memory(node: Node, offsets: Sequence[int]) -> bool:
    """Return whether all that a node reads from an offset on is in memory, and stays.

    What nothing refers to may be donated, and then has one slot.
    """
    return all(
        [
            not offset or (value.node is None and value.external_refs > 0)
            for value, offset in zip(node.values, offsets)
        ]
    )


def _parts(
    node: Node,
    offsets: Sequence[int],
    slots: dict[Value | ValueSlice, int],
    starts: dict[int, int],
    divided: set[Value],
) -> list[Value | ValueSlice]:
    """Return the values of a node, and parts of them; these get slots and starts.

    Their values must not be donated any more, even if the last reference is dropped
    meanwhile: they are added to `divided`.
    """
    found: list[Value | ValueSlice] = []
    for value, offset in zip(node.values, offsets):
        if not offset:
            found.append(value)
            continue
        part = value, offset
        if part not in slots:
            slot = slots[part] = len(slots)
            starts[slot] = offset * value.dtype.itemsize
            divided.add(value)
        found.append(part)
    return found
