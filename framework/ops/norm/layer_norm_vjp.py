"""Gradients of normalisation over rows, and how its kernels are launched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ...base.dtype import FLOAT, float32, float64
from ...base.shape import TensorSpec, ceil_div
from ...dispatch.primitive import primitive
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

TURNS = 264
"""Workgroups of 1024 invocations that take turns with rows: two for each of 132 cores.

Fewer leave cores idle, more leave more sums of columns to add up.
"""

HELD = 5
"""Rows that are held at once for the gradients of one."""

MOST_KEPT = 16
"""Elements of a row that an invocation holds in registers."""

COLUMN_INVOCATIONS = 1 << 18
SOFTWARE_COLUMN_INVOCATIONS = 256
"""Invocations that sum columns, if there is enough to do."""

LEAST_CHUNK = 64
MOST_CHUNK = 4096
"""Rows that an invocation sums."""


def per_row(
    gpu: DeviceInfo,
    kernel: str,
    x: StridedSpec,
    push: dict[str, Argument],
    constants: dict[str, int],
    groups: tuple[int, int, int] | None = None,
) -> Dispatch:
    """Return the dispatch of a kernel over the rows of (rows, columns).

    `groups` is what `group_tile` would answer, if that is not to choose.
    """
    need_countable(kernel, x)
    rows, count = x.shape
    groups = groups or group_tile(gpu, rows, count, False)
    group, per_workgroup, side_by_side = groups
    rounds = ceil_div(count, group)
    check_rounds(gpu, kernel, 2 * rounds)
    kept = 0
    if gpu.kind != "software" and rounds <= MOST_KEPT:
        kept = 1 << (rounds - 1).bit_length()
    constants |= {"LOCAL_X": group * per_workgroup, "GROUP": group, "KEPT": kept}
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
def row_norm_grad(
    incoming: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    inverse_std: Tensor,
    centred: bool,
) -> Tensor:
    """Return the gradient of `_row_norm` by its rows."""


@row_norm_grad.spec
def row_norm_grad_spec(x: TensorSpec, **_: object) -> TensorSpec:
    return x


@row_norm_grad.kernel
def row_norm_grad_kernel(
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


@row_norm_grad.reference
def row_norm_grad_reference(
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
def row_norm_columns(
    incoming: Tensor, x: Tensor, mean: Tensor, inverse_std: Tensor, centred: bool
) -> tuple[Tensor, Tensor]:
    """Return, over rows, the sums of gradients times normalised `x`, and of these."""


@row_norm_columns.spec
def row_norm_columns_spec(x: TensorSpec, **_: object) -> tuple[TensorSpec, TensorSpec]:
    columns = TensorSpec(x.shape[1:], statistic_dtype(x.dtype))
    return columns, columns


@row_norm_columns.kernel
def row_norm_columns_kernel(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    x: StridedSpec,
    mean: StridedSpec,
    inverse_std: StridedSpec,
    centred: bool,
) -> list[Dispatch]:
    rows, count = x.shape
    need_countable("norm/layer_norm_dgamma", x)
    software = gpu.kind == "software"
    local = SOFTWARE_WORKGROUP if software else WORKGROUP
    wanted = SOFTWARE_COLUMN_INVOCATIONS if software else COLUMN_INVOCATIONS
    chunk = min(max(ceil_div(x.numel, wanted), LEAST_CHUNK), MOST_CHUNK)
    push: dict[str, Argument] = {"grad": "incoming", "x": "x", "mean": "mean"}
    push |= {"inverse_std": "inverse_std", "count": count, "chunk": chunk}
    places: tuple[Argument, Argument] = ("mean", "mean")
    steps: list[Dispatch] = []
    while True:
        chunks = max(1, ceil_div(rows, chunk))
        push |= {"rows": rows, "partial_products": places[0], "partial_sums": places[1]}
        size = chunks * count * statistic_dtype(x.dtype).itemsize
        places = (Scratch("products", size), Scratch("sums", size))
        if chunks == 1:
            places = ("products", "sums")
        push |= {"products": places[0], "sums": places[1]}
        constants = {"LOCAL_X": local, "FIRST": int(not steps), "CENTRED": int(centred)}
        grid = linear_grid(chunks * count, local)
        steps.append(
            Dispatch(
                "norm/layer_norm_dgamma",
                grid,
                dict(push),
                constants,
                storage_defines(x.dtype),
            )
        )
        if chunks == 1:
            return steps
        rows = chunks


@row_norm_columns.reference
def row_norm_columns_reference(
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
def row_norm_grads(
    incoming: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    inverse_std: Tensor,
    centred: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `row_norm_grad` and `row_norm_columns` do, from one reading."""


@row_norm_grads.spec
def row_norm_grads_spec(
    x: TensorSpec, **_: object
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    columns = TensorSpec(x.shape[1:], statistic_dtype(x.dtype))
    return x, columns, columns


@row_norm_grads.kernel
def row_norm_grads_kernel(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    x: StridedSpec,
    weight: StridedSpec | None,
    mean: StridedSpec,
    inverse_std: StridedSpec,
    centred: bool,
) -> list[Dispatch]:
    given = gpu, incoming, x, weight, mean, inverse_std, centred
    # Of a row its two inputs are held, and the weights and sums of its columns.
    tile = row_tile(gpu, x.dtype, x.shape[1], HELD, 1)
    if tile is None or not _sums_columns(tile):
        return _grads_apart(*given)
    return _grads_at_once(*given, tile, TURNS)


@row_norm_grads.candidates
def row_norm_grads_candidates(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    x: StridedSpec,
    weight: StridedSpec | None,
    mean: StridedSpec,
    inverse_std: StridedSpec,
    centred: bool,
) -> dict[str, Callable[[], list[Dispatch]]]:
    given = gpu, incoming, x, weight, mean, inverse_std, centred
    ways: dict[str, Callable[[], list[Dispatch]]] = {
        "rows and columns apart": functools.partial(_grads_apart, *given)
    }
    for name, tile in row_tiles(gpu, x.dtype, x.shape[1], HELD).items():
        for turns in (TURNS // 2, TURNS, 2 * TURNS) if _sums_columns(tile) else ():
            way = functools.partial(_grads_at_once, *given, tile, turns)
            ways[f"{name}, {turns} take turns"] = way
    return ways


def _sums_columns(tile: RowTile) -> bool:
    """Return whether a tile lets a workgroup sum columns beside its rows."""
    return tile.ends != 2 and tile.per_workgroup == 1


def _grads_apart(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    x: StridedSpec,
    weight: StridedSpec | None,
    mean: StridedSpec,
    inverse_std: StridedSpec,
    centred: bool,
) -> list[Dispatch]:
    """Return the dispatches that read everything twice."""
    return [
        row_norm_grad_kernel(gpu, incoming, x, weight, mean, inverse_std, centred),
        *row_norm_columns_kernel(gpu, incoming, x, mean, inverse_std, centred),
    ]


def _grads_at_once(
    gpu: DeviceInfo,
    incoming: StridedSpec,
    x: StridedSpec,
    weight: StridedSpec | None,
    mean: StridedSpec,
    inverse_std: StridedSpec,
    centred: bool,
    tile: RowTile,
    most: int,
) -> list[Dispatch]:
    """Return the dispatches that read everything once; see `TURNS` for `most`."""
    rows, count = x.shape
    turns = max(1, min(rows // 4, most * (LARGEST // tile.group)))
    areas = [Scratch(name, turns * count * 4) for name in ("products", "sums")]
    push: dict[str, Argument] = {"grad": "incoming", "x": "x", "out_": "out"}
    push |= {"weight": "weight" if weight else "x"}
    push |= {"mean": "mean", "inverse_std": "inverse_std"}
    push |= {"products": areas[0], "sums": areas[1], "rows": rows, "count": count}
    constants = {"HAS_WEIGHT": int(weight is not None), "CENTRED": int(centred)}
    return [
        Dispatch(
            "norm/layer_norm_vjp_registers",
            (turns, 1, 1),
            push,
            {**tile.constants, **constants},
            storage_defines(x.dtype),
        ),
        *(sum_rows(gpu, area, mean, turns, count, area.name) for area in areas),
    ]


@row_norm_grads.reference
def row_norm_grads_reference(
    incoming: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray | None,
    mean: np.ndarray,
    inverse_std: np.ndarray,
    centred: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    grad = row_norm_grad_reference(incoming, x, weight, mean, inverse_std, centred)
    return grad, *row_norm_columns_reference(incoming, x, mean, inverse_std, centred)
