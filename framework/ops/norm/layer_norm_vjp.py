"""Gradient kernels of layer norm: by the input, the weight and the bias."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, float32, float64
from ...base.shape import TensorSpec, ceil_div
from ...dispatch.declare import primitive
from ...ir.kernel_call import (
    Argument,
    Dispatch,
    Scratch,
    StridedSpec,
    check_rounds,
    fold_grid,
    linear_grid,
)
from ...kernels.reduce import (
    SOFTWARE_WORKGROUP,
    WORKGROUP,
    group_tile,
    need_countable,
    sum_rows,
)
from ...kernels.rowwise import LARGEST, RowTile, row_tile, row_tiles
from ...kernels.shader_types import statistic_dtype, storage_defines

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

STATISTIC = (float32, float64)

PARTIAL_SUMS = 264
"""Workgroups of 1024 invocations in a grid-stride loop over rows: two per SM of 132.

Fewer lower occupancy, more leave more partial column sums to reduce.
"""

ROWS_IN_REGISTERS = 5
"""Register-resident rows of the single-pass kernel: its two inputs and column data."""

MAX_REGISTERS = 16
"""Elements of a row per invocation, up to which they stay in registers."""

COLUMN_INVOCATIONS = 1 << 18
SOFTWARE_COLUMN_INVOCATIONS = 256
"""Upper bound of invocations of the column reduction."""

LEAST_CHUNK = 64
MOST_CHUNK = 4096
"""Bounds of the rows that one invocation sums."""


def per_row(
    gpu: DeviceInfo,
    kernel: str,
    x: StridedSpec,
    push: dict[str, Argument],
    constants: dict[str, int],
    groups: tuple[int, int, int] | None = None,
) -> Dispatch:
    """Return the dispatch of a kernel over the rows of (rows, columns).

    `groups` overrides the choice of `group_tile`.
    """
    need_countable(kernel, x)
    rows, count = x.shape
    groups = groups or group_tile(gpu, rows, count, False)
    group, per_workgroup, side_by_side = groups
    rounds = ceil_div(count, group)
    check_rounds(gpu, kernel, 2 * rounds)
    registers = 0
    if gpu.target.limits_registers and rounds <= MAX_REGISTERS:
        registers = 1 << (rounds - 1).bit_length()
    constants |= {
        "LOCAL_X": group * per_workgroup,
        "GROUP": group,
        "REGISTERS": registers,
    }
    constants |= {"OUTPUTS_FAST": side_by_side}
    push |= {"rows": rows, "count": count}
    grid = fold_grid(ceil_div(rows, per_workgroup))
    return Dispatch(kernel, grid, push, constants, storage_defines(x.dtype))


@primitive(
    dtypes={
        "incoming": FLOAT,
        "x": FLOAT,
        "weight": STATISTIC,
        "mean": STATISTIC,
        "inverse_std": STATISTIC,
    },
    typed="x",
)
def layer_norm_dx(
    incoming: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    inverse_std: Tensor,
    centred: bool,
) -> Tensor:
    """Return dx, the gradient of `_layer_norm` by `x`."""


@layer_norm_dx.spec
def layer_norm_dx_spec(x: TensorSpec, **_: object) -> TensorSpec:
    return x


@layer_norm_dx.kernel
def layer_norm_dx_kernel(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    x: StridedSpec,
    weight: StridedSpec | None,
    mean: StridedSpec,
    inverse_std: StridedSpec,
    centred: bool,
) -> Dispatch:
    push: dict[str, Argument] = {"grad": "incoming", "x": "x", "out_": "out"}
    push |= {"weight": "weight" if weight else "x"}
    push |= {"mean": "mean", "inverse_std": "inverse_std"}
    constants = {"HAS_WEIGHT": int(weight is not None), "CENTRED": int(centred)}
    return per_row(gpu, "norm/layer_norm_dx", x, push, constants)


@layer_norm_dx.reference
def layer_norm_dx_reference(
    incoming: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray | None,
    mean: np.ndarray,
    inverse_std: np.ndarray,
    centred: bool,
) -> np.ndarray:
    y = (x - mean[:, None]) * inverse_std[:, None]
    h = incoming if weight is None else incoming * weight
    inner = h - y * np.mean(h * y, axis=1, keepdims=True)
    if centred:
        inner = inner - h.mean(axis=1, keepdims=True)
    return inner * inverse_std[:, None]


@primitive(
    dtypes={
        "incoming": FLOAT, "x": FLOAT, "mean": STATISTIC, "inverse_std": STATISTIC
    },
    outputs=("products", "sums"),
    typed="x",
)  # fmt: skip
def layer_norm_dgamma(
    incoming: Tensor, x: Tensor, mean: Tensor, inverse_std: Tensor, centred: bool
) -> tuple[Tensor, Tensor]:
    """Return dgamma and dbeta: column sums of grad * normalised `x`, and of grad."""


@layer_norm_dgamma.spec
def layer_norm_dgamma_spec(x: TensorSpec, **_: object) -> tuple[TensorSpec, TensorSpec]:
    columns = TensorSpec(x.shape[1:], statistic_dtype(x.dtype))
    return columns, columns


@layer_norm_dgamma.kernel
def layer_norm_dgamma_kernel(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    x: StridedSpec,
    mean: StridedSpec,
    inverse_std: StridedSpec,
    centred: bool,
) -> list[Dispatch]:
    rows, count = x.shape
    need_countable("norm/layer_norm_dgamma", x)
    many = gpu.target.hides_latency
    local = WORKGROUP if many else SOFTWARE_WORKGROUP
    max_invocations = COLUMN_INVOCATIONS if many else SOFTWARE_COLUMN_INVOCATIONS
    chunk = min(max(ceil_div(x.numel, max_invocations), LEAST_CHUNK), MOST_CHUNK)
    push: dict[str, Argument] = {"grad": "incoming", "x": "x", "mean": "mean"}
    push |= {"inverse_std": "inverse_std", "count": count, "chunk": chunk}
    targets: tuple[Argument, Argument] = ("mean", "mean")
    passes: list[Dispatch] = []
    while True:
        chunks = max(1, ceil_div(rows, chunk))
        push |= {
            "rows": rows,
            "partial_products": targets[0],
            "partial_sums": targets[1],
        }
        size = chunks * count * statistic_dtype(x.dtype).itemsize
        targets = (Scratch("products", size), Scratch("sums", size))
        if chunks == 1:
            targets = ("products", "sums")
        push |= {"products": targets[0], "sums": targets[1]}
        constants = {
            "LOCAL_X": local,
            "FIRST": int(not passes),
            "CENTRED": int(centred),
        }
        grid = linear_grid(chunks * count, local)
        passes.append(
            Dispatch(
                "norm/layer_norm_dgamma",
                grid,
                dict(push),
                constants,
                storage_defines(x.dtype),
            )
        )
        if chunks == 1:
            return passes
        rows = chunks


@layer_norm_dgamma.reference
def layer_norm_dgamma_reference(
    incoming: np.ndarray,
    x: np.ndarray,
    mean: np.ndarray,
    inverse_std: np.ndarray,
    centred: bool,
) -> tuple[np.ndarray, np.ndarray]:
    y = (x - mean[:, None]) * inverse_std[:, None]
    return (incoming * y).sum(axis=0), incoming.sum(axis=0)


@primitive(
    dtypes={
        "incoming": FLOAT,
        "x": FLOAT,
        "weight": STATISTIC,
        "mean": STATISTIC,
        "inverse_std": STATISTIC,
    },
    outputs=("out", "products", "sums"),
    typed="x",
)
def layer_norm_dx_dgamma(
    incoming: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    inverse_std: Tensor,
    centred: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return dx, dgamma and dbeta in a single pass over the inputs."""


@layer_norm_dx_dgamma.spec
def layer_norm_dx_dgamma_spec(
    x: TensorSpec, **_: object
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    columns = TensorSpec(x.shape[1:], statistic_dtype(x.dtype))
    return x, columns, columns


@layer_norm_dx_dgamma.kernel
def layer_norm_dx_dgamma_kernel(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    x: StridedSpec,
    weight: StridedSpec | None,
    mean: StridedSpec,
    inverse_std: StridedSpec,
    centred: bool,
) -> list[Dispatch]:
    arguments = gpu, incoming, x, weight, mean, inverse_std, centred
    # Registers hold two inputs of a row, and the weights and two sums of its columns.
    tile = row_tile(gpu, x.dtype, x.shape[1], ROWS_IN_REGISTERS, 1)
    if tile is None or not _sums_columns(tile):
        return _two_pass(*arguments)
    return _single_pass(*arguments, tile, PARTIAL_SUMS)


@layer_norm_dx_dgamma.candidates
def layer_norm_dx_dgamma_candidates(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    x: StridedSpec,
    weight: StridedSpec | None,
    mean: StridedSpec,
    inverse_std: StridedSpec,
    centred: bool,
) -> dict[str, Callable[[], list[Dispatch]]]:
    arguments = gpu, incoming, x, weight, mean, inverse_std, centred
    candidates: dict[str, Callable[[], list[Dispatch]]] = {
        "rows and columns apart": functools.partial(_two_pass, *arguments)
    }
    for name, tile in row_tiles(gpu, x.dtype, x.shape[1], ROWS_IN_REGISTERS).items():
        for workgroups in (
            (PARTIAL_SUMS // 2, PARTIAL_SUMS, 2 * PARTIAL_SUMS)
            if _sums_columns(tile)
            else ()
        ):
            candidate = functools.partial(_single_pass, *arguments, tile, workgroups)
            candidates[f"{name}, {workgroups} take turns"] = candidate
    return candidates


def _sums_columns(tile: RowTile) -> bool:
    """Return whether a tile allows column sums in the same pass."""
    return tile.ends != 2 and tile.per_workgroup == 1


def _two_pass(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    x: StridedSpec,
    weight: StridedSpec | None,
    mean: StridedSpec,
    inverse_std: StridedSpec,
    centred: bool,
) -> list[Dispatch]:
    """Return the dispatches of separate kernels, which read the inputs twice."""
    return [
        layer_norm_dx_kernel(gpu, incoming, x, weight, mean, inverse_std, centred),
        *layer_norm_dgamma_kernel(gpu, incoming, x, mean, inverse_std, centred),
    ]


def _single_pass(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    x: StridedSpec,
    weight: StridedSpec | None,
    mean: StridedSpec,
    inverse_std: StridedSpec,
    centred: bool,
    tile: RowTile,
    max_workgroups: int,
) -> list[Dispatch]:
    """Return the dispatches of one kernel and the sums of its `PARTIAL_SUMS`."""
    rows, count = x.shape
    workgroups = max(1, min(rows // 4, max_workgroups * (LARGEST // tile.group)))
    partial_sums = [
        Scratch(name, workgroups * count * 4) for name in ("products", "sums")
    ]
    push: dict[str, Argument] = {"grad": "incoming", "x": "x", "out_": "out"}
    push |= {"weight": "weight" if weight else "x"}
    push |= {"mean": "mean", "inverse_std": "inverse_std"}
    push |= {
        "products": partial_sums[0],
        "sums": partial_sums[1],
        "rows": rows,
        "count": count,
    }
    constants = {"HAS_WEIGHT": int(weight is not None), "CENTRED": int(centred)}
    return [
        Dispatch(
            "norm/layer_norm_vjp_registers",
            (workgroups, 1, 1),
            push,
            {**tile.constants, **constants},
            storage_defines(x.dtype),
        ),
        *(
            sum_rows(gpu, area, mean, workgroups, count, area.name)
            for area in partial_sums
        ),
    ]


@layer_norm_dx_dgamma.reference
def layer_norm_dx_dgamma_reference(
    incoming: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray | None,
    mean: np.ndarray,
    inverse_std: np.ndarray,
    centred: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    grad = layer_norm_dx_reference(incoming, x, weight, mean, inverse_std, centred)
    return grad, *layer_norm_dgamma_reference(incoming, x, mean, inverse_std, centred)
