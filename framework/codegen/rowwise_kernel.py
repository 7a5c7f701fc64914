"""Row kernels: which reductions are rows, and which invocations compute a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..base.shape import ceil_div
from ..ir.kernel_call import fold_grid
from .ir.passes import kept_registers
from .ir.program import MAX_UNIFORM, KernelProgram
from .ir.reductions import SOFTWARE_ROWS, RowSpace, fits_one_kernel, split_of
from .lower import (
    MIN_UNIFORM_LOAD_ELEMENTS,
    LoweredKernel,
    Lowering,
    fits_uniform_loads,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..ir.lazy_graph import Node

WORKGROUP = 128
SOFTWARE_WORKGROUP = 8
"""Invocations per workgroup, unless one row takes more."""

MOST_GROUP = 1024
COMFORTABLE_GROUP = 512
"""Most invocations of a GPU per row, if they can hold the row in registers.

With 1024 fewer workgroups are resident: softmax 8192 x 8192 on an NVIDIA H200, driver
580.159.04, took 0.1460 ms with them and 0.1327 with 512 (2026-11-21).
"""

WANTED_ROUNDS = 2
MOST_ROUNDS = 8
"""Most vectors of four elements that an invocation of a GPU holds in registers."""

BLOCKS_TOGETHER = 4
"""Rows per workgroup with uniform vector loads: it costs 0.1 us to start one."""

MIN_BLOCK_COLUMNS = 128
MAX_BLOCK_COLUMNS = 1024
"""Longest rows with uniform vector loads; longer ones compile for long."""

MAX_REGISTERS = 96
MAX_WORKGROUP_REGISTERS = 40960
"""32-bit registers for elements, per invocation and per workgroup."""


class RowTile(NamedTuple):
    """Row tile: invocations per row, invocations per workgroup, and rounds."""

    group: int
    workgroup: int
    rounds: int


def row_tile(gpu: DeviceInfo, rows: int, columns: int) -> RowTile:
    """Return the row tile of a device.

    Parameters
    ----------
    gpu : DeviceInfo
    rows, columns : int
    """
    fours = ceil_div(columns, 4)
    if not gpu.target.cheap_barriers:
        if rows >= SOFTWARE_ROWS or not subgroup_of(gpu):
            return RowTile(1, SOFTWARE_WORKGROUP, 0)
        return RowTile(gpu.subgroup_size, gpu.subgroup_size, 0)
    desired = max(ceil_div(fours, WANTED_ROUNDS), min(fours, 32))
    group = min(most_group(gpu), 1 << (desired - 1).bit_length())
    if fours <= MOST_ROUNDS * COMFORTABLE_GROUP:
        group = min(group, COMFORTABLE_GROUP)
    return tile_of(gpu, group, columns)


def most_group(gpu: DeviceInfo) -> int:
    """Return the most invocations of a GPU per row."""
    most = min(MOST_GROUP, gpu.max_workgroup_invocations)
    return min(most, gpu.subgroup_size**2) if subgroup_of(gpu) else most


def tile_of(gpu: DeviceInfo, group: int, columns: int) -> RowTile:
    """Return the tile of `group` invocations, in registers if the row fits."""
    rounds = ceil_div(ceil_div(columns, 4), group)
    workgroup = max(group, min(most_group(gpu), WORKGROUP))
    return RowTile(group, workgroup, 0 if rounds > MOST_ROUNDS else rounds)


def subgroup_of(gpu: DeviceInfo) -> int:
    """Return the subgroup size if it is uniform and shuffles are supported, else 0."""
    alike = gpu.min_subgroup_size == gpu.max_subgroup_size == gpu.subgroup_size
    return gpu.subgroup_size if gpu.subgroup_shuffle and alike else 0


def build_rows(
    nodes: Sequence[Node],
    live_out: set[int],
    gpu: DeviceInfo,
    lanes: int = 0,
    tile: RowTile | None = None,
) -> LoweredKernel:
    """Return the kernel that runs `nodes` and writes the values in `live_out`.

    Parameters
    ----------
    nodes : sequence of Node
        Reductions over the same rows, and element-wise nodes of their elements or of
        their results, in order.
    live_out : set of int
        `id` of each live-out value.
    gpu : DeviceInfo
        Device of the plan.
    lanes : int, default 0
        Subgroup size of a software device for uniform vector loads, see
        `glsl.lavapipe`; 0 disables them.
    tile : RowTile or None
        Row tile, without uniform vector loads; None chooses.
    """
    space = space_of_all(nodes)
    by_bits = gpu.target.flushes_subnormals
    lowering = Lowering(nodes, live_out, space, by_bits=by_bits)
    if tile is None and _profits_from_uniform_loads(space, gpu):
        group = subgroup_of(gpu)
        tile = RowTile(group, BLOCKS_TOGETHER * group, space.columns // (4 * group))
        program = _tiled(lowering, tile, gpu)._replace(lanes=lanes)
        if not lanes or not fits_uniform_loads(program):
            # Uniform loads depend on what is fused; the summation order must not.
            program = _tiled(lowering, tile._replace(rounds=0), gpu)
    else:
        tile = tile or row_tile(gpu, space.rows, space.columns)
        program = _tiled(lowering, tile, gpu)
    grid = fold_grid(ceil_div(space.rows, tile.workgroup // tile.group))
    return lowering.kernel(program, grid, tile.workgroup)


def _tiled(lowering: Lowering, tile: RowTile, gpu: DeviceInfo) -> KernelProgram:
    """Return the program of a row tile, in a loop if it takes too many registers."""
    (group, workgroup, rounds), columns = tile, lowering.space.columns
    whole = 4 * group * rounds if rounds else 4 * group if group == 1 else 0
    program = lowering.program._replace(
        rounds=rounds,
        group=group,
        subgroup=subgroup_of(gpu),
        neighbours=columns % 4 == 0,
        exact=whole > 0 and columns % whole == 0,
    )
    # Software devices have no register limit.
    if not rounds or not gpu.target.limits_registers:
        return program
    most = min(MAX_REGISTERS, MAX_WORKGROUP_REGISTERS // workgroup)
    if 4 * rounds * kept_registers(program) <= most:
        return program
    return program._replace(rounds=0, exact=False)


def _profits_from_uniform_loads(space: RowSpace, gpu: DeviceInfo) -> bool:
    """Whether rows are whole vectors of a software device, within the length limits.

    Shorter ones gain nothing, longer ones compile for long.
    """
    lanes = subgroup_of(gpu)
    return (
        gpu.target.uniform_loads
        and lanes >= 4
        and space.columns % (4 * lanes) == 0
        and MIN_BLOCK_COLUMNS <= space.columns <= MAX_BLOCK_COLUMNS
        and space.rows * space.columns >= MIN_UNIFORM_LOAD_ELEMENTS
        and space.rows <= MAX_UNIFORM
    )


def space_of(node: Node) -> RowSpace | None:
    """Return the row space of a reduction, if it reduces rows."""
    if node.op.reduction is None:
        return None
    shape, dims = node.inputs[0].layout.shape, dict(node.params)["dims"]
    assert isinstance(dims, tuple)
    split = split_of(shape, dims)
    return None if split is None else RowSpace(shape, split)


def space_of_all(nodes: Sequence[Node]) -> RowSpace:
    """Return the common row space of the reductions in one kernel."""
    return next(space for space in map(space_of, nodes) if space)


def fuses_rows(gpu: DeviceInfo) -> bool:
    """Return whether a device has generated row kernels.

    The compiler of SwiftShader, the software device without 64-bit integers, takes
    minutes for functions with branches that are called in a loop.
    """
    return gpu.target.compiles_row_kernels


_MOST_ACROSS = 1 << 18
"""Elements of rows across memory up to which they are fused on hardware."""


def row_space(node: Node, gpu: DeviceInfo) -> RowSpace | None:
    """Return the row space of a reduction to fuse into one kernel; else None.

    Long rows are fused only if there are enough of them to occupy the device; and on
    hardware only those that lie along memory, unless there are few elements: sums of
    the columns of 4096 x 4096 floats took 270 us as rows of the transposed tensor, and
    25 us where neighbours sum adjacent ones (NVIDIA H200, 580.159.04, 2026-11-30).
    """
    space = space_of(node)
    if space is None or not fuses_rows(gpu):
        return None
    software = not gpu.target.hides_latency
    many = space.rows * space.columns > _MOST_ACROSS
    if many and not software and _lies_across(node, space):
        return None
    return space if fits_one_kernel(space, software) else None


def _lies_across(node: Node, space: RowSpace) -> bool:
    """Return whether neighbours in memory are of different rows."""
    shape, strides, _ = node.inputs[0].layout
    steps = [
        min([abs(step) for size, step in each if size > 1 and step], default=None)
        for each in (
            list(zip(shape[: space.split], strides[: space.split])),
            list(zip(shape[space.split :], strides[space.split :])),
        )
    ]
    apart, along = steps
    return apart is not None and along is not None and apart < along
