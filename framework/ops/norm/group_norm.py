"""Group norm and instance norm: normalisation within each sample."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...autograd.engine import is_grad_enabled
from ...autograd.tape import show_as
from ...base.dtype import FLOAT
from ...base.errors import ShapeError
from ...base.validation import as_int
from ...dispatch.autocast_policy import autocast_float32_on_device
from ...dispatch.declare import composite
from ...dispatch.replayable import replayable
from ...kernels.shader_types import statistic_dtype
from ..elementwise.unary import lazy_copy, rsqrt, square
from ..reduce.common import as_dtype_of, in_storage
from ..reduce.sum import mean, sum
from ..source import fill_like
from ..view import reshape
from .batch_norm import batch_norm, batch_norm_moments, batch_norm_sums, update_running
from .layer_norm import normalize_last_dims
from .normalized import inverse_deviation, normalized, normalized_vjp

if TYPE_CHECKING:
    from ...tensor.tensor import Tensor


@composite(dtypes=FLOAT, outputs=("out", "mean", "variance", "inverse_std"))
def _group_norm(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Normalise each group of (batch, groups, channels of a group, inner).

    `weight` and `bias` are (groups, channels of a group), statistics (batch * groups).
    """
    centre, variance = batch_norm_moments(_as_channels(x))
    inverse_std = inverse_deviation(variance, eps)
    statistics = _of_groups(centre, x), _of_groups(inverse_std, x)
    out = normalized(x, *statistics, _of_channels(weight), _of_channels(bias))
    return out.to(x.dtype), centre, variance, inverse_std


@_group_norm.vjp
def _group_norm_vjp(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    mean: Tensor,
    inverse_std: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    scaled = grad * _of_channels(weight)
    if is_grad_enabled():
        return _differentiable_vjp(grad, scaled, x, eps)
    flat = as_dtype_of(_as_channels(scaled), x.dtype)
    sums = batch_norm_sums(flat, _as_channels(x), mean, inverse_std)
    share = x.layout.shape[0] * x.layout.shape[1] / max(1, x.numel())
    centre, spread = _of_groups(mean, x), _of_groups(inverse_std, x)
    first, second = [_of_groups(each, x) for each in sums]
    grad_x = normalized_vjp(scaled, x, centre, spread, first, second, share)
    y = (x - centre) * spread
    return grad_x, sum(grad * y, (0, 3)), sum(grad, (0, 3))


def _differentiable_vjp(
    grad: Tensor, scaled: Tensor, x: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients by differentiable ops, for double backward."""
    wide = as_dtype_of(x, statistic_dtype(x.dtype))
    apart = wide - mean(wide, (2, 3), keepdim=True)
    inverse_std = rsqrt(mean(square(apart), (2, 3), keepdim=True) + eps)
    y = apart * inverse_std
    inner = scaled - mean(scaled, (2, 3), keepdim=True)
    inner = inner - y * mean(scaled * y, (2, 3), keepdim=True)
    return inner * inverse_std, sum(grad * y, (0, 3)), sum(grad, (0, 3))


def _as_channels(x: Tensor) -> Tensor:
    """Return the groups of all samples as channels of one sample."""
    batch, groups, channels, inner = x.layout.shape
    return reshape(x, (1, batch * groups, channels * inner))


def _of_groups(statistic: Tensor, x: Tensor) -> Tensor:
    return reshape(statistic, (*x.layout.shape[:2], 1, 1))


def _of_channels(vector: Tensor) -> Tensor:
    return reshape(vector, (*vector.layout.shape, 1))


@autocast_float32_on_device
@replayable
def group_norm(
    x: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return groups of channels normalised to mean 0 and variance 1 in each sample.

    Parameters
    ----------
    x : Tensor, shape (batch, channels) or (batch, channels, ...), float
    num_groups : int
        Groups of as many neighbouring channels each.
    weight, bias : Tensor, shape (channels,), or None
        Scale and shift of each channel; None means 1 and 0.
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
    Source: Wu and He, arXiv:1803.08494.
    """
    num_groups = as_int("group_norm: num_groups", num_groups)
    if len(x.layout.shape) < 2 or num_groups < 1 or x.layout.shape[1] % num_groups:
        raise ShapeError(
            f"group_norm: x is {tuple(x.shape)}, num_groups {num_groups}; x must be"
            " (batch,"
            " channels, ...) and the groups divide the channels"
        )
    out = _in_groups("group_norm", x, num_groups, weight, bias, eps)[0]
    show_as(out, "NativeGroupNormBackward0", x, weight, bias)
    return out


def _in_groups(
    name: str,
    x: Tensor,
    groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    keeps_statistics: bool = False,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the normalised tensor, and mean and variance of groups if they are kept.

    Without weights a group is a row of a layer norm, which takes one pass.
    """
    batch, channels = x.layout.shape[:2]
    if weight is None and bias is None and not keeps_statistics and x.numel():
        rows = reshape(x, (batch, groups, x.numel() // (batch * groups)))
        out = normalize_last_dims(name, rows, rows.layout.shape[2:], None, None, eps)
        return reshape(out, x.layout.shape), None, None
    vectors = []
    for label, vector, value in (("weight", weight, 1), ("bias", bias, 0)):
        if vector is None:
            vector = fill_like(x, (channels,), value, x.dtype)
        if vector.shape != (channels,):
            raise ShapeError(
                f"{name}: {label} is {tuple(vector.shape)}; it must be ({channels},)"
            )
        vectors.append(reshape(vector, (groups, channels // groups)))
    if x.numel() == 0:
        return lazy_copy(x), None, None
    parts = (batch, groups, channels // groups, math.prod(x.layout.shape[2:]))
    source = in_storage(reshape(x, parts))
    out, centre, variance, _ = _group_norm(source, vectors[0], vectors[1], eps)
    return as_dtype_of(reshape(out, x.layout.shape), x.dtype), centre, variance


@replayable
def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return each channel of each sample normalised to mean 0 and variance 1.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, ...), float
    running_mean, running_var : Tensor, shape (channels,), or None
        Statistics used if those of `x` are not; otherwise updated in place by
        `momentum` with the mean over the batch, of variances unbiased.
    weight, bias : Tensor, shape (channels,), or None
        Scale and shift of each channel; None means 1 and 0.
    use_input_stats : bool, default True
        Normalise with the statistics of `x`.
    momentum : float, default 0.1
        Share of the new statistics in the running ones.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    Tensor, shape and dtype of `x`

    Raises
    ------
    ShapeError
        If shapes do not fit, channels have fewer than two elements, or statistics are
        missing.

    Notes
    -----
    Source: Ulyanov, Vedaldi and Lempitsky, arXiv:1607.08022.
    """
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    inner = math.prod(x.layout.shape[2:])
    if len(x.layout.shape) < 3 or inner == 1:
        raise ShapeError(
            f"instance_norm: x is {tuple(x.shape)}; it must be (batch, channels, ...)"
            " with at"
            " least two elements in a channel"
        )
    out, centre, variance = _in_groups(
        "instance_norm",
        x,
        x.layout.shape[1],
        weight,
        bias,
        eps,
        keeps_statistics=running_mean is not None,
    )
    if running_mean is not None and centre is not None and variance is not None:
        batched = x.layout.shape[:2]
        update_running(
            running_mean,
            running_var,
            mean(reshape(centre, batched), 0),
            mean(reshape(variance, batched), 0) * (inner / (inner - 1)),
            momentum,
        )
    return out
