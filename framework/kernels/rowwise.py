"""How rows are held in registers: `norm/row_registers.glsl`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..base.device import GpuDevice
from ..base.dtype import SINGLE, DType
from ..base.shape import ceil_div
from ..ir.kernel_call import Grid, fold_grid

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor.tensor import Tensor

LANES = 4
"""Elements that are read and written together."""

LARGEST = 1024
"""Invocations of a row at most, if the device takes so many."""

LEAST_COMPOSED = 1 << 14
"""Elements from which another kernel on a software device is worth compiling."""

SMALLEST_WORKGROUP = 128
"""Invocations of a workgroup, which then has several rows."""

LEAST_QUADS = (1, 2, 4, 8, 16)
"""Quads that an invocation should have, where measuring chooses."""

# Quads of a row that an invocation may hold, by its row's invocations: what a register
# file of 64 Ki words leaves to each on current GPUs, less 25 words for everything else.
_REGISTERS = 1 << 16
_OTHER_REGISTERS = 25
_MOST_REGISTERS = 127


class RowTile(NamedTuple):
    """A row's share of a workgroup.

    Attributes
    ----------
    group : int
        Invocations of a row.
    kept : int
        Quads that each of them holds.
    per_workgroup : int
        Rows of a workgroup.
    ends : int
        0 if a row fills all quads, 1 if it ends with a quad, 2 if it may begin and end
        within one.
    """

    group: int
    kept: int
    per_workgroup: int
    ends: int

    @property
    def constants(self) -> Mapping[str, int]:
        """The specialization constants that say so."""
        return {
            "LOCAL_X": self.group * self.per_workgroup,
            "GROUP": self.group,
            "REGISTERS": self.kept,
            "ENDS": self.ends,
        }

    def grid(self, rows: int) -> Grid:
        """Return the workgroups for so many rows."""
        return fold_grid(ceil_div(rows, self.per_workgroup))


def uses_register_rows(gpu: DeviceInfo) -> bool:
    """Return whether a device gains from rows in registers."""
    return gpu.kind != "software" and gpu.subgroup_arithmetic


def is_composed(x: Tensor) -> bool:
    """Return whether rows are better computed by ops that become one kernel.

    On a software device that has half the cost of a kernel that was written for it.
    """
    device = x.device
    if not isinstance(device, GpuDevice) or not device.fusing:
        return False
    if x.numel() < LEAST_COMPOSED:
        return False
    return device.gpu.info.kind == "software" and x.dtype in SINGLE


def row_tile(
    gpu: DeviceInfo,
    dtype: DType,
    count: int,
    held: int = 1,
    least: int = 4,
    workgroup: int = SMALLEST_WORKGROUP,
) -> RowTile | None:
    """Return how rows of `count` elements are held; None if they cannot or should not.

    Software devices have no registers to speak of, short rows would leave lanes idle,
    and long ones do not fit.

    Parameters
    ----------
    gpu : DeviceInfo
    dtype : DType
        Of the elements; only floats that are computed with in float32.
    count : int
        Elements of a row.
    held : int, default 1
        Rows that are held at once for one result.
    least : int, default 4
        Quads that an invocation should have, if that does not take too many of them:
        what each does once for a row should be little beside the rest.
    workgroup : int
        Invocations that a workgroup should have at least.
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
    """Return the quads that an invocation should have; `wide`, if of 4-byte elements.

    Of 2 bytes more must be on their way: of rows of 8192 float16, softmax on an NVIDIA
    H200, driver 580.159.04, took 0.075 ms with 4, 0.069 with 16 (2026-11-21).
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
    """Return the ways to hold rows, by name, for measuring to choose from.

    Parameters as those of `row_tile`.
    """
    found = (
        row_tile(gpu, dtype, count, held, least, workgroup) for least in LEAST_QUADS
    )
    return {f"{tile.group} invocations hold a row": tile for tile in found if tile}


def _words(quads: int, group: int, held: int) -> int:
    """Return the registers that an invocation needs."""
    return held * LANES * ceil_div(quads, group) + _OTHER_REGISTERS


def _room(group: int) -> int:
    """Return the registers that an invocation has: fewer than the hardware's limit."""
    return min(_MOST_REGISTERS, _REGISTERS // group)
