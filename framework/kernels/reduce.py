"""Reduction kernels: workgroup tiling, two-pass split and launch parameters."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..base.dtype import (
    DType,
    bfloat16,
    float16,
    float32,
    int32,
    int64,
    uint32,
)
from ..base.errors import ShapeError
from ..base.shape import Collapsed, Layout, Shape, TensorSpec, ceil_div, collapse
from ..codegen.ir.program import DIGIT_WORDS, MAX_UNIFORM
from ..ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    BufferOffset,
    Dispatch,
    PersistentScratch,
    Scratch,
    StridedSpec,
    check_rounds,
    divisor,
    fold_grid,
    least_chunks,
)
from .gpu_model import model_of
from .shader_types import acc_size, shuffle_defines, storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo


OPERATIONS = ("SUM", "PROD", "MAX", "MIN")
MAPS = ("", "abs", "square", "nonzero", "number", "is_number", "zero", "factor")
"""Element-wise maps before the reduction; both in the order of the shader's numbers."""

NO_MACROS: Mapping[str, str] = {}

MAX_DIMS = 4
"""Most kept, and most reduced, dimensions of the shader."""

MOST_ELEMENTS = 1 << 32
"""Elements and offsets that shaders index in 32 bits."""

QUAD_DTYPES = (float32, float16, bfloat16, int32, uint32)
QUAD = 4
"""Elements of a vec4 load, and the dtypes that have them."""

SUM_KERNEL = "reduce/reduce"
"""Kernel of sums, products and extremes, whose states are single numbers."""

QUADS_OF_STATE = 4
"""vec4 loads of an invocation of other kernels, where that leaves enough of them: they
merge states in shared memory."""

ENOUGH_INVOCATIONS = 128
"""For each multiprocessor: argmax of 2048 rows of 1024 took 10.5 us by a load of each
invocation, of 3072 rows 6.3 by four (NVIDIA H200, driver 580.159.04, 2026-12-01)."""

LEAST_COLUMNS, LEAST_FOR_COLUMNS = 32, 1 << 23
"""Outputs, and elements, from which they do: sums of (8192, 3072) of two bytes took
17 us and not 27, but those of (1024, 1024) words 6.6 and not 6.1 (NVIDIA H200, driver
580.159.04, 2026-11-30)."""

WORKGROUP = 256
SOFTWARE_WORKGROUP = 64
"""Workgroup size where invocations share nothing."""

# A reduction with fewer workgroups than wanted is split into chunks, which a second
# pass merges, as long as a chunk keeps enough elements to be worth a workgroup.
MIN_CHUNK = 4096

SIDE, NARROW_SIDE = 32, 8
"""Adjacent outputs that a workgroup takes at least: a cache line of words, or a sector
where partial states of so few outputs would leave multiprocessors idle."""

PASSED_AHEAD = 16
"""Most bytes before the partial states in `Passed` of `reduce/body.glsl`."""

MOST_ALONE = 32
"""Most elements that an invocation sums sequentially in autotune candidates."""


UNIFORM_LANES = (4, 8)
"""Subgroup sizes of software devices that kernels have uniform loads for."""

UNIFORM_ROUNDS = (32, 64)
"""Elements that an invocation reduces with such loads, unrolled, of runs of up to
`SHORT_RUN` and of longer ones, which leave the second pass more states."""

LEAST_RUN = 1 << 18
"""Elements of a run from which such loads pay for words, and for floats of two bytes,
which are decoded; for smaller integers they pay from the first."""

SHORT_RUN = 1 << 19
LONGEST_RUN = {1: 1 << 23, 2: 1 << 22, 4: 1 << 20, 8: 1 << 20}
"""Elements of runs that such loads pay for, by the bytes of an element. The second pass
is one workgroup's."""


class PassSpec(NamedTuple):
    """Pass of a reduction: its arguments, constants and macros."""

    push: Mapping[str, Argument]
    constants: Mapping[str, int]
    defines: Mapping[str, str]


class ReductionKernel(NamedTuple):
    """Reduction kernel built on `reduce/body.glsl`, in one pass or in two.

    Attributes
    ----------
    kernel : str
    state_size : int
        Bytes of a chunk's partial state.
    partial : str
        The argument that takes partial states.
    only, first, second : PassSpec
        The single pass; the first of two, over chunks; the second, over their states.
    ordered : bool, default False
        Whether results tell positions, so that elements are numbered in their order.
    """

    kernel: str
    state_size: int
    partial: str
    only: PassSpec
    first: PassSpec
    second: PassSpec
    ordered: bool = False


def sum_like(
    operation: str,
    x: DType,
    out: DType,
    scale: float = 1,
    mapping: str = "",
    other: str = "",
) -> ReductionKernel:
    """Return the reduction to a sum, product or extreme.

    Parameters
    ----------
    operation : str
        One of `OPERATIONS`.
    x, out : DType
        The result's is that of `x`, float32 for a 2-byte float, or int64 for an
        integer.
    scale : float, default 1
        Factor of the result.
    mapping : str
        One of `MAPS`.
    other : str
        Operand of the layout of `x`, if what is reduced are the products of both.
    """
    constants = {"OPERATION": OPERATIONS.index(operation), "MAP": MAPS.index(mapping)}
    wide = {"WIDE": "1"} if out is int64 and x is not int64 else {}
    grows = x.is_float and out is not x
    plain = storage_defines(out) if wide or grows else storage_defines(x, in_acc=True)
    results: dict[str, Argument] = {"out_": "out", "scale": scale}
    pair: dict[str, Argument] = {"y": other} if other else {}
    paired = {"PAIRED": "1"} if other else {}
    only = {**storage_defines(x, out_acc=grows), **wide, **paired}
    first = {**storage_defines(x, out_acc=True), **wide, **paired}
    return ReductionKernel(
        "reduce/reduce",
        8 if wide else acc_size(x),
        "out_",
        PassSpec({**results, **pair}, constants, only),
        PassSpec({"scale": 1, **pair}, constants, first),
        PassSpec(results, {**constants, "MAP": 0}, plain),
    )


def stateful(
    kernel: str,
    x: DType,
    fields: int,
    results: Mapping[str, Argument],
    constants: Mapping[str, int],
    macros: Mapping[str, str] = NO_MACROS,
    ordered: bool = False,
) -> ReductionKernel:
    """Return a reduction whose partial state has several `fields`.

    `macros` are those of the passes that store results.
    """
    defines = storage_defines(x)
    return ReductionKernel(
        kernel,
        fields * acc_size(x),
        "states",
        PassSpec(results, constants, {**defines, **macros}),
        PassSpec({}, constants, {**defines, "PARTIAL": "1"}),
        PassSpec(results, constants, {**defines, **macros, "MERGE": "1"}),
        ordered,
    )


def sharing_workgroup(gpu: DeviceInfo) -> int:
    """Return the workgroup size of a reduction whose invocations share one result.

    Where barriers between subgroups are expensive, it is one subgroup.
    """
    return WORKGROUP if gpu.target.cheap_barriers else gpu.subgroup_size


def split_dims(
    layout: Layout, dims: tuple[int, ...], ordered: bool = False
) -> tuple[Collapsed, Collapsed]:
    """Return the kept and the reduced dimensions, each collapsed.

    Unless `ordered`, the reduced ones may be those in the order of memory, so that a
    transposed tensor is reduced as the contiguous one that it is a view of.
    """
    sides = []
    for wanted in (False, True):
        chosen = [dim for dim in range(len(layout.shape)) if (dim in dims) == wanted]
        part = layout.permute(chosen)
        sides.append(collapse(part.shape, [part.strides]))
    kept, reduced = sides
    if len(reduced.shape) > 1 and not ordered:
        (steps,) = reduced.strides
        pairs = sorted(zip(steps, reduced.shape), key=lambda pair: -pair[0])
        inner = tuple(step for step, _ in pairs)
        in_memory = collapse(tuple(size for _, size in pairs), [inner])
        if len(in_memory.shape) < len(reduced.shape):
            reduced = in_memory
    return kept, reduced


@functools.lru_cache(maxsize=4096)
def kept_shape(shape: Shape, dims: tuple[int, ...]) -> Shape:
    """Return the shape with 1 in place of the reduced dimensions."""
    return tuple(1 if dim in dims else size for dim, size in enumerate(shape))


@functools.lru_cache(maxsize=4096)
def dropped_shape(shape: Shape, dims: tuple[int, ...]) -> Shape:
    """Return the shape without the reduced dimensions."""
    return tuple(size for dim, size in enumerate(shape) if dim not in dims)


def need_countable(name: str, x: StridedSpec) -> None:
    """Raise `ShapeError` if a shader cannot reach every element in 32 bits."""
    steps = zip(x.layout.shape, x.layout.strides)
    reach = 1 + sum((size - 1) * stride for size, stride in steps)
    if max(reach, x.numel) > MOST_ELEMENTS:
        raise ShapeError(
            f"{name}: shape {tuple(x.shape)} has {x.numel} elements, which reach"
            f" {reach} places far; devices take at most {MOST_ELEMENTS} of each"
        )


def reduce_dispatches(
    gpu: DeviceInfo,
    reduction: ReductionKernel,
    x: StridedSpec,
    dims: tuple[int, ...],
    wanted: int | None = None,
    other: StridedSpec | None = None,
) -> list[Dispatch]:
    """Return the dispatches that reduce `x` over `dims`, one or two.

    With vec4 loads one dispatch also merges the chunks of a single result.

    Parameters
    ----------
    gpu : DeviceInfo
        Where they run.
    reduction : ReductionKernel
    x : StridedSpec
        At least one element along the reduced dimensions.
    dims : tuple of int
        Reduced dimensions.
    wanted : int or None
        Target number of workgroups, which sets the chunk count; None chooses.
    other : StridedSpec or None
        The second operand of a reduction of products, of the shape and strides of `x`.
    """
    need_countable(reduction.kernel, x)
    kept, reduced = split_dims(x.layout, dims, reduction.ordered)
    outputs, count = math.prod(kept.shape), math.prod(reduced.shape)
    if wanted is None and not other and has_uniform_runs(gpu, x, kept, reduced):
        return _with_uniform_loads(gpu, reduction, kept, count)
    by_columns = has_column_quads(gpu, x, kept, reduced)
    side = output_tile(gpu, kept, reduced, by_columns)[1]
    groups = ceil_div(outputs, side * (QUAD if by_columns else 1))
    # Of vec4 loads a chunk has as many as of others.
    share = count * min(side, outputs) if gpu.target.hides_latency else count
    wanted = wanted or wanted_groups(gpu, outputs)
    chunks = max(1, min(ceil_div(wanted, groups), share // MIN_CHUNK))
    chunks = min(max(chunks, least_chunks(gpu, count)), MAX_GROUPS)
    vec4_loads = is_vec4_readable(gpu, x, kept, reduced)
    if vec4_loads or by_columns:
        offsets = [each.layout.offset for each in (x, other) if each]
        apart = any(offset % QUAD for offset in offsets)
        macro = "COLUMN_QUADS" if by_columns else "QUADS"
        reduction = _with_vec4_loads(reduction, macro, apart)
    kernel = reduction.kernel
    if chunks == 1:
        return [_dispatch(gpu, kernel, reduction.only, {"x": "x"}, kept, reduced)]
    if vec4_loads and outputs == 1:
        passed = PersistentScratch(PASSED_AHEAD + chunks * reduction.state_size)
        places: dict[str, Argument] = {"x": "x", "passed": passed}
        once = _with_macro(reduction.only, "ONCE")
        return [_dispatch(gpu, kernel, once, places, kept, reduced, chunks)]
    partial = Scratch("partial", outputs * chunks * reduction.state_size)
    sources: dict[str, Argument] = {"x": "x", reduction.partial: partial}
    first = _dispatch(gpu, kernel, reduction.first, sources, kept, reduced, chunks)
    return [first, _combine(gpu, reduction, partial, chunks, outputs)]


def wanted_groups(gpu: DeviceInfo, outputs: int) -> int:
    """Return the target number of workgroups, which sets the chunk count."""
    model = model_of(gpu)
    return model.reduction_groups if outputs > 1 else model.full_reduction_groups


def is_vec4_readable(
    gpu: DeviceInfo, x: StridedSpec, kept: Collapsed, reduced: Collapsed
) -> bool:
    """Return whether the elements of each output are reduced in vec4 order.

    Unaligned elements are too, with scalar loads: the summation order must not depend
    on a tensor's offset.
    """
    if not gpu.target.vec4_loads or x.dtype not in QUAD_DTYPES:
        return False
    *steps, last = reduced.strides[0]
    if last != 1:
        return False
    if math.prod(kept.shape) == 1 and not steps:
        return reduced.shape[0] >= QUAD
    sizes = reduced.shape[-1], *steps, *kept.strides[0]
    return all(size % QUAD == 0 for size in sizes)


def has_column_quads(
    gpu: DeviceInfo, x: StridedSpec, kept: Collapsed, reduced: Collapsed
) -> bool:
    """Return whether the elements of four adjacent outputs are vec4.

    Unaligned elements are read with scalar loads, in the same order of summation.
    """
    steps = [*kept.strides[0][:-1], *reduced.strides[0]]
    return (
        gpu.target.vec4_loads
        and x.dtype in QUAD_DTYPES
        and kept.strides[0][-1] == 1
        and kept.shape[-1] % QUAD == 0
        and math.prod(kept.shape) >= LEAST_COLUMNS
        and x.numel >= LEAST_FOR_COLUMNS
        and all(step % QUAD == 0 for step in steps)
    )


def has_uniform_runs(
    gpu: DeviceInfo, x: StridedSpec, kept: Collapsed, reduced: Collapsed
) -> bool:
    """Return whether each output is of a contiguous run that uniform loads pay for."""
    count = math.prod(reduced.shape)
    reach = (kept.shape[0] - 1) * kept.strides[0][0] + count
    least = 0 if x.dtype.itemsize < 4 and not x.dtype.is_float else LEAST_RUN
    return (
        gpu.target.uniform_loads
        and gpu.subgroup_size in UNIFORM_LANES
        and len(kept.shape) == 1
        and reduced.strides == ((1,),)
        and max(least, UNIFORM_ROUNDS[0] * gpu.subgroup_size) <= count
        and count <= LONGEST_RUN[x.dtype.itemsize]
        and reach <= MAX_UNIFORM
    )


def _with_uniform_loads(
    gpu: DeviceInfo, reduction: ReductionKernel, kept: Collapsed, count: int
) -> list[Dispatch]:
    """Return the dispatches of which the first has uniform loads, the second merges.

    Each invocation of the first leaves a state.
    """
    outputs, lanes = kept.shape[0], gpu.subgroup_size
    rounds = UNIFORM_ROUNDS[count > SHORT_RUN]
    chunks = ceil_div(count, lanes * rounds)
    partial = Scratch("partial", outputs * chunks * lanes * reduction.state_size)
    push: dict[str, Argument] = {"x": "x", reduction.partial: partial}
    push |= {**reduction.first.push, "outputs": outputs, "count": count}
    push |= {"apart": kept.strides[0][0], **dict(DIGIT_WORDS)}
    constants = {"LOCAL_X": lanes, "GROUP": lanes, **reduction.first.constants}
    defines = {**reduction.first.defines, "UNIFORM_LOADS": "1"}
    defines |= {"LANES": str(lanes), "ROUNDS": str(rounds)}
    grid = fold_grid(outputs, chunks)
    first = Dispatch(reduction.kernel, grid, push, constants, defines)
    return [first, _combine(gpu, reduction, partial, chunks * lanes, outputs)]


def _with_vec4_loads(
    reduction: ReductionKernel, macro: str, apart: bool
) -> ReductionKernel:
    """Return the reduction with vec4 loads in the passes that read the tensor.

    `apart` says that these do not begin at multiples of four elements.
    """
    macros = (macro, "APART") if apart else (macro,)
    steps = reduction.only, reduction.first
    for macro in macros:
        steps = _with_macro(steps[0], macro), _with_macro(steps[1], macro)
    return reduction._replace(only=steps[0], first=steps[1])


def _with_macro(step: PassSpec, name: str) -> PassSpec:
    return step._replace(defines={**step.defines, name: "1"})


def _combine(
    gpu: DeviceInfo,
    reduction: ReductionKernel,
    partial: Scratch,
    chunks: int,
    outputs: int,
) -> Dispatch:
    """Return the second pass, which merges the partial states (chunks, outputs)."""
    kept, reduced = Collapsed((outputs,), ((1,),)), Collapsed((chunks,), ((outputs,),))
    push: dict[str, Argument] = {"x": partial}
    step, multiprocessors = reduction.second, model_of(gpu).multiprocessors
    side = SIDE if ceil_div(outputs, SIDE) >= multiprocessors else NARROW_SIDE
    return _dispatch(gpu, reduction.kernel, step, push, kept, reduced, 1, side)


def sum_rows(
    gpu: DeviceInfo,
    rows: Scratch,
    x: TensorSpec,
    count: int,
    numel: int,
    result: str | BufferOffset = "out",
) -> Dispatch:
    """Return the dispatch that sums `count` rows of `numel` partial sums.

    `result` is the output of the operation that takes them, or an offset in it.
    """
    reduction = sum_like("SUM", x.dtype, x.dtype)
    step = reduction.second
    step = step._replace(push={**step.push, "out_": result})
    return _combine(gpu, reduction._replace(second=step), rows, count, numel)


def group_tile(
    gpu: DeviceInfo,
    outputs: int,
    count: int,
    side_by_side: bool,
    side: int = SIDE,
    each: int = QUAD,
) -> tuple[int, int, int]:
    """Return invocations per output, outputs per workgroup, 1 if those are adjacent.

    The invocations of an output share its `count` elements, at least `each` of them;
    neighbours take adjacent elements, so that loads are coalesced: those of `side`
    outputs, at least.
    """
    few = outputs < SOFTWARE_WORKGROUP and count >= 8
    if not gpu.target.hides_latency and not few:
        return 1, SOFTWARE_WORKGROUP, int(side_by_side)
    size = sharing_workgroup(gpu)
    most = size // min(side, size, _power_of_two(outputs)) if side_by_side else size
    group = min(_power_of_two(max(1, count // each)), most)
    return group, size // group, int(side_by_side)


def group_tiles(
    gpu: DeviceInfo, rows: int, count: int
) -> dict[str, tuple[int, int, int]]:
    """Return the candidates for `group_tile` of rows, by name, for autotuning.

    The rounding error grows with the sequential sum of an invocation, so no candidate
    has a much longer one than the default.
    """
    usual, size = group_tile(gpu, rows, count, False), sharing_workgroup(gpu)
    tiles = [(size // rows, rows, 0) for rows in (1, 4, 8) if size % rows == 0]
    if not gpu.target.cheap_barriers:
        tiles = [(1, SOFTWARE_WORKGROUP, 0), (size, 1, 0)]
    most = max(MOST_ALONE, ceil_div(count, usual[0]))
    return {
        f"{tile[0]} invocations walk a row": tile
        for tile in [*tiles, usual]
        if ceil_div(count, tile[0]) <= most
    }


def output_tile(
    gpu: DeviceInfo,
    kept: Collapsed,
    reduced: Collapsed,
    by_columns: bool = False,
    side: int = SIDE,
    loads: int = 1,
) -> tuple[int, int, int]:
    """Return the `group_tile` of these dimensions, `by_columns` of four outputs.

    An invocation has so many vec4 `loads` of rows, where that leaves enough of them.
    """
    outputs, count = math.prod(kept.shape), math.prod(reduced.shape)
    side_by_side = kept.strides[0][-1] == 1 and outputs > 1
    enough = ENOUGH_INVOCATIONS * model_of(gpu).multiprocessors
    each = QUAD * loads if outputs * count >= QUAD * loads * enough else QUAD
    outputs //= QUAD if by_columns else 1
    return group_tile(gpu, outputs, count, side_by_side, side, each)


def _power_of_two(value: int) -> int:
    """Return the largest power of two that is at most `value`."""
    return 1 << (value.bit_length() - 1)


def _dispatch(
    gpu: DeviceInfo,
    kernel: str,
    step: PassSpec,
    places: Mapping[str, Argument],
    kept: Collapsed,
    reduced: Collapsed,
    chunks: int = 1,
    side: int = SIDE,
) -> Dispatch:
    outputs = math.prod(kept.shape)
    by_columns = "COLUMN_QUADS" in step.defines
    stateful_rows = "QUADS" in step.defines and kernel != SUM_KERNEL
    loads = QUADS_OF_STATE if stateful_rows else 1
    tile = output_tile(gpu, kept, reduced, by_columns, side, loads)
    group, per_workgroup, side_by_side = tile
    count = math.prod(reduced.shape)
    check_rounds(gpu, kernel, ceil_div(count, group * chunks))
    push: dict[str, Argument] = {**places, **step.push}
    push |= {"outputs": outputs, "count": count}
    for name, part in (("kept", kept), ("reduced", reduced)):
        # Innermost first; the size of the outermost is not needed.
        sizes = part.shape[::-1] + (1,) * MAX_DIMS
        strides = part.strides[0][::-1] + (0,) * MAX_DIMS
        for dim in range(MAX_DIMS):
            push[f"{name}_stride[{dim}]"] = strides[dim]
        for dim in range(MAX_DIMS - 1):
            push[f"{name}_size[{dim}]"] = sizes[dim]
            if name == "reduced":
                magic, shift = divisor(sizes[dim])
                push[f"reduced_magic[{dim}]"] = magic
                push[f"reduced_shift[{dim}]"] = shift
    constants = {
        "LOCAL_X": group * per_workgroup,
        "GROUP": group,
        "OUTPUTS_FAST": side_by_side,
        "KEPT_DIMS": len(kept.shape),
        "REDUCED_DIMS": len(reduced.shape),
    }
    tiles = ceil_div(outputs // QUAD if by_columns else outputs, per_workgroup)
    grid = fold_grid(tiles, chunks)
    defines = dict(step.defines)
    if kernel == "reduce/reduce" and 1 in (per_workgroup, outputs):
        defines |= shuffle_defines(gpu, defines, group)
        constants["LOCAL_X"] = group if "SHUFFLES" in defines else constants["LOCAL_X"]
    return Dispatch(kernel, grid, push, {**constants, **step.constants}, defines)
