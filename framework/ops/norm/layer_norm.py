"""Layer norm and RMS norm over the last dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...autograd.tape import show_as
from ...base.dtype import FLOAT, float32, float64
from ...base.errors import ShapeError
from ...base.shape import TensorSpec
from ...base.validation import as_int_or_ints
from ...dispatch.autocast_policy import autocast_float32_on_device
from ...dispatch.declare import composite, primitive
from ...ir.kernel_call import Dispatch
from ...ir.lazy_graph import INTEGERS
from ...kernels.norm import (
    Candidates,
    LayerNormCall,
    LayerNormGradCall,
    layer_norm_dgamma_dispatches,
    layer_norm_dx_dgamma_dispatches,
    layer_norm_dx_dispatch,
    layer_norm_grad_candidates,
)
from ...kernels.rowwise import FEW_LONG_ROWS, FUSED, LOOPED, SPLIT, row_composition
from ...kernels.shader_types import check_float, statistic_dtype
from ..elementwise.unary import rsqrt, square
from ..reduce.common import as_dtype_of, in_storage
from ..reduce.sum import mean, sum, total
from ..source import fill_like
from ..view import reshape
from .batch_norm import batch_norm_moments, batch_norm_sums
from .normalized import inverse_deviation, normalized, normalized_vjp

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor

STATISTIC = (float32, float64)

EPSILON = {float32: 2.0**-23, float64: 2.0**-52}
"""Distance of 1 from the next larger number, by the dtype of statistics."""


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
    x: TensorSpec, **_: object
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    rows = TensorSpec(x.shape[:1], statistic_dtype(x.dtype))
    return x, rows, rows


@_layer_norm.kernel
def _layer_norm_kernel(gpu: DeviceInfo, **call: Any) -> Dispatch:
    return LayerNormCall(gpu, **call).dispatch()


@_layer_norm.candidates
def _layer_norm_candidates(gpu: DeviceInfo, **call: Any) -> Candidates:
    return LayerNormCall(gpu, **call).candidates()


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
    flat = x.layout.shape[:1]
    if row_mean is None:
        row_mean = fill_like(x, flat, 0, wide.dtype)
    return (
        as_dtype_of(out, x.dtype),
        reshape(row_mean, flat),
        reshape(inverse_std, flat),
    )


@composite(
    dtypes={"x": FLOAT, "weight": STATISTIC, "bias": STATISTIC},
    outputs=("out", "mean", "inverse_std"),
)
def _split_layer_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, centred: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return `_layer_norm` by one reduction of each row and an element-wise kernel."""
    (rows, columns), wide = x.layout.shape, statistic_dtype(x.dtype)
    if centred:
        row_mean, spread = batch_norm_moments(_rows_as_channels(x))
    else:
        row_mean = fill_like(x, (rows,), 0, wide)
        squares = total(x, (1,), False, wide, mapping="square")
        spread = squares * (1.0 / columns)
    inverse_std = inverse_deviation(spread, eps)
    scale = reshape(inverse_std, (rows, 1))
    if weight is not None and bias is not None:
        out = normalized(x, reshape(row_mean, (rows, 1)), scale, weight, bias)
    else:
        out = as_dtype_of(x, wide)
        out = (out - reshape(row_mean, (rows, 1)) if centred else out) * scale
        out = out if weight is None else out * weight
        out = out if bias is None else out + bias
    return as_dtype_of(out, x.dtype), row_mean, inverse_std


@_split_layer_norm.vjp
def _split_layer_norm_vjp(
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
    return _split_gradients(grad, x, weight, mean, inverse_std, centred, needs)


def _split_gradients(
    grad: Tensor,
    x: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    inverse_std: Tensor,
    centred: bool,
    needs: tuple[bool, bool, bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of long rows, whose sums workgroups share."""
    dx = dgamma = dbeta = None
    if not centred:  # the mean may not be there
        mean = fill_like(x, mean.layout.shape, 0, mean.dtype)
    if needs[0]:
        h = grad if weight is None else grad * weight
        flat = as_dtype_of(_rows_as_channels(h), x.dtype)
        sums = batch_norm_sums(flat, _rows_as_channels(x), mean, inverse_std)
        rows, columns = x.layout.shape
        centre, spread, first, second = (
            reshape(each, (rows, 1)) for each in (mean, inverse_std, *sums)
        )
        # A mean that is taken to be 0 has no gradient.
        first = first if centred else centre
        dx = normalized_vjp(h, x, centre, spread, first, second, 1.0 / columns)
    if needs[1] or needs[2]:
        dgamma, dbeta = layer_norm_dgamma(grad, x, mean, inverse_std, centred)
    return dx, dgamma, dbeta


def _rows_as_channels(x: Tensor) -> Tensor:
    """Return rows as channels of one sample."""
    return reshape(x, (1, *x.layout.shape))


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
    few = x.layout.shape[0] <= FEW_LONG_ROWS
    composition = row_composition(x, held=LOOPED if few else 1)
    if is_grad_enabled() or composition == FUSED:
        return _differentiable_vjp(grad, x, weight, eps, centred)
    if composition == SPLIT:
        return _split_gradients(grad, x, weight, mean, inverse_std, centred, needs)
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


# Of the gradients, of which `incoming` is that of the result.
_GIVEN = {"incoming": FLOAT, "x": FLOAT, "mean": STATISTIC, "inverse_std": STATISTIC}


@primitive(dtypes=_GIVEN | {"weight": STATISTIC}, typed="x")
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
def layer_norm_dx_kernel(gpu: DeviceInfo, **call: Any) -> Dispatch:
    return layer_norm_dx_dispatch(LayerNormGradCall(gpu, **call))


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


@primitive(dtypes=_GIVEN, outputs=("products", "sums"), typed="x")
def layer_norm_dgamma(
    incoming: Tensor, x: Tensor, mean: Tensor, inverse_std: Tensor, centred: bool
) -> tuple[Tensor, Tensor]:
    """Return dgamma and dbeta: column sums of grad * normalised `x`, and of grad."""


@layer_norm_dgamma.spec
def layer_norm_dgamma_spec(x: TensorSpec, **_: object) -> tuple[TensorSpec, TensorSpec]:
    columns = TensorSpec(x.shape[1:], statistic_dtype(x.dtype))
    return columns, columns


@layer_norm_dgamma.kernel
def layer_norm_dgamma_kernel(gpu: DeviceInfo, **call: Any) -> list[Dispatch]:
    return layer_norm_dgamma_dispatches(LayerNormGradCall(gpu, **call))


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
    dtypes=_GIVEN | {"weight": STATISTIC},
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
def layer_norm_dx_dgamma_kernel(gpu: DeviceInfo, **call: Any) -> list[Dispatch]:
    return layer_norm_dx_dgamma_dispatches(LayerNormGradCall(gpu, **call))


@layer_norm_dx_dgamma.candidates
def layer_norm_dx_dgamma_candidates(
    gpu: DeviceInfo, **call: Any
) -> Mapping[str, Callable[[], list[Dispatch]]]:
    return layer_norm_grad_candidates(LayerNormGradCall(gpu, **call))


@layer_norm_dx_dgamma.reference
def layer_norm_dx_dgamma_reference(
    weight: np.ndarray | None, **call: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    grad = layer_norm_dx_reference(weight=weight, **call)
    return grad, *layer_norm_dgamma_reference(**call)


_BY_COMPOSITION = {
    "": _layer_norm,
    FUSED: _composed_layer_norm,
    SPLIT: _split_layer_norm,
}


def normalize_last_dims(
    name: str,
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    centred: bool = True,
) -> Tensor:
    """Normalise over the last dimensions, whose sizes are `normalized_shape`."""
    shape = normalized_shape
    if type(shape) is not tuple or not INTEGERS.issuperset(map(type, shape)):
        sizes = as_int_or_ints(f"{name}: normalized_shape", normalized_shape)
        shape = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    whole = x.layout.shape
    outer_dims = len(whole) - len(shape)
    if not shape or outer_dims < 0 or whole[outer_dims:] != shape:
        raise ShapeError(
            f"{name}: x is {whole}, normalized_shape {shape}; x must end with it, and"
            " it must have at least one dimension"
        )
    kind = x.array.value.dtype
    if kind not in FLOAT:
        check_float(name, x)
    statistic = statistic_dtype(kind)
    vectors: list[Tensor | None] = [None, None]
    for at, vector in enumerate((weight, bias)):
        if vector is not None and vector.layout.shape != shape:
            label = ("weight", "bias")[at]
            raise ShapeError(
                f"{name}: {label} is {vector.layout.shape}; it must be {shape}"
            )
        if vector is not None:
            flat = vector if len(shape) == 1 else reshape(vector, (-1,))
            plain = flat.array.value.dtype is statistic
            vectors[at] = flat if plain else as_dtype_of(flat, statistic)
    if 0 in whole:
        out = x if weight is None else x * weight
        return as_dtype_of(out if bias is None else out + bias, x.dtype)
    rows, flat_sizes = x, (math.prod(whole[:outer_dims]), math.prod(shape))
    if whole != flat_sizes:
        rows = reshape(x, flat_sizes)
    chosen = _BY_COMPOSITION[row_composition(rows)]
    out, _, _ = chosen(in_storage(rows), vectors[0], vectors[1], eps, centred)
    out = out if whole == flat_sizes else reshape(out, whole)
    return out if out.array.value.dtype is kind else as_dtype_of(out, kind)


@autocast_float32_on_device
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
    out = normalize_last_dims(
        "layer_norm", x, normalized_shape, weight, bias, eps, True
    )
    if out.grad_node is not None:
        show_as(out, "NativeLayerNormBackward0", x, weight, bias)
    return out


def _complex_rms_norm(
    x: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None,
    eps: float | None,
) -> Tensor:
    sizes = as_int_or_ints("rms_norm: normalized_shape", normalized_shape)
    shape = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if not shape or tuple(x.layout.shape[-len(shape) :]) != shape:
        raise ShapeError(
            f"rms_norm: x is {tuple(x.shape)}; its last dimensions must be {shape}"
        )
    least = EPSILON[x.dtype.to_real()] if eps is None else eps
    dims = tuple(range(-len(shape), 0))
    # The mean of squares, not of their sizes, as in PyTorch.
    scaled = x * rsqrt(mean(square(x), dims, True) + least)
    return scaled if weight is None else scaled * weight


@autocast_float32_on_device
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
    if x.dtype.is_complex:
        return _complex_rms_norm(x, normalized_shape, weight, eps)
    eps = EPSILON[statistic_dtype(x.dtype)] if eps is None else eps
    return normalize_last_dims(
        "rms_norm", x, normalized_shape, weight, None, eps, False
    )
