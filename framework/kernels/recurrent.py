"""Launches of the steps of recurrent layers: one for all of them, or one for each.

Weights that fit in the registers and the shared memory of a workgroup stay there for
all steps; see `persistent_tile`.

Times named here are those of 64 steps on an NVIDIA H200 (580.159.04, 2026-11-30), the
product with the inputs included.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..base.dtype import SINGLE, DType, bfloat16, float16, float32
from ..base.shape import ceil_div
from ..ir.kernel_call import (
    MAX_GROUPS,
    Argument,
    BufferOffset,
    Dispatch,
    Scratch,
    StridedSpec,
)
from .gemm.tiles import TENSOR_CORES
from .gpu_model import device_class, model_of
from .shader_types import acc_size, full_subgroup, storage_defines
from .tensor_cores import offers

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


PERSISTENT_WORKGROUP = 256
"""Invocations of a workgroup that takes all steps: as many have the most registers."""

REGISTERS, OTHER_REGISTERS = 244, 48
"""Words of weights, sums and given gates that an invocation of such a workgroup holds:
on NVIDIA, where it has 255 registers, and elsewhere, an estimate. With 244 all steps of
an Elman layer of 64 x 256 states take 74 us where launches take 284, of an LSTM of 8 x
128 states 77 and 218; with 200 their weights would not fit."""

PERSISTENT_ROWS = (1, 2, 4, 8, 16)
"""Rows of the batch that a workgroup takes through all steps."""

MOST_TOGETHER = 4
"""Most rows that are multiplied at a time."""

CLOCK, LANES = 1700, 128
"""Estimate of cycles of a multiprocessor in a microsecond, and multiply-adds in one."""

STEP_LATENCY = 900
"""Estimate of cycles of a step that is no launch, besides its multiply-adds: loads of
shared memory, shuffles, two barriers, the functions of a cell."""

LOADED_BYTES = 24
"""Estimate of bytes of weights that a multiprocessor loads in a cycle while all do."""

STEP_MICROSECONDS, STEP_PRODUCTS = 3.9, 8.4e6
"""Time of a step that is a launch, and its multiply-adds in a microsecond more: 5.9 us
with 16 Mi of them, 12 with 64 Mi."""

EDGE = 16
"""Rows and columns of a cooperative matrix."""

LEAST_DEPTH = 128
"""K from which 16-bit steps that are launches may take tensor cores."""

LEAST_PRODUCTS, MOST_PRODUCTS = 3 << 24, 1 << 28
"""Multiply-adds of such a step from which it takes them, and up to which it has its own
kernel there. It takes 9 us however small: an LSTM of 64 x 256 float16 states 587 us in
place of 386, one of 64 x 512 states 634 in place of 762 (with gradients 1692, 1954),
one of 64 x 1024 states 1.4 ms in place of 3.2 by products, one of 512 x 512 states 2.9
in place of 2.0."""

COOPMAT_TILES = tuple(itertools.product((16, 32, 64), (16, 32)))
"""States of a tile on tensor cores, and its units."""

MOST_FRAGMENTS = 8
"""Most fragments of sums of a subgroup: two with four in flight have 160 registers."""

SLICES_OF_K = 8
"""Invocations that divide K, by `recurrent/persistent_product`."""


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


class CoopmatTile(NamedTuple):
    """Tile of a workgroup on tensor cores; see `glsl/recurrent/coopmat_product.glsl`.

    Attributes
    ----------
    rows, units : int
        Of the batch, and of the layer.
    columns : int
        Rows of weights.
    subgroup : int
        Invocations of a subgroup.
    padded : bool
        Whether there are fewer rows.
    """

    rows: int
    units: int
    columns: int
    subgroup: int
    padded: bool = False

    @property
    def deep(self) -> int:
        """Fragments of K in flight."""
        return 4 if self.rows + self.columns <= 6 * EDGE else 2

    @property
    def shared_memory(self) -> int:
        """Bytes: what subgroups pass to their fragments or sum up, and all sums."""
        staged = EDGE * EDGE * 2 * self.deep if self.padded else 0
        share = max(staged, 4 * EDGE * (self.columns + 4))
        return WORKGROUP // self.subgroup * share + 4 * self.rows * self.columns

    def constants(self) -> Mapping[str, int]:
        """Return the specialization constants."""
        return {
            "LOCAL_X": WORKGROUP,
            "ROWS": self.rows,
            "UNITS": self.units,
            "DEEP": self.deep,
            "SUBGROUP": self.subgroup,
            "PADDED": int(self.padded),
        }


class PersistentTile(NamedTuple):
    """Tile of a workgroup; see `glsl/recurrent/persistent_product.glsl`.

    Attributes
    ----------
    rows : int
        Of the batch.
    each : int
        Rows of weights of an invocation.
    quads : int
        vec4 of K of each.
    held : int
        vec4 of weights in its registers.
    together : int
        Rows of the batch that are multiplied at a time.
    items : int
        States of an invocation.
    """

    rows: int
    each: int
    quads: int
    held: int
    together: int
    items: int

    @property
    def shared_quads(self) -> int:
        """vec4 of weights of an invocation in shared memory."""
        return self.each * self.quads - self.held

    def shared_memory(self, shuffles: bool, itemsize: int) -> int:
        """Return the bytes of shared memory of a workgroup."""
        columns = PERSISTENT_WORKGROUP // SLICES_OF_K * self.each
        sums = self.rows * columns * (1 if shuffles else SLICES_OF_K)
        states = self.rows * self.quads * SLICES_OF_K
        weights = max(1, self.shared_quads * PERSISTENT_WORKGROUP)
        return 16 * states + 4 * sums + 4 * itemsize * weights

    def cycles(self, itemsize: int) -> float:
        """Return an estimate of the cycles of a step: arithmetic or shared memory."""
        passes, subgroups = self.rows // self.together, PERSISTENT_WORKGROUP // 32
        products = 4 * self.each * self.quads * PERSISTENT_WORKGROUP / LANES
        # Numbers of 16 bits are made float32 in each pass.
        arithmetic = products * (self.rows + (passes if itemsize == 2 else 0))
        loads = self.shared_quads * itemsize + self.together * self.quads
        return STEP_LATENCY + max(arithmetic, passes * subgroups * loads)

    def constants(self) -> Mapping[str, int]:
        """Return the specialization constants."""
        names = "ROWS", "EACH", "QUADS", "HELD", "TOGETHER", "ITEMS"
        return {"LOCAL_X": PERSISTENT_WORKGROUP, **dict(zip(names, self, strict=True))}


class Steps(NamedTuple):
    """Sizes of a recurrent layer, or of its way back.

    Attributes
    ----------
    steps, batch, units : int
    dtype : DType
    columns, depth : int
        Of the product in each step.
    item_words : int
        Registers that a state takes besides, where all steps are one launch.
    """

    steps: int
    batch: int
    units: int
    dtype: DType
    columns: int
    depth: int
    item_words: int

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
    cores = on_tensor_cores(gpu, dtype, units)
    is_small = batch * units * units * parts <= (MOST_PRODUCTS if cores else LARGEST)
    is_small &= batch <= TILES[-1][0] * MAX_GROUPS
    return gpu.target.cheap_barriers and has_dtype and has_room and is_small


def on_tensor_cores(gpu: DeviceInfo, dtype: DType, units: int) -> bool:
    """Return whether steps that are launches take tensor cores, which load in place."""
    whole = units % EDGE == 0 and units >= LEAST_DEPTH
    if not whole or dtype not in (float16, bfloat16):
        return False
    smallest = CoopmatTile(EDGE, EDGE, max(PARTS.values()) * EDGE, gpu.subgroup_size)
    has_room = smallest.shared_memory <= gpu.max_shared_memory
    return has_room and offers(gpu, dtype, TENSOR_CORES)


def coopmat_tile(gpu: DeviceInfo, steps: Steps, parts: int) -> CoopmatTile | None:
    """Return the tile of a step of `parts` rows of weights a unit on tensor cores.

    It is the one with which a multiprocessor loads least, None without tensor cores and
    for what is quicker without.
    """
    products = steps.batch * steps.columns * steps.depth
    if products < LEAST_PRODUCTS or not on_tensor_cores(gpu, steps.dtype, steps.units):
        return None
    best, least = None, 0
    for rows, units in COOPMAT_TILES:
        padded = steps.batch < EDGE
        tile = CoopmatTile(rows, units, units * parts, gpu.subgroup_size, padded)
        fragments = rows * tile.columns // EDGE**2
        too_large = rows > max(steps.batch, EDGE) or units > steps.units
        if too_large or fragments > MOST_FRAGMENTS:
            continue
        if tile.shared_memory > gpu.max_shared_memory:
            continue
        groups = ceil_div(steps.batch, rows) * ceil_div(steps.units, units)
        turns = ceil_div(groups, model_of(gpu).multiprocessors)
        loaded = turns * (rows + tile.columns)
        if best is None or loaded < least:
            best, least = tile, loaded
    return best


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


def persistent_tile(gpu: DeviceInfo, steps: Steps) -> PersistentTile | None:
    """Return the tile with which one launch takes all steps, None for one for each.

    A workgroup takes some rows of the batch through all steps. What is longer by these
    estimates is left: that of few steps, or of many rows and weights.
    """
    largest = steps.steps * steps.batch * max(steps.columns, steps.depth)
    if gpu.max_workgroup_invocations < PERSISTENT_WORKGROUP or largest >= 1 << 31:
        return None
    products = steps.batch * steps.columns * steps.depth
    shortest = steps.steps * (STEP_MICROSECONDS + products / STEP_PRODUCTS)
    best = None
    for rows, together in itertools.product(PERSISTENT_ROWS, (1, 2, 4)):
        groups = ceil_div(steps.batch, rows)
        if together > min(rows, MOST_TOGETHER) or groups > MAX_GROUPS:
            continue
        tile = _persistent_tile(gpu, steps, rows, together)
        if tile is None:
            continue
        turns = ceil_div(groups, model_of(gpu).multiprocessors)
        loaded = steps.columns * steps.depth * steps.dtype.itemsize / LOADED_BYTES
        cycles = steps.steps * tile.cycles(steps.dtype.itemsize) + loaded
        time = turns * cycles / CLOCK
        if time < shortest:
            best, shortest = tile, time
    return best


def _persistent_tile(
    gpu: DeviceInfo, steps: Steps, rows: int, together: int
) -> PersistentTile | None:
    """Return the tile of so many rows, or None if weights do not fit."""
    each = ceil_div(steps.columns, PERSISTENT_WORKGROUP // SLICES_OF_K)
    quads = ceil_div(steps.depth, 4 * SLICES_OF_K)
    items = ceil_div(rows * steps.units, PERSISTENT_WORKGROUP)
    registers = REGISTERS if device_class(gpu) == "NVIDIA" else OTHER_REGISTERS
    registers -= items * steps.item_words + together * (each + 4)
    held = min(each * quads, registers // steps.dtype.itemsize)
    tile = PersistentTile(rows, each, quads, held, together, items)
    memory = tile.shared_memory(_shuffles(gpu), steps.dtype.itemsize)
    return tile if held > 0 and memory <= gpu.max_shared_memory else None


def _shuffles(gpu: DeviceInfo) -> bool:
    """Return whether neighbours that divide K add up by shuffles."""
    return full_subgroup(gpu, PERSISTENT_WORKGROUP) >= SLICES_OF_K


def _persistent_dispatch(
    gpu: DeviceInfo,
    kernel: str,
    tile: PersistentTile,
    steps: Steps,
    push: Mapping[str, Argument],
    defines: Mapping[str, str],
) -> Dispatch:
    shuffles = {"SHUFFLES": "1"} if _shuffles(gpu) else {}
    sizes = {"steps": steps.steps, "batch": steps.batch, "units": steps.units}
    grid = ceil_div(steps.batch, tile.rows), 1, 1
    return Dispatch(
        kernel, grid, {**push, **sizes}, tile.constants(), {**defines, **shuffles}
    )


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
    words = 3 + parts * (1 + biased) + (cell == "LSTM") + masked
    sizes = parts * units, units, words
    steps = Steps(count, batch, units, gates.dtype, *sizes)
    width = 2 * units if cell == "LSTM" else units
    defines = {"CELL": cell, **_defines(gates.dtype, units)}
    defines |= {"MASKED": "1"} if masked else {}
    defines |= {"BIASED": "1"} if biased else {}
    whole = persistent_tile(gpu, steps)
    if whole is not None:
        names: dict[str, Argument] = {
            "h0": "h0",
            "weight": "weight",
            "gates": "gates",
            "bias": "bias" if biased else "weight",
            "cells": "c0" if cell == "LSTM" else "weight",
            "on": "on" if masked else "weight",
            "out_": "out",
        }
        kernel = "recurrent/persistent"
        return [_persistent_dispatch(gpu, kernel, whole, steps, names, defines)]
    tile = coopmat_tile(gpu, steps, parts) or step_tile(gpu, batch, units, units, parts)
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
    depth, width = parts * units, 2 * units if cells else units
    words = 3 + parts + (4 + parts) * cells + 2 * (kept is not None)
    steps = Steps(count, batch, units, grad.dtype, units, depth, words)
    defines = {"OUTPUTS": str(parts), **_defines(grad.dtype, depth)}
    defines |= {"CELLS": "1"} if cells else {}
    defines |= {"KEPT": "1"} if kept is not None else {}
    kept_pitch = 1 if kept is None else kept.shape[-1]
    kept_sizes = {"kept_pitch": kept_pitch, "kept_step": int(kept_pitch > 1)}
    whole = persistent_tile(gpu, steps)
    if whole is not None:
        names: dict[str, Argument] = {
            "weight": "weight",
            "grad": "grad",
            "kept": "weight" if kept is None else "kept",
            "by_state": "by_state",
            "hidden_out": "hidden",
            "gates_out": "of_gates",
            **kept_sizes,
        }
        if cells:
            names |= {name: name for name in ("by_cell", "through", "forget")}
            names["cells_out"] = "cells"
        kernel = "recurrent/persistent_vjp"
        return [_persistent_dispatch(gpu, kernel, whole, steps, names, defines)]
    tile = coopmat_tile(gpu, steps, 1) or step_tile(gpu, batch, units, depth, 1)
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
            **kept_sizes,
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
    tile: StepTile | CoopmatTile,
    steps: Steps,
    push: Mapping[str, Argument],
    defines: Mapping[str, str],
) -> Dispatch:
    grid = ceil_div(steps.units, tile.units), ceil_div(steps.batch, tile.rows), 1
    if isinstance(tile, CoopmatTile):
        defines = {**defines, "COOPMAT": "1"}
    return Dispatch(kernel, grid, push, tile.constants(), defines)
