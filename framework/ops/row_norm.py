"""Normalisation over the last dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..autograd import is_grad_enabled
from ..dispatch import (
    Argument,
    Dispatch,
    Placed,
    Scratch,
    check_rounds,
    fold_grid,
    linear_grid,
)
from ..dtype import FLOAT, float32, float64
from ..errors import ShapeError
from ..primitive import primitive
from ..shape import TensorSpec, ceil_div
from .element import statistic_dtype, storage_defines
from .movement import reshape
from .reduce import mean, sum
from .reducing import (
    SOFTWARE_WORKGROUP,
    WORKGROUP,
    as_dtype_of,
    group_tile,
    in_storage,
    need_countable,
)
from .unary import rsqrt, square

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor import Tensor

STATISTIC = (float32, float64)

MOST_KEPT = 16
"""Elements of a row that an invocation holds in registers."""

COLUMN_INVOCATIONS = 1 << 18
SOFTWARE_COLUMN_INVOCATIONS = 256
"""Invocations that sum columns, if there is enough to do."""

LEAST_CHUNK = 64
MOST_CHUNK = 4096
"""Rows that an invocation sums."""

EPSILON = {float32: 2.0**-23, float64: 2.0**-52}
"""Distance of 1 from the next larger number, by the dtype of statistics."""


@primitive(
    dtypes={"x": FLOAT, "weight": STATISTIC, "bias": STATISTIC},
    outputs=("out", "mean", "inverse_std"),
    typed="x",
)
def _row_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise each row of (rows, columns), then scale and shift its elements.

    Not `centred`, the mean is taken to be 0; the second result then is nothing.
    """


@_row_norm.spec
def _row_norm_spec(
    x: TensorSpec,
    weight: TensorSpec | None,
    bias: TensorSpec | None,
    eps: float,
    centred: bool,
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    rows = TensorSpec(x.shape[:1], statistic_dtype(x.dtype))
    return x, rows, rows


@_row_norm.kernel
def _row_norm_kernel(
    gpu: DeviceInfo,
    x: Placed,
    weight: Placed | None,
    bias: Placed | None,
    eps: float,
    centred: bool,
) -> Dispatch:
    push: dict[str, Argument] = {"x": "x", "out_": "out", "eps": eps}
    push |= {"mean": "mean", "inverse_std": "inverse_std"}
    push |= {"weight": "weight" if weight else "x", "bias": "bias" if bias else "x"}
    constants = {"HAS_WEIGHT": int(weight is not None)}
    constants |= {"HAS_BIAS": int(bias is not None), "CENTRED": int(centred)}
    return _per_row(gpu, "norm/row_norm", x, push, constants)


def _per_row(
    gpu: DeviceInfo,
    kernel: str,
    x: Placed,
    push: dict[str, Argument],
    constants: dict[str, int],
) -> Dispatch:
    """Return the dispatch of a kernel over the rows of (rows, columns)."""
    need_countable(kernel, x)
    rows, count = x.shape
    group, per_workgroup, side_by_side = group_tile(gpu, rows, count, False)
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


@_row_norm.vjp
def _row_norm_vjp(
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    inverse_std: Tensor,
    eps: float,
    centred: bool,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    if is_grad_enabled():
        return _differentiable_vjp(grad, x, weight, eps, centred)
    grad_x, products, sums = None, None, None
    if needs[0]:
        grad_x = _row_norm_grad(grad, x, weight, mean, inverse_std, centred)
    if needs[1] or needs[2]:
        products, sums = _row_norm_columns(grad, x, mean, inverse_std, centred)
    return grad_x, products, sums


def _differentiable_vjp(
    grad: Tensor, x: Tensor, weight: Tensor | None, eps: float, centred: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients by ops that have gradients themselves."""
    wide = as_dtype_of(x, statistic_dtype(x.dtype))
    apart = wide - mean(wide, 1, keepdim=True) if centred else wide
    inverse_std = rsqrt(mean(square(apart), 1, keepdim=True) + eps)
    y = apart * inverse_std
    h = grad if weight is None else grad * weight
    inner = h - y * mean(h * y, 1, keepdim=True)
    if centred:
        inner = inner - mean(h, 1, keepdim=True)
    return inner * inverse_std, sum(grad * y, 0), sum(grad, 0)


@_row_norm.reference
def _row_norm_reference(
    x: np.ndarray,
    weight: np.ndarray | None,
    bias: np.ndarray | None,
    eps: float,
    centred: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    middle = x.mean(axis=1, keepdims=True) if centred else np.zeros_like(x[:, :1])
    apart = x - middle
    inverse_std = 1 / np.sqrt(np.mean(apart * apart, axis=1, keepdims=True) + eps)
    out = apart * inverse_std
    out = out if weight is None else out * weight
    return out if bias is None else out + bias, middle, inverse_std


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
def _row_norm_grad(
    incoming: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    inverse_std: Tensor,
    centred: bool,
) -> Tensor:
    """Return the gradient of `_row_norm` by its rows."""


@_row_norm_grad.spec
def _row_norm_grad_spec(x: TensorSpec, **_: object) -> TensorSpec:
    return x


@_row_norm_grad.kernel
def _row_norm_grad_kernel(
    gpu: DeviceInfo,
    incoming: Placed,
    x: Placed,
    weight: Placed | None,
    mean: Placed,
    inverse_std: Placed,
    centred: bool,
) -> Dispatch:
    push: dict[str, Argument] = {"grad": "incoming", "x": "x", "out_": "out"}
    push |= {"weight": "weight" if weight else "x"}
    push |= {"mean": "mean", "inverse_std": "inverse_std"}
    constants = {"HAS_WEIGHT": int(weight is not None), "CENTRED": int(centred)}
    return _per_row(gpu, "norm/row_norm_vjp", x, push, constants)


@_row_norm_grad.reference
def _row_norm_grad_reference(
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
def _row_norm_columns(
    incoming: Tensor, x: Tensor, mean: Tensor, inverse_std: Tensor, centred: bool
) -> tuple[Tensor, Tensor]:
    """Return, over rows, the sums of gradients times normalised `x`, and of these."""


@_row_norm_columns.spec
def _row_norm_columns_spec(x: TensorSpec, **_: object) -> tuple[TensorSpec, TensorSpec]:
    columns = TensorSpec(x.shape[1:], statistic_dtype(x.dtype))
    return columns, columns


@_row_norm_columns.kernel
def _row_norm_columns_kernel(
    gpu: DeviceInfo,
    incoming: Placed,
    x: Placed,
    mean: Placed,
    inverse_std: Placed,
    centred: bool,
) -> list[Dispatch]:
    rows, count = x.shape
    need_countable("norm/row_norm_vjp_columns", x)
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
                "norm/row_norm_vjp_columns",
                grid,
                dict(push),
                constants,
                storage_defines(x.dtype),
            )
        )
        if chunks == 1:
            return steps
        rows = chunks


@_row_norm_columns.reference
def _row_norm_columns_reference(
    incoming: np.ndarray,
    x: np.ndarray,
    mean: np.ndarray,
    inverse_std: np.ndarray,
    centred: bool,
) -> tuple[np.ndarray, np.ndarray]:
    y = (x - mean[:, None]) * inverse_std[:, None]
    return (incoming * y).sum(axis=0), incoming.sum(axis=0)


def _over_last(
    name: str,
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    centred: bool,
) -> Tensor:
    """Normalise over the last dimensions, whose sizes are `normalized_shape`."""
    wanted = normalized_shape
    shape = (wanted,) if isinstance(wanted, int) else tuple(wanted)
    kept = x.ndim - len(shape)
    if not shape or kept < 0 or x.shape[kept:] != shape:
        raise ShapeError(
            f"{name}: x is {x.shape}, normalized_shape {shape}; x must end with it, and"
            " it must have at least one dimension"
        )
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
    rows = reshape(x, (math.prod(x.shape[:kept]), math.prod(shape)))
    out, _, _ = _row_norm(in_storage(rows), vectors[0], vectors[1], eps, centred)
    return as_dtype_of(reshape(out, x.shape), x.dtype)


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
    return _over_last("layer_norm", x, normalized_shape, weight, bias, eps, True)


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
    return _over_last("rms_norm", x, normalized_shape, weight, None, eps, False)
