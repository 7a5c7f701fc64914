"""Layer norm and RMS norm over the last dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...base.dtype import FLOAT, float32, float64
from ...base.errors import ShapeError
from ...base.shape import TensorSpec
from ...base.validation import as_int_or_ints
from ...dispatch.autocast_policy import autocast_float32
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Argument, Dispatch, StridedSpec
from ...kernels.reduce import group_tiles, need_countable
from ...kernels.rowwise import (
    SMALLEST_WORKGROUP,
    RowTile,
    is_composed,
    least_quads,
    row_tile,
    row_tiles,
)
from ...kernels.shader_types import check_float, statistic_dtype, storage_defines
from ..elementwise.unary import rsqrt, square
from ..reduce.common import as_dtype_of, in_storage
from ..reduce.sum import mean, sum
from ..source import fill_like
from ..view import reshape
from .layer_norm_vjp import (
    STATISTIC,
    layer_norm_dgamma,
    layer_norm_dx,
    layer_norm_dx_dgamma,
    per_row,
)

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

EPSILON = {float32: 2.0**-23, float64: 2.0**-52}
"""Distance of 1 from the next larger number, by the dtype of statistics."""

WORKGROUP = 512
"""Workgroup size for register-resident rows of 4-byte elements.

Of rows of 4096, RMS norm on an NVIDIA H200, driver 580.159.04, took 0.133 ms in
workgroups of 256 and 0.131 in these (2026-11-21).
"""


@primitive(
    dtypes={"x": FLOAT, "weight": STATISTIC, "bias": STATISTIC},
    outputs=("out", "mean", "inverse_std"),
    typed="x",
)
def _layer_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise each row of (rows, columns), then scale and shift its elements.

    Not `centred`, the mean is taken to be 0; the second result then is nothing.
    """


@_layer_norm.spec
def _layer_norm_spec(
    x: TensorSpec,
    weight: TensorSpec | None,
    bias: TensorSpec | None,
    eps: float,
    centred: bool,
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    rows = TensorSpec(x.shape[:1], statistic_dtype(x.dtype))
    return x, rows, rows


@_layer_norm.kernel
def _layer_norm_kernel(
    gpu: DeviceInfo,
    x: StridedSpec,
    weight: StridedSpec | None,
    bias: StridedSpec | None,
    eps: float,
    centred: bool,
) -> Dispatch:
    least = least_quads(x.dtype, x.shape[1], 4)
    tile = row_tile(
        gpu, x.dtype, x.shape[1], least=least, workgroup=_least_workgroup(x)
    )
    return _layer_norm_dispatch(gpu, x, weight, bias, eps, centred, tile)


def _least_workgroup(x: TensorSpec) -> int:
    """Return the least workgroup size for register-resident rows."""
    # Rows with a tail within a vec4, or within a round of loads, need more registers.
    whole = x.dtype.itemsize > 2 and x.shape[1] % 256 == 0
    return WORKGROUP if whole else SMALLEST_WORKGROUP


@_layer_norm.candidates
def _layer_norm_candidates(
    gpu: DeviceInfo,
    x: StridedSpec,
    weight: StridedSpec | None,
    bias: StridedSpec | None,
    eps: float,
    centred: bool,
) -> dict[str, Callable[[], Dispatch]]:
    arguments = gpu, x, weight, bias, eps, centred
    candidates: dict[str, Callable[[], Dispatch]] = {
        name: functools.partial(_layer_norm_dispatch, *arguments, tile)
        for name, tile in row_tiles(
            gpu, x.dtype, x.shape[1], workgroup=_least_workgroup(x)
        ).items()
    }
    for name, groups in group_tiles(gpu, *x.shape).items():
        candidates[name] = functools.partial(
            _layer_norm_dispatch, *arguments, None, groups
        )
    return candidates


def _layer_norm_dispatch(
    gpu: DeviceInfo,
    x: StridedSpec,
    weight: StridedSpec | None,
    bias: StridedSpec | None,
    eps: float,
    centred: bool,
    tile: RowTile | None,
    groups: tuple[int, int, int] | None = None,
) -> Dispatch:
    """Return the dispatch for register-resident rows, or else looped ones."""
    push: dict[str, Argument] = {"x": "x", "out_": "out", "eps": eps}
    push |= {"mean": "mean", "inverse_std": "inverse_std"}
    push |= {"weight": "weight" if weight else "x", "bias": "bias" if bias else "x"}
    constants = {"HAS_WEIGHT": int(weight is not None)}
    constants |= {"HAS_BIAS": int(bias is not None), "CENTRED": int(centred)}
    if tile is None:
        return per_row(gpu, "norm/layer_norm", x, push, constants, groups)
    need_countable("norm/layer_norm_registers", x)
    return Dispatch(
        "norm/layer_norm_registers",
        tile.grid(x.shape[0]),
        push | {"rows": x.shape[0], "count": x.shape[1]},
        {**tile.constants, **constants},
        storage_defines(x.dtype),
    )


@composite(
    dtypes={"x": FLOAT, "weight": STATISTIC, "bias": STATISTIC},
    outputs=("out", "mean", "inverse_std"),
)
def _composed_layer_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `_layer_norm` decomposed into ops that fuse into one kernel."""
    wide = as_dtype_of(x, statistic_dtype(x.dtype))
    row_mean = None
    if centred:
        row_mean = mean(wide, 1, keepdim=True)
        wide = wide - row_mean
    inverse_std = rsqrt(mean(square(wide), 1, keepdim=True) + eps)
    out = wide * inverse_std
    out = out if weight is None else out * weight
    out = out if bias is None else out + bias
    flat = x.shape[:1]
    if row_mean is None:
        row_mean = fill_like(x, flat, 0, wide.dtype)
    return (
        as_dtype_of(out, x.dtype),
        reshape(row_mean, flat),
        reshape(inverse_std, flat),
    )


@_composed_layer_norm.vjp
@_layer_norm.vjp
def _layer_norm_vjp(
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    inverse_std: Tensor,
    eps: float,
    centred: bool,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    if is_grad_enabled() or is_composed(x):
        return _differentiable_vjp(grad, x, weight, eps, centred)
    if not needs[0]:
        return None, *layer_norm_dgamma(grad, x, mean, inverse_std, centred)
    if not (needs[1] or needs[2]):
        return layer_norm_dx(grad, x, weight, mean, inverse_std, centred), None, None
    return layer_norm_dx_dgamma(grad, x, weight, mean, inverse_std, centred)


def _differentiable_vjp(
    grad: Tensor, x: Tensor, weight: Tensor | None, eps: float, centred: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients by differentiable ops, for double backward."""
    wide = as_dtype_of(x, statistic_dtype(x.dtype))
    centred_x = wide - mean(wide, 1, keepdim=True) if centred else wide
    inverse_std = rsqrt(mean(square(centred_x), 1, keepdim=True) + eps)
    y = centred_x * inverse_std
    h = grad if weight is None else grad * weight
    inner = h - y * mean(h * y, 1, keepdim=True)
    if centred:
        inner = inner - mean(h, 1, keepdim=True)
    return inner * inverse_std, sum(grad * y, 0), sum(grad, 0)


@_layer_norm.reference
def _layer_norm_reference(
    x: np.ndarray,
    weight: np.ndarray | None,
    bias: np.ndarray | None,
    eps: float,
    centred: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    row_mean = x.mean(axis=1, keepdims=True) if centred else np.zeros_like(x[:, :1])
    centred_x = x - row_mean
    inverse_std = 1 / np.sqrt(
        np.mean(centred_x * centred_x, axis=1, keepdims=True) + eps
    )
    out = centred_x * inverse_std
    out = out if weight is None else out * weight
    return out if bias is None else out + bias, row_mean, inverse_std


def _normalize_last_dims(
    name: str,
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    centred: bool,
) -> Tensor:
    """Normalise over the last dimensions, whose sizes are `normalized_shape`."""
    sizes = as_int_or_ints(f"{name}: normalized_shape", normalized_shape)
    shape = (sizes,) if isinstance(sizes, int) else sizes
    outer_dims = x.ndim - len(shape)
    if not shape or outer_dims < 0 or x.shape[outer_dims:] != shape:
        raise ShapeError(
            f"{name}: x is {x.shape}, normalized_shape {shape}; x must end with it, and"
            " it must have at least one dimension"
        )
    check_float(name, x)
    statistic = statistic_dtype(x.dtype)
    vectors: list[Tensor | None] = [None, None]
    for at, vector in enumerate((weight, bias)):
        if vector is not None and vector.shape != shape:
            label = ("weight", "bias")[at]
            raise ShapeError(f"{name}: {label} is {vector.shape}; it must be {shape}")
        if vector is not None:
            vectors[at] = as_dtype_of(reshape(vector, (-1,)), statistic)
    if x.numel() == 0:
        out = x if weight is None else x * weight
        return as_dtype_of(out if bias is None else out + bias, x.dtype)
    rows = reshape(x, (math.prod(x.shape[:outer_dims]), math.prod(shape)))
    chosen = _composed_layer_norm if is_composed(rows) else _layer_norm
    out, _, _ = chosen(in_storage(rows), vectors[0], vectors[1], eps, centred)
    return as_dtype_of(reshape(out, x.shape), x.dtype)


@autocast_float32
def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return elements normalised to mean 0 and variance 1 over the last dimensions.

    Parameters
    ----------
    x : Tensor, shape (..., *normalized_shape), float
    normalized_shape : int or sequence of int
        Sizes of the last dimensions.
    weight, bias : Tensor, shape `normalized_shape`, or None
        Scale and shift of each element; None means 1 and 0.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    Tensor, shape and dtype of `x`
        Statistics are computed in float32 if the dtype is smaller.

    Raises
    ------
    ShapeError
        If shapes do not fit.

    Notes
    -----
    The variance is biased. Gradients by `weight` and `bias` are sums over rows in a
    fixed order. Source: Ba, Kiros and Hinton, arXiv:1607.06450.
    """
    return _normalize_last_dims(
        "layer_norm", x, normalized_shape, weight, bias, eps, True
    )


@autocast_float32
def rms_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Return elements divided by their root mean square over the last dimensions.

    Parameters
    ----------
    x : Tensor, shape (..., *normalized_shape), float
    normalized_shape : int or sequence of int
        Sizes of the last dimensions.
    weight : Tensor, shape `normalized_shape`, or None
        Scale of each element; None means 1.
    eps : float or None
        Added to the mean square; None is the distance of 1 from the next number in the
        dtype of the statistics.

    Returns
    -------
    Tensor, shape and dtype of `x`
        Statistics are computed in float32 if the dtype is smaller.

    Raises
    ------
    ShapeError
        If shapes do not fit.

    Notes
    -----
    Source: Zhang and Sennrich, arXiv:1910.07467.
    """
    eps = EPSILON[statistic_dtype(x.dtype)] if eps is None else eps
    return _normalize_last_dims(
        "rms_norm", x, normalized_shape, weight, None, eps, False
    )
