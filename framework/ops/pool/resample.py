"""Resampling along dimensions by filter tables: average pooling, interpolation."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.device import Device, GpuDevice, on_device_removed
from ...base.dtype import FLOAT, DType, float32, float64
from ...base.errors import ShapeError
from ...base.shape import TensorSpec, ceil_div
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec, check_rounds, divisor
from ...kernels.linear import linear_dispatch
from ...kernels.reduce import MOST_ELEMENTS as COUNTED
from ...kernels.resample import TABLE_HEAD, grouped_sum_dispatch
from ...kernels.shader_types import check_float, statistic_dtype, storage_defines
from ..reduce.common import in_storage
from ..shape_constant import reported
from ..view import reshape
from .filter_weights import Nearest, Rule

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

MOST_ELEMENTS = 1 << 24
"""Along the dimension: a float32, which the table is of, counts no further."""

MAX_CACHED_ROWS = 1 << 12
"""Along the dimension: rows of a filter table that is kept for the next call."""

ROWS_EACH, MANY_ELEMENTS = 4, 1 << 22
"""Rows of one invocation on a GPU, and elements of a result of volumes from which there
are enough of these."""

Rules = tuple[Rule, Rule, Rule]
"""Along layers, rows and columns of volumes."""


@primitive(dtypes={"x": FLOAT, "table": (float32, float64)}, typed="x")
def _resample(x: Tensor, table: Tensor, rule: Rule, back: bool) -> Tensor:
    """Return the sums of a rule's taps along the second of three dimensions.

    `table` has the taps; `back` says that it is the transposed rule's.
    """


@_resample.spec
def _resample_spec(
    x: TensorSpec, table: TensorSpec, rule: Rule, back: bool
) -> TensorSpec:
    return TensorSpec((x.shape[0], table.shape[0], x.shape[2]), x.dtype)


@_resample.kernel
def _resample_kernel(
    gpu: DeviceInfo, x: StridedSpec, table: StridedSpec, rule: Rule, back: bool
) -> Dispatch:
    outer, size, inner = x.shape
    out_size, width = table.shape
    check_rounds(gpu, "resample", width)
    if inner == 1:
        lines, tables = (outer, size), {"table": table.shape}
        if found := grouped_sum_dispatch(gpu, x.dtype, lines, tables):
            return found
    count = outer * out_size * inner
    push: dict[str, int | str] = {"x": "x", "taps": "table", "out_": "out"}
    push |= {"count": count, "size": size, "inner": inner, "out_size": out_size}
    push["width"] = width
    for name, by in (("inner", inner), ("out", out_size)):
        push[f"{name}_magic"], push[f"{name}_shift"] = divisor(by)
    defines = storage_defines(x.dtype)
    return linear_dispatch("resample/resample", count, push, defines=defines)


@_resample.vjp
def _resample_vjp(grad: Tensor, rule: Rule, back: bool) -> tuple[Tensor, None]:
    return resampled_rows(grad, rule, not back), None


@_resample.reference
def _resample_reference(
    x: np.ndarray, table: np.ndarray, rule: Rule, back: bool
) -> np.ndarray:
    first, count = table[:, 0].astype(np.int64), table[:, 1]
    out = np.zeros((x.shape[0], len(table), x.shape[2]), x.dtype)
    for tap in range(table.shape[1] - 2):
        used = tap < count
        place = first[used] + tap
        out[:, used] += table[used, 2 + tap, None] * x[:, place]
    return out


@primitive(
    dtypes={
        "x": FLOAT,
        "row_table": (float32, float64),
        "column_table": (float32, float64),
    },
    typed="x",
)
def _resample2d(
    x: Tensor,
    row_table: Tensor,
    column_table: Tensor,
    row_rule: Rule,
    column_rule: Rule,
    back: bool,
) -> Tensor:
    """Return the sums of two rules' taps along the last two of three dimensions.

    The tables have the taps; `back` says that they are the transposed rules'.
    """


@_resample2d.spec
def _resample2d_spec(
    x: TensorSpec, row_table: TensorSpec, column_table: TensorSpec, **_: object
) -> TensorSpec:
    return TensorSpec((x.shape[0], row_table.shape[0], column_table.shape[0]), x.dtype)


@_resample2d.kernel
def _resample2d_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    row_table: StridedSpec,
    column_table: StridedSpec,
    back: bool,
    **_: object,
) -> Dispatch:
    outer, rows, columns = x.shape
    (out_rows, row_width), (out_columns, width) = row_table.shape, column_table.shape
    tables = {"row_table": row_table.shape, "column_table": column_table.shape}
    if found := grouped_sum_dispatch(gpu, x.dtype, x.shape, tables):
        return found
    count = outer * out_rows * out_columns
    push: dict[str, int | str] = {"x": "x", "out_": "out", "count": count}
    push |= {"row_taps": "row_table", "column_taps": "column_table"}
    push |= {"rows": rows, "columns": columns}
    push |= {"row_width": row_width, "column_width": width}
    for name, size in (("out_rows", out_rows), ("out_columns", out_columns)):
        push[name] = size
        push[f"{name}_magic"], push[f"{name}_shift"] = divisor(size)
    constants, defines = {"ACROSS": int(back)}, storage_defines(x.dtype)
    return linear_dispatch("resample/resample2d", count, push, constants, defines)


@_resample2d.vjp
def _resample2d_vjp(
    grad: Tensor, row_rule: Rule, column_rule: Rule, back: bool
) -> tuple[Tensor, None, None]:
    found = resampled_planes(grad, row_rule, column_rule, not back)
    return found, None, None


@_resample2d.reference
def _resample2d_reference(
    x: np.ndarray,
    row_table: np.ndarray,
    column_table: np.ndarray,
    row_rule: Rule,
    column_rule: Rule,
    back: bool,
) -> np.ndarray:
    def along(values: np.ndarray, dim: int) -> np.ndarray:
        table, rule = ((row_table, row_rule), (column_table, column_rule))[dim - 1]
        if dim == 1:
            return _resample_reference(values, table, rule, back)
        rows = values.reshape(-1, rule.out if back else rule.size, 1)
        found = _resample_reference(rows, table, rule, back)
        return found.reshape(*values.shape[:2], len(table))

    order = (2, 1) if back else (1, 2)
    return along(along(x, order[0]), order[1])


MOST_AT_ONCE = 2.0
"""Loads of elements by a GPU in one pass over planes, or volumes, for each that passes
along single dimensions take, which write and read what is between them. Bilinear
interpolation to twice the size has 1.33, bicubic 2.67, averages of 3 by 3 elements 1 to
1.5."""


def resampled_planes(
    x: Tensor, row_rule: Rule, column_rule: Rule, back: bool = False
) -> Tensor:
    """Return a tensor resampled along the last two of three dimensions.

    `back` takes the transposes of the rules, which are its gradient.
    """
    row_table, column_table = (_table_for(x, r, back) for r in (row_rule, column_rule))
    if _at_once(x, row_table, column_table, back):
        return resampled_at_once(x, row_rule, column_rule, back)
    return _in_turn(x, {1: row_rule, 2: column_rule}, back)


def resampled_at_once(
    x: Tensor, row_rule: Rule, column_rule: Rule, back: bool = False
) -> Tensor:
    """Return `resampled_planes` in one kernel, whatever its taps."""
    row_table, column_table = (_table_for(x, r, back) for r in (row_rule, column_rule))
    return _resample2d(x, row_table, column_table, row_rule, column_rule, back)


def _at_once(x: Tensor, row_table: Tensor, column_table: Tensor, back: bool) -> bool:
    """Return whether one kernel sums along both dimensions."""
    device = x.device
    if not isinstance(device, GpuDevice) or in_storage(x) is not x:
        return False
    outer, rows, columns = x.layout.shape
    (out_rows, row_width), (out_columns, width) = (
        table.layout.shape for table in (row_table, column_table)
    )
    row_taps, taps = row_width - TABLE_HEAD, width - TABLE_HEAD
    out = out_rows * out_columns
    if back:
        in_turn = taps * rows * out_columns + row_taps * out
    else:
        in_turn = row_taps * out_rows * columns + taps * out
    if max(out * outer, x.numel()) > COUNTED:
        return False
    most = MOST_AT_ONCE if device.gpu.info.target.hides_latency else 1.0
    return row_taps * taps * out <= most * in_turn


def _in_turn(x: Tensor, rules: Mapping[int, Rule], back: bool = False) -> Tensor:
    """Return the same one dimension after the other, in their order, or `back`.

    What is between two sums is not rounded to 16 bits.
    """
    out = x.to(statistic_dtype(x.dtype)) if len(rules) > 1 else x
    for dim in reversed(list(rules)) if back else rules:
        rule = rules[dim]
        shape = out.shape
        rows = (math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))
        sums = resampled_rows(reshape(out, rows), rule, back)
        size = sums.layout.shape[1]
        out = reshape(sums, (*shape[:dim], size, *shape[dim + 1 :]))
    return out.to(x.dtype)


@primitive(
    dtypes={
        "x": FLOAT,
        "layer_table": (float32, float64),
        "row_table": (float32, float64),
        "column_table": (float32, float64),
    },
    typed="x",
)
def _resample3d(
    x: Tensor,
    layer_table: Tensor,
    row_table: Tensor,
    column_table: Tensor,
    rules: Rules,
    back: bool,
) -> Tensor:
    """Return the sums of three rules' taps along the last three of four dimensions.

    The tables have the taps; `back` says that they are the transposed rules'.
    """


@_resample3d.spec
def _resample3d_spec(
    x: TensorSpec,
    layer_table: TensorSpec,
    row_table: TensorSpec,
    column_table: TensorSpec,
    **_: object,
) -> TensorSpec:
    tables = layer_table, row_table, column_table
    return TensorSpec((x.shape[0], *(each.shape[0] for each in tables)), x.dtype)


@_resample3d.kernel
def _resample3d_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    layer_table: StridedSpec,
    row_table: StridedSpec,
    column_table: StridedSpec,
    **_: object,
) -> Dispatch:
    outer, *sizes = x.shape
    tables = {"layer": layer_table, "row": row_table, "column": column_table}
    shapes = {f"{name}_table": each.shape for name, each in tables.items()}
    if found := grouped_sum_dispatch(gpu, x.dtype, x.shape, shapes):
        return found
    layers, out_rows, columns = (each.shape[0] for each in tables.values())
    # Rows share the taps of their columns and layers, where there are enough of them.
    many = outer * layers * out_rows * columns >= MANY_ELEMENTS
    each = ROWS_EACH if many and gpu.target.hides_latency else 1
    groups = ceil_div(out_rows, each)
    count = outer * layers * groups * columns
    push: dict[str, int | str] = {"x": "x", "out_": "out", "count": count}
    push |= dict(zip(("layers", "rows", "columns"), sizes))
    for k, (name, table) in enumerate(tables.items()):
        size, width = table.shape
        push |= {f"{name}_taps": f"{name}_table", f"out_size[{k}]": size}
        push[f"magic[{k}]"], push[f"shift[{k}]"] = divisor(groups if k == 1 else size)
        push[f"width[{k}]"] = width
    constants, defines = {"ROWS": each}, storage_defines(x.dtype)
    kernel = "resample/resample3d"
    return linear_dispatch(kernel, count, push, constants, defines)


@_resample3d.vjp
def _resample3d_vjp(
    grad: Tensor, rules: Rules, back: bool
) -> tuple[Tensor, None, None, None]:
    return resampled_volumes(grad, rules, not back), None, None, None


@_resample3d.reference
def _resample3d_reference(
    x: np.ndarray,
    layer_table: np.ndarray,
    row_table: np.ndarray,
    column_table: np.ndarray,
    rules: Rules,
    back: bool,
) -> np.ndarray:
    tables = layer_table, row_table, column_table
    for dim, table, rule in zip((3, 2, 1), reversed(tables), reversed(rules)):
        lines = np.moveaxis(x, dim, 1)
        rows = lines.reshape(*lines.shape[:2], math.prod(lines.shape[2:]))
        sums = _resample_reference(rows, table, rule, back)
        x = np.moveaxis(sums.reshape(sums.shape[:2] + lines.shape[2:]), 1, dim)
    return np.ascontiguousarray(x)


def volumes_at_once(x: Tensor, rules: Rules, back: bool = False) -> Tensor:
    """Return `resampled_volumes` in one kernel, whatever its taps."""
    layers, rows, columns = (_table_for(x, each, back) for each in rules)
    return _resample3d(x, layers, rows, columns, rules, back)


def resampled_volumes(x: Tensor, rules: Rules, back: bool = False) -> Tensor:
    """Return a tensor resampled along the last three of four dimensions.

    `back` takes the transposes of the rules, which is its gradient.
    """
    if _volumes_at_once(x, rules, back):
        return volumes_at_once(x, rules, back)
    return _in_turn(x, dict(enumerate(rules, 1)), back)


def _volumes_at_once(x: Tensor, rules: Rules, back: bool) -> bool:
    """Return whether one kernel sums along three dimensions: where loads are few."""
    device = x.device
    if not isinstance(device, GpuDevice) or in_storage(x) is not x:
        return False
    sizes = list(x.layout.shape)
    tables = [_table_for(x, each, back).layout.shape for each in rules]
    taps = [width - TABLE_HEAD for _, width in tables]
    out = x.layout.shape[0] * math.prod(size for size, _ in tables)
    if max(out, x.numel()) > COUNTED:
        return False
    in_turn = 0
    for dim in (3, 2, 1) if back else (1, 2, 3):
        sizes[dim] = tables[dim - 1][0]
        in_turn += taps[dim - 1] * math.prod(sizes)
    most = MOST_AT_ONCE if device.gpu.info.target.hides_latency else 1.0
    return math.prod(taps) * out <= most * in_turn


def resampled_rows(x: Tensor, rule: Rule, back: bool = False) -> Tensor:
    """Return a tensor resampled along the second of three dimensions.

    `back` takes the transpose of the rule, which is its gradient.
    """
    return _resample(x, _table_for(x, rule, back), rule, back)


def _table_for(x: Tensor, rule: Rule, back: bool) -> Tensor:
    """Return a rule's filter table for a tensor, kept for the next call if small."""
    dtype, device = statistic_dtype(x.dtype), x.device
    kind: Any = x.results
    made = _kept_table if max(rule.size, rule.out) <= MAX_CACHED_ROWS else _table
    generation = device.generation if isinstance(device, GpuDevice) else 0
    return reported(made(kind, device, generation, dtype, rule, back))


def _table(
    kind: type[Tensor],
    device: Device,
    generation: int,
    dtype: DType,
    rule: Rule,
    back: bool,
) -> Tensor:
    """Return a rule's filter table, or that of its transpose, on a device."""
    taps = rule.taps()
    rows = (taps.transposed(rule.size) if back else taps).table()
    return kind.from_host(rows, device, dtype)


_kept_table = functools.lru_cache(maxsize=64)(_table)
on_device_removed(_kept_table.cache_clear)


def resampled(name: str, x: Tensor, rules: Mapping[int, Rule]) -> Tensor:
    """Return a tensor resampled along each dimension that there is a rule for.

    Raises
    ------
    ShapeError
        If a dimension has no element, or too many.
    """
    check_rules(name, x, rules)
    ndim = len(x.layout.shape)
    if set(rules) == {ndim - 2, ndim - 1}:
        height, width = x.layout.shape[-2:]
        planes = reshape(x, (math.prod(x.layout.shape[:-2]), height, width))
        out = resampled_planes(planes, rules[ndim - 2], rules[ndim - 1])
        return reshape(out, (*x.layout.shape[:-2], *out.layout.shape[1:]))
    if set(rules) == {ndim - 3, ndim - 2, ndim - 1}:
        *outer, depth, height, width = x.layout.shape
        volumes = reshape(x, (math.prod(outer), depth, height, width))
        out = resampled_volumes(
            volumes, (rules[ndim - 3], rules[ndim - 2], rules[ndim - 1])
        )
        return reshape(out, (*outer, *out.layout.shape[1:]))
    return _in_turn(x, rules)


def check_rules(name: str, x: Tensor, rules: Mapping[int, Rule | Nearest]) -> None:
    """Raise an error unless a tensor is of floats and of sizes that rules take."""
    check_float(name, x)
    for dim, rule in rules.items():
        sizes = sorted((rule.size, rule.out))
        if sizes[0] < 1 or sizes[1] > MOST_ELEMENTS:
            raise ShapeError(
                f"{name}: dimension {dim} goes from {rule.size} to {rule.out} elements;"
                f" both must be from 1 to {MOST_ELEMENTS}"
            )
