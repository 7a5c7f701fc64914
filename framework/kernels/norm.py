"""Row kernels of softmax and layer norm: launch parameters and candidates."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ..base.shape import ceil_div
from ..ir.kernel_call import (
    Argument,
    Dispatch,
    Scratch,
    StridedSpec,
    check_rounds,
    divisor,
    fold_grid,
    linear_grid,
)
from .gpu_model import model_of
from .reduce import (
    QUAD_DTYPES,
    SOFTWARE_WORKGROUP,
    WORKGROUP,
    group_tile,
    group_tiles,
    need_countable,
    reduce_dispatches,
    stateful,
    sum_rows,
)
from .rowwise import (
    LARGEST,
    SMALLEST_WORKGROUP,
    RowTile,
    least_quads,
    row_tile,
    row_tiles,
)
from .shader_types import statistic_dtype, storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

Candidates = Mapping[str, Callable[[], Dispatch]]

MAX_REGISTERS = 16
"""Elements of a looped row per invocation, up to which they stay in registers."""

LAYER_NORM_WORKGROUP = 512
"""Workgroup size for register-resident rows of 4-byte elements.

Of rows of 4096, RMS norm on an NVIDIA H200, driver 580.159.04, took 0.133 ms in
workgroups of 256 and 0.131 in these (2026-11-21).
"""

FEW_ROWS = 1
"""Rows for each multiprocessor up to which more invocations may share one."""

QUADS_OF_FEW_ROWS = 2
"""Most vec4 of an invocation that has a part of one of so few rows."""

CHANNEL_WORKGROUP = 1024
"""Most invocations that share a channel on a GPU: channels are few, so many of them."""

LEAST_OF_CHANNEL = 4
"""Least elements of a channel for each of them: most of 1024 invocations have none of
channels of 196 elements, of which 32,768 took 0.43 ms (NVIDIA H200, 580.159.04,
2026-11-30)."""

CHANNEL_WORKGROUPS = 2
"""Such workgroups for each multiprocessor, as many as are resident at once."""

LOADS_IN_FLIGHT = 4
"""Elements that an invocation of them loads at once."""

PARTIAL_SUMS = 264
"""Workgroups of 1024 invocations in a grid-stride loop over rows: two per SM of 132.

Fewer lower occupancy, more leave more partial column sums to reduce.
"""

ROWS_IN_REGISTERS = 5
"""Register-resident rows of the single-pass gradient: two inputs and column data."""

COLUMN_INVOCATIONS = 1 << 18
SOFTWARE_COLUMN_INVOCATIONS = 256
"""Upper bound of invocations of the column reduction."""

LEAST_SHARED = 1 << 14
"""Elements of a channel from which workgroups share it, if many would be idle."""

LOOPED_CHANNEL = 1 << 16
"""Elements of a channel from which workgroups share it, however many channels."""

LEAST_CHUNK = 64
MOST_CHUNK = 4096
"""Bounds of the rows that one invocation sums."""


def _register_rows(
    kernel: str,
    x: StridedSpec,
    push: Mapping[str, Argument],
    constants: Mapping[str, int],
    tile: RowTile,
) -> Dispatch:
    """Return the dispatch of a kernel for register-resident rows (rows, count, ...)."""
    need_countable(kernel, x)
    rows, count = x.shape[:2]
    return Dispatch(
        kernel,
        tile.grid(rows),
        {**push, "rows": rows, "count": count},
        {**tile.constants, **constants},
        storage_defines(x.dtype),
    )


def _looped_rows(
    gpu: DeviceInfo,
    kernel: str,
    x: StridedSpec,
    push: Mapping[str, Argument],
    constants: Mapping[str, int],
    groups: tuple[int, int, int] | None = None,
    least_registers: int = 1,
) -> Dispatch:
    """Return the dispatch of a kernel that loops over rows in strides of a group.

    Rows lie along the second dimension. `groups` overrides `group_tile`.
    """
    need_countable(kernel, x)
    outer, count, *rest = x.shape
    inner = math.prod(rest)
    rows = outer * inner
    groups = groups or group_tile(gpu, rows, count, inner > 1)
    group, per_workgroup, side_by_side = groups
    rounds = ceil_div(count, group)
    check_rounds(gpu, kernel, 2 * rounds)
    registers = 0
    if gpu.target.limits_registers and rounds <= MAX_REGISTERS:
        registers = max(least_registers, 1 << (rounds - 1).bit_length())
    size = {"LOCAL_X": group * per_workgroup, "GROUP": group, "REGISTERS": registers}
    return Dispatch(
        kernel,
        fold_grid(ceil_div(rows, per_workgroup)),
        {**push, "rows": rows, "count": count},
        {**constants, **size, "OUTPUTS_FAST": side_by_side},
        storage_defines(x.dtype),
    )


def _both(
    in_registers: Callable[[RowTile], Dispatch],
    tiles: Mapping[str, RowTile],
    looped: Callable[[tuple[int, int, int]], Dispatch],
    groups: Mapping[str, tuple[int, int, int]],
) -> Candidates:
    """Return candidates for register-resident rows and for looped ones."""
    candidates: dict[str, Callable[[], Dispatch]] = {}
    for name, tile in tiles.items():
        candidates[name] = functools.partial(in_registers, tile)
    for name, group in groups.items():
        candidates[name] = functools.partial(looped, group)
    return candidates


class SoftmaxCall(NamedTuple):
    """Softmax or its gradient along the middle of three dimensions.

    Attributes
    ----------
    gpu : DeviceInfo
    kernels : tuple of str
        The kernel of looped rows, and that of register-resident ones.
    push : mapping of str to Argument
    x : StridedSpec, shape (outer, count, inner)
    logarithm : bool
    inputs : int
        Rows read for each row written.
    """

    gpu: DeviceInfo
    kernels: tuple[str, str]
    push: Mapping[str, Argument]
    x: StridedSpec
    logarithm: bool
    inputs: int

    def dispatch(self) -> Dispatch:
        """Return the dispatch of register-resident rows if they fit, or looped ones."""
        _, count, inner = self.x.shape
        dtype, least = self.x.dtype, 2
        if self.inputs == 1:
            least = least_quads(dtype, count, 2)
        tile = None
        if inner == 1:
            tile = row_tile(self.gpu, dtype, count, self.inputs, least)
        return self.looped() if tile is None else self.in_registers(tile)

    def candidates(self) -> Candidates:
        """Return the search space beside `dispatch`: candidates by name."""
        rows, count, inner = self.x.shape
        if inner > 1:
            return {}
        tiles = row_tiles(self.gpu, self.x.dtype, count, self.inputs)
        groups = group_tiles(self.gpu, rows, count)
        return _both(self.in_registers, tiles, self.looped, groups)

    def in_registers(self, tile: RowTile) -> Dispatch:
        """Return the dispatch of register-resident rows."""
        constants = {"LOGARITHM": int(self.logarithm)}
        return _register_rows(self.kernels[1], self.x, self.push, constants, tile)

    def looped(self, groups: tuple[int, int, int] | None = None) -> Dispatch:
        """Return the dispatch of looped rows."""
        constants = {"LOGARITHM": int(self.logarithm)}
        push = {**self.push, "inner": self.x.shape[2]}
        kernel = self.kernels[0]
        return _looped_rows(self.gpu, kernel, self.x, push, constants, groups, 4)


def softmax_call(gpu: DeviceInfo, x: StridedSpec, logarithm: bool) -> SoftmaxCall:
    """Return the call of softmax, or of its logarithm."""
    push: dict[str, Argument] = {"x": "x", "out_": "out"}
    kernels = "norm/softmax", "norm/softmax_registers"
    return SoftmaxCall(gpu, kernels, push, x, logarithm, 1)


def softmax_grad_call(
    gpu: DeviceInfo, incoming: StridedSpec, y: StridedSpec, logarithm: bool
) -> SoftmaxCall:
    """Return the call of the gradient of softmax, whose result is `y`."""
    push: dict[str, Argument] = {"grad": "incoming", "y": "y", "out_": "out"}
    kernels = "norm/softmax_vjp", "norm/softmax_vjp_registers"
    return SoftmaxCall(gpu, kernels, push, y, logarithm, 2)


class LayerNormCall(NamedTuple):
    """Layer norm or RMS norm of the rows of (rows, count)."""

    gpu: DeviceInfo
    x: StridedSpec
    weight: StridedSpec | None
    bias: StridedSpec | None
    eps: float
    centred: bool

    def dispatch(self) -> Dispatch:
        """Return the dispatch of register-resident rows if they fit, or looped ones."""
        count, dtype = self.x.shape[1], self.x.dtype
        least, workgroup = least_quads(dtype, count, 4), self._least_workgroup()
        if self.x.shape[0] <= FEW_ROWS * model_of(self.gpu).multiprocessors:
            least = min(least, QUADS_OF_FEW_ROWS)
        tile = row_tile(self.gpu, dtype, count, least=least, workgroup=workgroup)
        return self._looped() if tile is None else self._in_registers(tile)

    def candidates(self) -> Candidates:
        """Return the search space beside `dispatch`: candidates by name."""
        count, workgroup = self.x.shape[1], self._least_workgroup()
        tiles = row_tiles(self.gpu, self.x.dtype, count, workgroup=workgroup)
        groups = group_tiles(self.gpu, *self.x.shape)
        return _both(self._in_registers, tiles, self._looped, groups)

    def _least_workgroup(self) -> int:
        """Return the least workgroup size for register-resident rows."""
        # Rows with a tail within a vec4, or within a round of loads, need more
        # registers.
        whole = self.x.dtype.itemsize > 2 and self.x.shape[1] % 256 == 0
        return LAYER_NORM_WORKGROUP if whole else SMALLEST_WORKGROUP

    def _in_registers(self, tile: RowTile) -> Dispatch:
        kernel = "norm/layer_norm_registers"
        return _register_rows(kernel, self.x, *self._arguments(), tile)

    def _looped(self, groups: tuple[int, int, int] | None = None) -> Dispatch:
        kernel = "norm/layer_norm"
        return _looped_rows(self.gpu, kernel, self.x, *self._arguments(), groups)

    def _arguments(self) -> tuple[dict[str, Argument], dict[str, int]]:
        """Return the arguments and constants of both kernels."""
        push: dict[str, Argument] = {"x": "x", "out_": "out", "eps": self.eps}
        push |= {"mean": "mean", "inverse_std": "inverse_std"}
        push |= {"weight": "weight" if self.weight else "x"}
        push |= {"bias": "bias" if self.bias else "x"}
        constants = {"HAS_WEIGHT": int(self.weight is not None)}
        constants |= {"HAS_BIAS": int(self.bias is not None)}
        return push, constants | {"CENTRED": int(self.centred)}


class LayerNormGradCall(NamedTuple):
    """Gradients of layer norm; `incoming` is that of its result."""

    gpu: DeviceInfo
    incoming: StridedSpec
    x: StridedSpec
    mean: StridedSpec
    inverse_std: StridedSpec
    centred: bool
    weight: StridedSpec | None = None


def _grad_arguments(
    call: LayerNormGradCall,
) -> tuple[dict[str, Argument], dict[str, int]]:
    """Return what the kernels of rows have in common: arguments and constants."""
    push: dict[str, Argument] = {"grad": "incoming", "x": "x", "out_": "out"}
    push |= {"weight": "weight" if call.weight else "x"}
    push |= {"mean": "mean", "inverse_std": "inverse_std"}
    constants = {"HAS_WEIGHT": int(call.weight is not None)}
    return push, constants | {"CENTRED": int(call.centred)}


def layer_norm_dx_dispatch(call: LayerNormGradCall) -> Dispatch:
    """Return the dispatch of the gradient by `x`."""
    return _looped_rows(call.gpu, "norm/layer_norm_dx", call.x, *_grad_arguments(call))


def layer_norm_dgamma_dispatches(call: LayerNormGradCall) -> list[Dispatch]:
    """Return the dispatches of the column sums, over chunks of rows."""
    names = "incoming", "products", "sums"
    return _column_sums(call.gpu, call.x, names, {"CENTRED": int(call.centred)})


def _column_sums(
    gpu: DeviceInfo,
    x: StridedSpec,
    names: tuple[str, str, str],
    constants: Mapping[str, int],
) -> list[Dispatch]:
    """Return the dispatches of column sums over chunks of rows.

    `names` are those of the incoming gradient, and of the sums of products and of it.
    """
    rows, count = x.shape[:2]
    need_countable("norm/layer_norm_dgamma", x)
    many = gpu.target.hides_latency
    local = WORKGROUP if many else SOFTWARE_WORKGROUP
    most = COLUMN_INVOCATIONS if many else SOFTWARE_COLUMN_INVOCATIONS
    chunk = min(max(ceil_div(x.numel, most), LEAST_CHUNK), MOST_CHUNK)
    push: dict[str, Argument] = {"grad": names[0], "x": "x", "mean": "mean"}
    push |= {"inverse_std": "inverse_std", "count": count, "chunk": chunk}
    targets: tuple[Argument, Argument] = ("mean", "mean")
    passes: list[Dispatch] = []
    while True:
        chunks = max(1, ceil_div(rows, chunk))
        push |= {"partial_products": targets[0], "partial_sums": targets[1]}
        size = chunks * count * statistic_dtype(x.dtype).itemsize
        targets = (Scratch("products", size), Scratch("sums", size))
        if chunks == 1:
            targets = names[1:]
        push |= {"rows": rows, "products": targets[0], "sums": targets[1]}
        size_of = {"LOCAL_X": local, "FIRST": int(not passes)}
        grid, defines = linear_grid(chunks * count, local), storage_defines(x.dtype)
        kernel = "norm/layer_norm_dgamma"
        passes.append(
            Dispatch(kernel, grid, dict(push), {**size_of, **constants}, defines)
        )
        if chunks == 1:
            return passes
        rows = chunks


def layer_norm_dx_dgamma_dispatches(call: LayerNormGradCall) -> list[Dispatch]:
    """Return the dispatches of all gradients, in a single pass if that serves."""
    # Registers hold two inputs of a row, and the weights and two sums of its columns.
    count = call.x.shape[1]
    tile = row_tile(call.gpu, call.x.dtype, count, ROWS_IN_REGISTERS, 1)
    if tile is None or not _sums_columns(tile):
        return _two_pass(call)
    return _single_pass(call, tile, PARTIAL_SUMS)


def layer_norm_grad_candidates(
    call: LayerNormGradCall,
) -> Mapping[str, Callable[[], list[Dispatch]]]:
    """Return the search space beside `layer_norm_dx_dgamma_dispatches`, by name."""
    count = call.x.shape[1]
    tiles = row_tiles(call.gpu, call.x.dtype, count, ROWS_IN_REGISTERS)
    return {"rows and columns apart": functools.partial(_two_pass, call)} | {
        f"{name}, {workgroups} take turns": functools.partial(
            _single_pass, call, tile, workgroups
        )
        for name, tile in tiles.items()
        if _sums_columns(tile)
        for workgroups in (PARTIAL_SUMS // 2, PARTIAL_SUMS, 2 * PARTIAL_SUMS)
    }


def _two_pass(call: LayerNormGradCall) -> list[Dispatch]:
    """Return the dispatches of separate kernels, which read the inputs twice."""
    return [layer_norm_dx_dispatch(call), *layer_norm_dgamma_dispatches(call)]


def _single_pass(
    call: LayerNormGradCall, tile: RowTile, max_workgroups: int
) -> list[Dispatch]:
    """Return the dispatches of one kernel and the sums of its `PARTIAL_SUMS`."""
    gpu, (rows, count) = call.gpu, call.x.shape
    workgroups = max(1, min(rows // 4, max_workgroups * (LARGEST // tile.group)))
    areas = [Scratch(name, workgroups * count * 4) for name in ("products", "sums")]
    push, constants = _grad_arguments(call)
    push |= {area.name: area for area in areas}
    kernel = "norm/layer_norm_vjp_registers"
    first = _register_rows(kernel, call.x, push, constants, tile)
    return [
        replace(first, grid=(workgroups, 1, 1)),
        *(
            sum_rows(gpu, area, call.mean, workgroups, count, area.name)
            for area in areas
        ),
    ]


def _sums_columns(tile: RowTile) -> bool:
    """Return whether a tile allows column sums in the same pass."""
    return tile.ends != 2 and tile.per_workgroup == 1


def channel_dispatch(
    gpu: DeviceInfo, kernel: str, x: StridedSpec, names: tuple[str, ...], **more: str
) -> Dispatch:
    """Return the dispatch of a kernel with one workgroup per channel.

    Parameters
    ----------
    gpu : DeviceInfo
    kernel : str
    x : StridedSpec, shape (batch, channels, inner)
    names : tuple of str
        Arguments that the shader calls by the same names.
    **more : str
        Those that it does not.
    """
    batch, channels, inner = x.shape
    elements = batch * inner
    quads = gpu.target.vec4_loads and inner % 4 == 0 and x.dtype in QUAD_DTYPES
    if quads:
        inner //= 4
    magic, shift = divisor(inner)
    push: dict[str, Argument] = {**more, **{name: name for name in names}}
    push |= {"batch": batch, "channels": channels, "inner": inner}
    push |= {"inner_magic": magic, "inner_shift": shift}
    most = min(CHANNEL_WORKGROUP, gpu.max_workgroup_invocations)
    size = gpu.subgroup_size
    if gpu.target.cheap_barriers:
        each = ceil_div(elements, LEAST_OF_CHANNEL)
        size = min(most, max(size, 1 << max(0, each - 1).bit_length()))
    check_rounds(gpu, "batch_norm", ceil_div(batch * inner, size))
    defines = dict(storage_defines(x.dtype))
    if gpu.target.hides_latency:
        defines["ITEMS"] = str(LOADS_IN_FLIGHT)
    if quads:
        defines["QUADS"] = "1"
    return Dispatch(kernel, fold_grid(channels), push, {"LOCAL_X": size}, defines)


def shares_channels(gpu: DeviceInfo, x: StridedSpec) -> bool:
    """Return whether several workgroups should reduce a channel.

    Where each has one, multiprocessors are idle if there are fewer channels, and a
    long one is a long loop.

    Parameters
    ----------
    gpu : DeviceInfo
    x : StridedSpec, shape (batch, channels, inner)
    """
    batch, channels, inner = x.shape
    idle = 2 * channels <= model_of(gpu).multiprocessors
    least = LEAST_SHARED if idle else LOOPED_CHANNEL
    return gpu.target.hides_latency and batch * inner >= least


def has_column_channels(gpu: DeviceInfo, x: StridedSpec) -> bool:
    """Return whether channels are columns, which neighbours should read together.

    Parameters
    ----------
    gpu : DeviceInfo
    x : StridedSpec, shape (batch, channels, inner)
    """
    return gpu.target.hides_latency and x.shape[2] == 1 and x.shape[1] > 1


def moments_dispatches(gpu: DeviceInfo, x: StridedSpec) -> list[Dispatch]:
    """Return the dispatches of mean and variance of (batch, channels, inner)."""
    if not (has_column_channels(gpu, x) or shares_channels(gpu, x)):
        names = "x", "mean", "variance"
        return [channel_dispatch(gpu, "norm/batch_norm_stats", x, names)]
    batch, _, inner = x.shape
    results: dict[str, Argument] = {"mean_": "mean", "out_": "variance"}
    results |= {"scale": 1.0 / (batch * inner)}
    chosen = stateful("reduce/variance", x.dtype, 3, results, {}, {"MOMENTS": "1"})
    return reduce_dispatches(gpu, chosen, x, (0, 2))


def channel_sums_dispatches(
    gpu: DeviceInfo, x: StridedSpec, mean: StridedSpec
) -> list[Dispatch]:
    """Return the dispatches of the sums of gradients of (batch, channels, inner)."""
    if has_column_channels(gpu, x):
        sides = "grad_out", "sum_grad_normalized", "sum_grad"
        return _column_sums(gpu, x, sides, {"CENTRED": 1, "BY_COLUMN": 1})
    names = "x", "mean", "inverse_std", "sum_grad", "sum_grad_normalized"
    kernel = "norm/batch_norm_vjp"
    whole = channel_dispatch(gpu, kernel, x, names, grad="grad_out")
    if not gpu.target.hides_latency:
        return [whole]
    batch, channels, inner = x.shape
    wanted = ceil_div(CHANNEL_WORKGROUPS * model_of(gpu).multiprocessors, channels)
    chunks = min(wanted, batch * inner // LEAST_SHARED)
    if chunks < 2 or not shares_channels(gpu, x):
        return [whole]
    size = chunks * channels * mean.dtype.itemsize
    areas = [Scratch(name, size) for name in names[3:]]
    push = {**whole.push, **{area.name: area for area in areas}}
    sums = (sum_rows(gpu, each, mean, chunks, channels, each.name) for each in areas)
    return [replace(whole, grid=fold_grid(channels, chunks), push=push), *sums]
