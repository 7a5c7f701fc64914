"""Horizontal fusion: launches of one program that become one dispatch; pure.

Independent launches of the same program run as one dispatch. Their arguments are rows
of a table in memory, and a list, made once, maps each workgroup to its launch.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

MAX_HORIZONTAL_LAUNCHES = 512
"""Launches in one dispatch, so that their table stays within a mebibyte."""

MAX_HORIZONTAL_WORKGROUPS = 1 << 20
"""Workgroups of one fused dispatch, so that the list stays within 4 MiB."""

STARTS = ("second", "third", "fourth")
"""Arguments of `lib/horizontal.glsl`: where launches begin, if they are so few."""

NO_WORKGROUP = (1 << 32) - 1
"""Where a launch begins that there is not."""


class HorizontalLaunch(NamedTuple):
    """Launch as the grouping sees it.

    Attributes
    ----------
    program : hashable or None
        Program by which launches are fused; None is never fused.
    groups : int
        Workgroups.
    reads, writes : sequence of int
        Values. Each is written by one launch at most, or else by launches whose
        program is None.
    """

    program: Hashable | None
    groups: int
    reads: Sequence[int]
    writes: Sequence[int]


class _HorizontalGroup:
    """Horizontal fusion group: launches of one dispatch, and its execution position."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.members: list[int] = []
        self.groups = 0
        self.needed = False


def horizontal_groups(launches: Sequence[HorizontalLaunch]) -> list[list[int]]:
    """Partition launches into dispatches; linear in their number.

    Parameters
    ----------
    launches : sequence of HorizontalLaunch
        In an order in which they may run.

    Returns
    -------
    list of list of int
        Dispatches in an order in which they may run; each lists launches of one
        program, in their own order.
    """
    open_: dict[Hashable, _HorizontalGroup] = {}
    found: list[_HorizontalGroup] = []
    maker: dict[int, _HorizontalGroup] = {}
    for number, launch in enumerate(launches):
        sources = [maker[value] for value in launch.reads if value in maker]
        for source in sources:
            source.needed = True
        fused = None if launch.program is None else open_.get(launch.program)
        if fused is None or not _may_join(fused, launch, sources):
            fused = _HorizontalGroup(number)
            found.append(fused)
            if launch.program is not None:
                open_[launch.program] = fused
        elif any(source.place >= fused.place for source in sources):
            # It must come after its sources, and nothing depends on the group so far.
            fused.place = number
        fused.members.append(number)
        fused.groups += launch.groups
        for value in launch.writes:
            maker[value] = fused
    return [fused.members for fused in sorted(found, key=lambda each: each.place)]


def _may_join(
    fused: _HorizontalGroup, launch: HorizontalLaunch, sources: list[_HorizontalGroup]
) -> bool:
    """Whether a launch may move up to its group, or the group down to the launch."""
    if len(fused.members) >= MAX_HORIZONTAL_LAUNCHES or launch.groups == 0:
        return False
    if fused.groups + launch.groups > MAX_HORIZONTAL_WORKGROUPS:
        return False
    rises = all(source.place < fused.place for source in sources)
    return rises or not fused.needed


def workgroup_owners(groups: Sequence[int]) -> tuple[np.ndarray, list[int]]:
    """Return the owning launch of each workgroup, and the first workgroup of each.

    Parameters
    ----------
    groups : sequence of int
        Workgroups of each fused launch.

    Returns
    -------
    numpy.ndarray, list of int
        uint32, one element per workgroup; one number per launch.
    """
    owners = np.repeat(np.arange(len(groups), dtype=np.uint32), groups)
    return owners, [0, *itertools.accumulate(groups[:-1])]


def starts_of(firsts: Sequence[int]) -> list[int]:
    """Return the first workgroups of the second to fourth launch, or zeros.

    Parameters
    ----------
    firsts : sequence of int
        First workgroup of each fused launch, two at least.

    Returns
    -------
    list of int
        For each name of `STARTS`: zeros if there are more launches than that tells
        apart, and above every workgroup where there are fewer.
    """
    if len(firsts) > len(STARTS) + 1:
        return [0] * len(STARTS)
    return [*firsts[1:], *[NO_WORKGROUP] * (len(STARTS) + 1 - len(firsts))]


def horizontal_block(members: Sequence[str]) -> list[str]:
    """Return the argument block of a horizontal launch, with `members` per row."""
    return [
        "struct Sibling {",
        *members,
        "    uint first;",
        "};",
        "layout(buffer_reference, std430, buffer_reference_align = 4)"
        " restrict readonly buffer Workgroups { uint at[]; };",
        "layout(buffer_reference, std430, buffer_reference_align = 16)"
        " restrict readonly buffer Arguments {",
        "    Workgroups sibling_of;",
        "    Sibling siblings[];",
        "};",
        "layout(push_constant, std430) uniform Push { Arguments args; };",
    ]


SIBLING_INDEX = "uint sibling = args.sibling_of.at[linear_workgroup()];"
"""First statement of the main function of a horizontal launch."""

ARGUMENT = "args.siblings[sibling].{}"
"""Argument of the invocation's own launch."""

INVOCATION = "(linear_invocation() - args.siblings[sibling].first * gl_WorkGroupSize.x)"
"""Invocation index within its own launch."""
