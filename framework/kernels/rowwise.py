"""Register-resident rows: launch parameters of `norm/row_registers.glsl`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..base import trace_hooks
from ..base.device import GpuDevice
from ..base.dtype import SINGLE, DType
from ..base.shape import ceil_div
from ..ir.kernel_call import Grid, fold_grid

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor

LANES = 4
"""Elements of a vec4 load or store."""

LARGEST = 1024
"""Most invocations per row, within the device's limit."""

LEAST_COMPOSED = 1 << 14
"""Elements from which a fused kernel is worth compiling."""

LEAST_COMPOSED_EAGER = 1 << 22
"""Elements from which it gains a GPU more than its nodes cost the host."""

LEAST_COMPOSED_COLUMNS = 1024
"""Elements of a strided row from which its fused reductions are faster on a GPU."""

FUSED = "fused"
SPLIT = "split"
"""Ways to compose a row op: ops that fuse into one kernel; or one reduction, which
workgroups share, and an element-wise kernel."""

LEAST_SPLIT = 1 << 15
"""Elements of a row from which workgroups share it, if no registers hold it."""

FEW_LONG_ROWS = 128
"""Rows up to which those of gradients are split also if registers hold one operand: a
workgroup for each would leave a GPU idle."""

LOOPED = 1 << 16
"""Rows at once that no registers hold, however short they are."""

SMALLEST_WORKGROUP = 128
"""Least workgroup size; short rows share a workgroup."""

LEAST_QUADS = (1, 2, 4, 8, 16)
"""Target vec4 per invocation of the autotune candidates."""

# Most vec4 of a row per invocation, by the invocations of a row: its share of a
# register file of 64 Ki words on current GPUs, less 25 words for everything else.
_REGISTERS = 1 << 16
_OTHER_REGISTERS = 25
_MOST_REGISTERS = 127


class RowTile(NamedTuple):
    """Tile of a row kernel: invocations per row and vec4 registers per invocation.

    Attributes
    ----------
    group : int
        Invocations per row.
    kept : int
        Register-resident vec4 per invocation.
    per_workgroup : int
        Rows per workgroup.
    ends : int
        Alignment of rows: 0 if a row fills all vec4, 1 if it ends with a vec4, 2 if it
        may begin and end within one.
    """

    group: int
    kept: int
    per_workgroup: int
    ends: int

    @property
    def constants(self) -> Mapping[str, int]:
        """Specialization constants of the tile."""
        return {
            "LOCAL_X": self.group * self.per_workgroup,
            "GROUP": self.group,
            "REGISTERS": self.kept,
            "ENDS": self.ends,
        }

    def grid(self, rows: int) -> Grid:
        """Return the grid for a number of rows."""
        return fold_grid(ceil_div(rows, self.per_workgroup))


def uses_register_rows(gpu: DeviceInfo) -> bool:
    """Return whether a device gains from register-resident rows."""
    return gpu.target.limits_registers and gpu.subgroup_arithmetic


def row_composition(x: Tensor, dim: int = -1, held: int = 1) -> str:
    """Return whether a row op is better composed of other ops; see `FUSED`, `SPLIT`.

    On a software device the fused kernel takes half the time of the hand-written one.
    On a GPU it does for short rows, but costs the host several nodes. Long ones that no
    registers hold are split: one reduction finds what a row has in common, however few
    rows there are, and an element-wise kernel makes the result.

    Parameters
    ----------
    x : Tensor
    dim : int, default -1
        Dimension along which its rows lie.
    held : int, default 1
        Rows in registers at once for one result.

    Returns
    -------
    str
        Empty where the op has a kernel that is better.
    """
    device = x.device
    if not isinstance(device, GpuDevice):
        return ""
    gpu, shape = device.gpu.info, x.layout.shape
    count, contiguous = shape[dim], dim in (-1, len(shape) - 1)
    software = gpu.target.prefers_composition
    if contiguous and count >= LEAST_SPLIT and not software:
        if x.dtype not in SINGLE or row_tile(gpu, x.dtype, count, held) is not None:
            return ""
        return SPLIT
    # A trace records the nodes once.
    cheap = software or trace_hooks.running
    least = LEAST_COMPOSED if cheap else LEAST_COMPOSED_EAGER
    if math.prod(shape) < least or not device.fusing or x.dtype not in SINGLE:
        return ""
    if software:
        return FUSED if contiguous else ""
    if not contiguous:
        return SPLIT if count >= LEAST_COMPOSED_COLUMNS else ""
    return "" if row_tile(gpu, x.dtype, count) is not None else FUSED


def row_tile(
    gpu: DeviceInfo,
    dtype: DType,
    count: int,
    held: int = 1,
    least: int = 4,
    workgroup: int = SMALLEST_WORKGROUP,
) -> RowTile | None:
    """Return the tile of register-resident rows; None if they are looped instead.

    Software devices have few registers, short rows would leave lanes idle, and long
    ones do not fit.

    Parameters
    ----------
    gpu : DeviceInfo
    dtype : DType
        Of the elements; only floats that are computed with in float32.
    count : int
        Elements of a row.
    held : int, default 1
        Rows in registers at once for one result.
    least : int, default 4
        Target vec4 per invocation, within the register limit: it amortises the fixed
        work of an invocation per row.
    workgroup : int
        Least invocations of a workgroup.
    """
    if (
        not uses_register_rows(gpu)
        or dtype not in SINGLE
        or count < LANES * gpu.subgroup_size
    ):
        return None
    ragged = count % LANES != 0
    quads = (count + 2 * (LANES - 1)) // LANES if ragged else count // LANES
    group = gpu.subgroup_size
    most = min(LARGEST, gpu.max_workgroup_invocations)
    while group * 2 * least <= quads and group * 2 <= most:
        group *= 2
    while _words(quads, group, held) > _room(group):
        group //= 2
        if group < max(gpu.subgroup_size, SMALLEST_WORKGROUP):
            return None
    per_workgroup = max(1, min(most, workgroup) // group)
    kept = ceil_div(quads, group)
    ends = 2 if ragged else int(quads < group * kept)
    return RowTile(group, kept, per_workgroup, ends)


def least_quads(dtype: DType, count: int, wide: int) -> int:
    """Return the target vec4 per invocation; `wide`, if of 4-byte elements.

    2-byte elements need more loads in flight.
    """
    if dtype.itemsize > 2:
        return wide
    return 16 if count >= 16 * LANES * SMALLEST_WORKGROUP else 8


def row_tiles(
    gpu: DeviceInfo,
    dtype: DType,
    count: int,
    held: int = 1,
    workgroup: int = SMALLEST_WORKGROUP,
) -> dict[str, RowTile]:
    """Return the row tiles worth benchmarking, by name.

    Parameters as those of `row_tile`.
    """
    found = (
        row_tile(gpu, dtype, count, held, least, workgroup) for least in LEAST_QUADS
    )
    return {f"{tile.group} invocations hold a row": tile for tile in found if tile}


def _words(quads: int, group: int, held: int) -> int:
    """Return the register words that an invocation needs."""
    return held * LANES * ceil_div(quads, group) + _OTHER_REGISTERS


def _room(group: int) -> int:
    """Return the register words per invocation, below the hardware's limit."""
    return min(_MOST_REGISTERS, _REGISTERS // group)
