"""How many elements a fused kernel's invocations take, where measuring has chosen.

On a GPU an invocation takes four elements, and a workgroup has 256 invocations. More
elements keep more memory in flight and share what is computed once; which is best
depends on how much there is to compute, and on the device. See `autotune`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..autotune import autotune
from ..base.dtype import DTYPES
from ..base.shape import ceil_div
from ..ir.kernel_call import StridedSpec, linear_grid
from .glsl.elementwise import includes
from .glsl.wide import GROUPS, PAIR_WORDS
from .ir.program import Program
from .lower_elementwise import WORKGROUP, FusedKernel, Wiring, build_kernel

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..ir.lazy_graph import Node

WORKGROUPS = (128, 256, 512)
"""Invocations of a workgroup to choose from."""

LEAST_QUADS = 1 << 20
"""Groups of four elements from which it is worth a measurement."""


class Way(NamedTuple):
    """How elements are divided among invocations.

    Attributes
    ----------
    pairs : str
        As that of `Program`.
    workgroup : int
        Invocations of a workgroup.
    """

    pairs: str
    workgroup: int


USUAL = Way("", WORKGROUP)

WORDY = Way("apart", 128)
"""The way of kernels that compute much for each element, or write 2-byte ones.

On an NVIDIA H200, driver 580.159.04, it took gelu of 64 Mi floats from 0.139 to 0.130
ms, tanh from 0.135 to 0.129, x * 2 + 1 of float16 from 0.072 to 0.065 and casts to 2
bytes from 0.097 to 0.094, but exponentials from 0.1285 to 0.129 (2026-11-21).
"""

MANY = Way("four", 128)
"""The way of kernels that move elements of 2 bytes only, of which more must be on their
way, and compute much for each.

There it took tanh of 64 Mi bfloat16 from 0.074 to 0.068 ms, gelu from 0.090 to 0.085
and their sums with themselves from 0.072 to 0.067.
"""

WHOLE = Way("joined", 128)
"""The way of those that compute little: relu of 64 Mi bfloat16 took 0.066 ms, 0.067 in
the other way."""

_LONG = ("error_function", "hyperbolic", "trigonometric")
"""Files under `glsl/lib/math/` of functions that take many instructions."""

_BRIEF = ("quick_full_exp(x)", "quick_logistic(x)", "quick_gated(x, x)")
"""Calls of such functions that take few."""


def ways(gpu: DeviceInfo, kernel: FusedKernel) -> dict[str, Way]:
    """Return the ways in which a GPU may run a kernel, by name.

    Parameters
    ----------
    gpu : DeviceInfo
    kernel : FusedKernel
        Of a `Program`.
    """
    most = min(gpu.max_workgroup_invocations, gpu.max_workgroup_size[0])
    forms = {"": "4 elements together", "apart": "8 elements apart"}
    if all(DTYPES[each.dtype].itemsize == 2 for each in _program(kernel).outputs):
        forms["four"] = "16 elements apart"
    if _joins(kernel):
        forms["joined"] = "8 elements joined"
    return {
        f"{title}, {workgroup} invocations": Way(pairs, workgroup)
        for pairs, title in forms.items()
        for workgroup in WORKGROUPS
        if workgroup <= most
    }


def _program(kernel: FusedKernel) -> Program:
    assert isinstance(kernel.program, Program)
    return kernel.program


def _joins(kernel: FusedKernel) -> bool:
    """Whether eight narrow elements can move at once, at addresses that allow it."""
    program = _program(kernel)
    offsets = {name: offset for name, _, offset in kernel.inputs}
    read = [
        (DTYPES[access.dtype].itemsize, offsets[f"in{k}"])
        for k, access in enumerate(program.accesses)
        if access.kind == "linear"
    ]
    sizes = {size for size, _ in read}
    sizes |= {DTYPES[output.dtype].itemsize for output in program.outputs}
    narrow = [(size, offset) for size, offset in read if size in PAIR_WORDS]
    return bool(sizes & PAIR_WORDS.keys()) and all(
        offset % (8 * size) == 0 for size, offset in narrow
    )


def in_way(kernel: FusedKernel, way: Way) -> FusedKernel:
    """Return a kernel for a GPU with its elements divided in another way."""
    program = _program(kernel)
    quads = int(dict(kernel.words)["quads"])
    each = GROUPS.get(way.pairs, 1)
    return kernel._replace(
        program=program._replace(pairs=way.pairs),
        grid=linear_grid(ceil_div(quads, each), way.workgroup),
        workgroup=way.workgroup,
    )


def usual_way(kernel: FusedKernel) -> Way:
    """Return the way of a kernel for a GPU where nothing was measured."""
    program = _program(kernel)
    sizes = {DTYPES[output.dtype].itemsize for output in program.outputs}
    moved = sizes | {
        DTYPES[access.dtype].itemsize
        for access in program.accesses
        if access.kind == "linear"
    }
    if moved == {2}:
        return WHOLE if _is_brief(program) and _joins(kernel) else MANY
    long = {f'#include "lib/math/{file}.glsl"' for file in _LONG}
    return USUAL if long.isdisjoint(includes(program)) and 2 not in sizes else WORDY


def _is_brief(program: Program) -> bool:
    """Whether little is computed for each element."""
    calls = any("lib/math/" in line for line in includes(program))
    first, *more = program.instructions
    return not more and (not calls or first.glsl in _BRIEF)


def build_chosen_kernel(
    nodes: Sequence[Node], wanted: set[int], gpu: DeviceInfo, lanes: int = 0
) -> FusedKernel:
    """Return what `build_kernel` does, in the way of a verdict if there is one."""
    software = gpu.kind == "software"
    wide = software and gpu.shader_int64
    usual = build_kernel(nodes, wanted, software=wide, lanes=lanes)
    if software or dict(usual.words)["quads"] < LEAST_QUADS:
        return usual
    found, own_way = ways(gpu, usual), usual_way(usual)
    usual = in_way(usual, own_way)
    own = next((name for name, way in found.items() if way == own_way), "")
    results = [value for _, value in usual.outputs]
    tuning_key = autotune.tuning_key_of(
        "+".join(node.op.name for node in nodes),
        {
            f"in{k}": StridedSpec(layout.shape, value.dtype, layout)
            for k, (value, layout) in enumerate(Wiring(nodes).operands.values())
        },
        {"outputs": [value.dtype.name for value in results]},
    )
    search_space = autotune.SearchSpace(
        nodes, set(map(id, results)), own, [name for name in found if name != own]
    )
    chosen = found.get(autotune.choice(gpu, tuning_key, search_space))
    return usual if chosen is None else in_way(usual, chosen)
