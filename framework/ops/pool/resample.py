"""Resampling along one dimension by filter tables: average pooling, interpolation."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.device import Device, GpuDevice, on_device_removed
from ...base.dtype import FLOAT, DType, float32, float64
from ...base.errors import ShapeError
from ...base.shape import TensorSpec
from ...dispatch.declare import primitive
from ...ir.kernel_call import Dispatch, StridedSpec, check_rounds, divisor
from ...kernels.linear import linear_dispatch
from ...kernels.shader_types import check_float, statistic_dtype, storage_defines
from ..view import reshape
from .filter_weights import Nearest, Rule

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

MOST_ELEMENTS = 1 << 24
"""Along the dimension: a float32, which the table is of, counts no further."""

MAX_CACHED_ROWS = 1 << 12
"""Along the dimension: rows of a filter table that is kept for the next call."""


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


def resampled_rows(x: Tensor, rule: Rule, back: bool = False) -> Tensor:
    """Return a tensor resampled along the second of three dimensions.

    `back` takes the transpose of the rule, which is its gradient.
    """
    dtype, device = statistic_dtype(x.dtype), x.device
    kind: Any = x.results
    made = _kept_table if max(rule.size, rule.out) <= MAX_CACHED_ROWS else _table
    generation = device.generation if isinstance(device, GpuDevice) else 0
    return _resample(x, made(kind, device, generation, dtype, rule, back), rule, back)


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
    # What is between two sums is not rounded to 16 bits.
    out = x.to(statistic_dtype(x.dtype)) if len(rules) > 1 else x
    for dim, rule in rules.items():
        shape = out.shape
        rows = (math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :]))
        sums = resampled_rows(reshape(out, rows), rule)
        out = reshape(sums, (*shape[:dim], rule.out, *shape[dim + 1 :]))
    return out.to(x.dtype)


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
