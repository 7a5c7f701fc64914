"""Launches of the steps of recurrent layers, one for each step.

Times named here are those of 64 steps on an NVIDIA H200 (580.159.04, 2026-11-30), the
product with the inputs included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..base.dtype import SINGLE, DType, float32
from ..base.shape import ceil_div
from ..ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    BufferOffset,
    Dispatch,
    Scratch,
    StridedSpec,
)
from .gpu_model import model_of
from .shader_types import acc_size, storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

PARTS = {"TANH": 1, "RELU": 1, "GRU": 3, "LSTM": 4}
"""Gates of a unit, by the macro `CELL` of `recurrent/step`."""

LARGEST = 1 << 26
"""Multiply-adds of a step up to which it has its own kernel. Larger ones are a product
and what follows: tiles that fill a device with little work are not those that read
little. An LSTM of 64 Mi took 0.95 ms by kernels and 2.1 by products, one of 256 Mi 3.3
and 2.5; an Elman layer of 64 Mi 1.2 and 1.1, one of 16 Mi 0.64 and 2.5."""

WORKGROUP = 256
SHARED = 32 << 10
"""Most invocations of a workgroup, and bytes of shared memory."""

SLICES = 32
"""Most slices of K: their sums are added up one after the other. An LSTM of 8 x 128
states took 1067 us with gradients with at most 8, 728 with 16 and 576 with 32."""

TILES = ((16, 32), (8, 32), (8, 16), (4, 16), (4, 8), (4, 4))
"""States of a tile and rows of weights, the largest first."""

FILLED = 1.5
"""Workgroups for each multiprocessor from which a tile is not made smaller. With 0.375,
0.75, 1.5 and 3 an LSTM of 64 x 512 states took 3.7, 3.1, 2.8 and 4.1 ms with gradients,
an Elman layer 610, 529, 443 and 510 us without."""


class StepTile(NamedTuple):
    """Tile of a workgroup; see `glsl/recurrent/state_product.glsl`.

    Attributes
    ----------
    rows, units : int
        Of the batch, and of the layer.
    columns : int
        Rows of weights.
    slices : int
        Parts of K.
    quads : int
        vec4 of K in shared memory at a time.
    """

    rows: int
    units: int
    columns: int
    slices: int
    quads: int

    @property
    def local(self) -> int:
        """Invocations of a workgroup."""
        return self.rows * self.columns // 16 * self.slices

    def constants(self) -> Mapping[str, int]:
        """Return the specialization constants."""
        sums = self.slices * self.rows * self.columns // 4
        staged = (self.rows + self.columns) * (self.quads | 1)
        return {
            "LOCAL_X": self.local,
            "ROWS": self.rows,
            "UNITS": self.units,
            "SLICES": self.slices,
            "DEPTH": 4 * self.quads,
            "STAGED": max(sums, staged),
        }


class Steps(NamedTuple):
    """Sizes of a recurrent layer.

    Attributes
    ----------
    steps, batch, units : int
    dtype : DType
    """

    steps: int
    batch: int
    units: int
    dtype: DType

    def at(self, name: str, step: int, width: int) -> BufferOffset:
        """Return where a step begins in (steps, batch, width)."""
        return BufferOffset(name, step * self.batch * width * self.dtype.itemsize)


def steps_fit(
    gpu: DeviceInfo, dtype: DType, batch: int, units: int, parts: int
) -> bool:
    """Return whether a device is to take each step by one kernel."""
    has_dtype = dtype is float32 or (dtype in SINGLE and gpu.storage_16bit)
    has_room = (
        gpu.max_workgroup_invocations >= WORKGROUP and gpu.max_shared_memory >= SHARED
    )
    is_small = batch * units * units * parts <= LARGEST
    is_small &= batch <= TILES[-1][0] * MAX_GROUPS
    return gpu.target.cheap_barriers and has_dtype and has_room and is_small


def step_tile(
    gpu: DeviceInfo, batch: int, units: int, depth: int, parts: int
) -> StepTile:
    """Return the tile of a step of `units` with `parts` rows of weights each."""
    wanted = FILLED * model_of(gpu).multiprocessors
    for rows, columns in TILES:
        own = max(columns // (4 if parts > 1 else 1), 4 if parts == 3 else 1)
        too_large = rows >= 2 * batch and rows > 4
        if not too_large and ceil_div(batch, rows) * ceil_div(units, own) >= wanted:
            break
    columns = own * parts
    lanes, needed = rows * columns // 16, max(1, depth // 4)
    slices = SLICES
    while slices * lanes > WORKGROUP:
        slices //= 2
    while slices > needed and slices * lanes >= 64:
        slices //= 2
    quads = ceil_div(needed, ceil_div(needed, _most_quads(rows + columns, slices)))
    return StepTile(rows, own, columns, slices, ceil_div(quads, slices) * slices)


def _most_quads(rows: int, slices: int) -> int:
    """Return the vec4 of so many rows that fit in shared memory."""
    return (SHARED // 16 // rows - 1) // slices * slices


def forward_dispatches(
    gpu: DeviceInfo,
    cell: str,
    gates: StridedSpec,
    h0: StridedSpec,
    masked: bool,
    biased: bool = False,
) -> list[Dispatch]:
    """Return the dispatches of all steps of a layer.

    Parameters
    ----------
    gpu : DeviceInfo
    cell : str
        One of `PARTS`.
    gates, h0 : StridedSpec
        (steps, batch, PARTS * units) and (batch, units).
    masked, biased : bool
        Whether the node has the inputs `on` (steps, batch) and `bias`.
    """
    parts, (count, batch, _), units = PARTS[cell], gates.shape, h0.shape[-1]
    steps = Steps(count, batch, units, gates.dtype)
    width = 2 * units if cell == "LSTM" else units
    tile = step_tile(gpu, batch, units, units, parts)
    defines = {"CELL": cell, **_defines(gates.dtype, units)}
    defines |= {"MASKED": "1"} if masked else {}
    defines |= {"BIASED": "1"} if biased else {}
    found = []
    for step in range(count):
        before, cells = BufferOffset("h0", 0), BufferOffset("c0", 0)
        if step:
            before = steps.at("out", step - 1, width)
            cells = BufferOffset("out", before.offset + units * gates.dtype.itemsize)
        push: dict[str, Argument] = {
            "before": before,
            "weight": "weight",
            "gates": steps.at("gates", step, parts * units),
            "bias": "bias" if biased else "weight",
            "cells": cells if cell == "LSTM" else "weight",
            "on": steps.at("on", step, 1) if masked else "weight",
            "out_": steps.at("out", step, width),
            "pitch": width if step else units,
            "batch": batch,
            "units": units,
        }
        found.append(_dispatch("recurrent/step", tile, steps, push, defines))
    return found


def backward_dispatches(
    gpu: DeviceInfo,
    grad: StridedSpec,
    by_state: StridedSpec,
    kept: StridedSpec | None,
    cells: bool,
) -> list[Dispatch]:
    """Return the dispatches that go back through all steps of a layer.

    Parameters
    ----------
    gpu : DeviceInfo
    grad : StridedSpec
        (steps, batch, units), or twice as many with cells: of the layer's results.
    by_state : StridedSpec
        (steps, batch, gates, units): derivatives of the gates' functions.
    kept : StridedSpec or None
        (steps, batch, 1 or units): what a step leaves of the states as they were.
    cells : bool
        Whether the node has `by_cell`, `through` and `forget`, and a result `cells`.
    """
    count, batch, parts, units = by_state.shape
    steps = Steps(count, batch, units, grad.dtype)
    depth, width = parts * units, 2 * units if cells else units
    tile = step_tile(gpu, batch, units, depth, 1)
    defines = {"OUTPUTS": str(parts), **_defines(grad.dtype, depth)}
    defines |= {"CELLS": "1"} if cells else {}
    defines |= {"KEPT": "1"} if kept is not None else {}
    kept_pitch = 1 if kept is None else kept.shape[-1]
    size = batch * units * acc_size(grad.dtype)
    turns = Scratch("cells0", size), Scratch("cells1", size)
    found = []
    for step in reversed(range(count)):
        after = min(step + 1, count - 1)
        push: dict[str, Argument] = {
            "of_gates": steps.at("of_gates", after, depth),
            "weight": "weight",
            "grad": steps.at("grad", step, width),
            "kept": "weight" if kept is None else steps.at("kept", after, kept_pitch),
            "hidden": steps.at("hidden", after, units),
            "by_state": steps.at("by_state", step, depth),
            "hidden_out": steps.at("hidden", step, units),
            "gates_out": steps.at("of_gates", step, depth),
        }
        if cells:
            push |= {
                "by_cell": steps.at("by_cell", step, depth),
                "through": steps.at("through", step, units),
                "forget": steps.at("forget", step, units),
                "cells": turns[step % 2],
                "cells_out": turns[1 - step % 2] if step else "cells",
            }
        push |= {
            "grad_pitch": width,
            "kept_pitch": kept_pitch,
            "kept_step": int(kept_pitch > 1),
            "batch": batch,
            "units": units,
            "depth": depth if step + 1 < count else 0,
        }
        found.append(_dispatch("recurrent/step_vjp", tile, steps, push, defines))
    return found


def _defines(dtype: DType, depth: int) -> dict[str, str]:
    return {**storage_defines(dtype), **({} if depth % 4 else {"VECTORS": "1"})}


def _dispatch(
    kernel: str,
    tile: StepTile,
    steps: Steps,
    push: Mapping[str, Argument],
    defines: Mapping[str, str],
) -> Dispatch:
    grid = ceil_div(steps.units, tile.units), ceil_div(steps.batch, tile.rows), 1
    return Dispatch(kernel, grid, push, tile.constants(), defines)
