"""Source rewrites: indirect arguments, and outputs that alias inputs.

A recorded dispatch cannot be given new push constants. Where an argument changes from
replay to replay, the kernel reads all of its arguments from memory instead.

A parameter's new value is also written over its old one, element by element, which
`restrict` would forbid. So would `readonly`, in effect: NVIDIA's compiler takes loads
through it for constant and moves them behind the store of another result that aliases
the memory (seen on an H200, driver 580.159.04: Adam's first steps in a scaled training
took the new gradient for the parameter).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...ir.lazy_graph import Value
    from ..lower import LoweredKernel

_PUSHED = re.compile(
    r"layout\(push_constant, std430\) uniform Push \{\n(?P<members>[^}]*)\} args;"
)
_STORED = """layout(buffer_reference, std430, buffer_reference_align = 16) \
restrict readonly buffer Arguments {{
{members}}};
layout(push_constant, std430) uniform Push {{ Arguments args; }};"""
_APART = re.compile(r"\) restrict (?:readonly|writeonly) (?=buffer (In|Out)_)")


def arguments_in_memory(source: str) -> str:
    """Return a generated kernel with indirect arguments, read from memory."""
    return _PUSHED.sub(lambda found: _STORED.format(members=found["members"]), source)


def results_over_operands(source: str) -> str:
    """Return a generated kernel whose outputs may alias its inputs."""
    return _APART.sub(") ", source)


def in_place_pairs(
    kernel: LoweredKernel, donated: Collection[int]
) -> tuple[tuple[Value, Value], ...]:
    """Return the in-place pairs of a kernel: a donated operand and its result.

    Parameters
    ----------
    kernel : LoweredKernel
    donated : collection of int
        The `id` of dead inputs.
    """
    if kernel.program.group:
        return ()  # elements of a row are read again by later passes
    plain: dict[int, Value] = {}
    moved = set()
    for name, value, offset in kernel.inputs:
        access = kernel.program.accesses[int(name.removeprefix("in"))]
        if id(value) in donated and access.kind == "linear" and not offset:
            plain[id(value)] = value
        else:
            moved.add(id(value))
    return tuple(
        (value, result)
        for value in plain.values()
        for _, result in kernel.outputs
        if id(value) not in moved
        and value.numel == result.numel
        and value.dtype.itemsize == result.dtype.itemsize
    )
