"""Variants of element-wise kernels: elements per invocation and workgroup size.

On a GPU an invocation takes four elements, and a workgroup has 256 invocations. More
elements keep more memory in flight and share common index arithmetic; those of eight
bytes are taken in pairs, for the sake of stores. The best variant depends on the
arithmetic intensity, and on the device. See `autotune`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..autotune import autotune
from ..base.dtype import DTYPES
from ..base.shape import ceil_div
from ..ir.kernel_call import StridedSpec, linear_grid
from .glsl.expression import includes
from .glsl.wide import GROUPS, VEC8_WORDS
from .ir.program import DRAWN, KernelProgram
from .lower import WORKGROUP, LoweredKernel, build_kernel, operands_of
from .rowwise_kernel import subgroup_of

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..ir.lazy_graph import Node

WORKGROUPS = (128, 256, 512)
"""Candidate workgroup sizes, in invocations."""

MIN_VEC4S = 1 << 20
"""Groups of four elements from which a kernel is benchmarked."""


class Variant(NamedTuple):
    """Variant: elements per invocation, and workgroup size.

    Attributes
    ----------
    pairs : str
        See `KernelProgram`.
    workgroup : int
        Invocations per workgroup.
    """

    pairs: str
    workgroup: int


BASELINE = Variant("", WORKGROUP)

COMPUTE_HEAVY = Variant("apart", 128)
"""Default variant of compute-heavy kernels, and of those that write 2-byte elements.

On an NVIDIA H200, driver 580.159.04, it took gelu of 64 Mi floats from 0.139 to 0.130
ms, tanh from 0.135 to 0.129, x * 2 + 1 of float16 from 0.072 to 0.065 and casts to 2
bytes from 0.097 to 0.094, but exponentials from 0.1285 to 0.129 (2026-11-21).
"""

NARROW = Variant("four", 128)
"""Default variant of kernels on elements of 1 and 2 bytes only, which need more loads
in flight.

There it took tanh of 64 Mi bfloat16 from 0.074 to 0.068 ms, gelu from 0.090 to 0.085
and their sums with themselves from 0.072 to 0.067; and `logical_not` of 16 Mi bools
from 0.0155 to 0.0112 ms, `x == 1` of uint8 from 0.0153 to 0.0110 and `isnan` of float16
from 0.0193 to 0.0162 (2026-11-29), which in "joined" took 0.0150, 0.0153 and 0.0167.
"""

MEMORY_BOUND_16BIT = Variant("joined", 128)
"""Default variant of memory-bound ones: relu of 64 Mi bfloat16 took 0.066 ms, 0.067 in
the other variant."""

SPLIT = Variant("split", WORKGROUP)
"""Default variant of kernels that write elements of 8 bytes: see `glsl.split`."""

_LONG = (
    "bessel",
    "cylinder",
    "error_function",
    "gamma",
    "hyperbolic",
    "orthogonal",
    "quantile",
    "trigonometric",
)
"""Files under `glsl/lib/math/` of functions that take many instructions."""

_BRIEF = ("quick_full_exp(x)", "quick_logistic(x)", "quick_gated(x, x)")
"""Calls of such functions that take few."""


def variants(gpu: DeviceInfo, kernel: LoweredKernel) -> dict[str, Variant]:
    """Return the candidate variants of a kernel on a GPU, by name.

    Parameters
    ----------
    gpu : DeviceInfo
    kernel : LoweredKernel
        Its program is a `KernelProgram`.
    """
    most = min(gpu.max_workgroup_invocations, gpu.max_workgroup_size[0])
    forms = {"": "4 elements together", "apart": "8 elements apart"}
    if all(DTYPES[each.dtype].itemsize <= 2 for each in kernel.program.outputs):
        forms["four"] = "16 elements apart"
    if _joins(kernel):
        forms["joined"] = "8 elements joined"
    if _splits(kernel):
        forms["split"] = "2 pairs of elements"
    return {
        f"{title}, {workgroup} invocations": Variant(pairs, workgroup)
        for pairs, title in forms.items()
        for workgroup in WORKGROUPS
        if workgroup <= most
    }


def _splits(kernel: LoweredKernel) -> bool:
    """Whether elements of 8 bytes are written, and pairs of each can be.

    A pair of single bytes is no word, and what is drawn is exchanged in subgroups.
    """
    program = kernel.program
    sizes = [DTYPES[output.dtype].itemsize for output in program.outputs]
    kinds = {access.kind for access in program.accesses}
    made = kinds.isdisjoint(DRAWN) or program.subgroup > 0
    return max(sizes) == 8 and min(sizes) > 1 and made and "product" not in kinds


def _joins(kernel: LoweredKernel) -> bool:
    """Whether eight narrow elements can be loaded at once, at aligned addresses."""
    program = kernel.program
    offsets = {name: offset for name, _, offset in kernel.inputs}
    read = [
        (DTYPES[access.dtype].itemsize, offsets[f"in{k}"])
        for k, access in enumerate(program.accesses)
        if access.kind == "linear"
    ]
    sizes = {size for size, _ in read}
    sizes |= {DTYPES[output.dtype].itemsize for output in program.outputs}
    narrow = [(size, offset) for size, offset in read if size in VEC8_WORDS]
    return bool(sizes & VEC8_WORDS.keys()) and all(
        offset % (8 * size) == 0 for size, offset in narrow
    )


def with_variant(kernel: LoweredKernel, variant: Variant) -> LoweredKernel:
    """Return a kernel for a GPU in another variant."""
    program = kernel.program
    vec4s = int(dict(kernel.words)["quads"])
    each = GROUPS.get(variant.pairs, 1)
    return kernel._replace(
        program=program._replace(pairs=variant.pairs),
        grid=linear_grid(ceil_div(vec4s, each), variant.workgroup),
        workgroup=variant.workgroup,
    )


def default_variant(kernel: LoweredKernel) -> Variant:
    """Return the variant of a kernel for a GPU without a tuning result."""
    program = kernel.program
    sizes = {DTYPES[output.dtype].itemsize for output in program.outputs}
    moved = sizes | {
        DTYPES[access.dtype].itemsize
        for access in program.accesses
        if access.kind == "linear"
    }
    if moved == {2} and _is_brief(program) and _joins(kernel):
        return MEMORY_BOUND_16BIT
    if moved <= {1, 2}:
        return NARROW
    if _splits(kernel):
        return SPLIT
    long = {f'#include "lib/math/{file}.glsl"' for file in _LONG}
    return (
        BASELINE
        if long.isdisjoint(includes(program)) and 2 not in sizes
        else COMPUTE_HEAVY
    )


def _is_brief(program: KernelProgram) -> bool:
    """Whether a program takes few instructions per element."""
    calls = any("lib/math/" in line for line in includes(program))
    first, *more = program.instructions
    return not more and (not calls or first.glsl in _BRIEF)


def build_chosen_kernel(
    nodes: Sequence[Node], live_out: set[int], gpu: DeviceInfo, lanes: int = 0
) -> LoweredKernel:
    """Return the kernel of `build_kernel`, in the tuned variant if there is one."""
    target = gpu.target
    default = build_kernel(
        nodes,
        live_out,
        target.uniform_loads,
        lanes=lanes,
        by_bits=target.flushes_subnormals,
        coalesces=target.coalesces_loads,
    )
    if default.program.tile:
        return default
    if not target.vec4_loads or dict(default.words)["quads"] < MIN_VEC4S:
        return default
    default = default._replace(
        program=default.program._replace(subgroup=subgroup_of(gpu))
    )
    found, own_variant = variants(gpu, default), default_variant(default)
    default = with_variant(default, own_variant)
    own = next((name for name, variant in found.items() if variant == own_variant), "")
    results = [value for _, value in default.outputs]
    tuning_key = autotune.tuning_key_of(
        "+".join(node.op.name for node in nodes),
        {
            f"in{k}": StridedSpec(layout.shape, value.dtype, layout)
            for k, (value, layout) in enumerate(operands_of(nodes).values())
        },
        {"outputs": [value.dtype.name for value in results]},
    )
    search_space = autotune.SearchSpace(
        nodes, set(map(id, results)), own, [name for name in found if name != own]
    )
    chosen = found.get(autotune.choice(gpu, tuning_key, search_space))
    return default if chosen is None else with_variant(default, chosen)
