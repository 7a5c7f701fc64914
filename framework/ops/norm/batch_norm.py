"""Batch normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...autograd.engine import is_grad_enabled
from ...autograd.tape import show_as
from ...base import inference
from ...base.dtype import FLOAT, float32, float64
from ...base.errors import ShapeError
from ...base.shape import Layout, TensorSpec
from ...dispatch import batching
from ...dispatch.autocast_policy import autocast_float32_on_device
from ...dispatch.declare import composite, primitive
from ...dispatch.replayable import replayable
from ...ir.kernel_call import Dispatch, StridedSpec
from ...kernels.norm import channel_sums_dispatches, moments_dispatches
from ...kernels.shader_types import check_float, statistic_dtype
from ..elementwise.compare import clamp_min
from ..elementwise.optimizer_step import weighted_sum
from ..elementwise.unary import rsqrt, square
from ..reduce.common import as_dtype_of
from ..reduce.sum import mean as average
from ..reduce.sum import sum
from ..reduce.variance import norm
from ..source import fill_like
from ..view import reshape
from .normalized import inverse_deviation, normalized, normalized_vjp

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ...tensor.tensor import Tensor


@primitive(dtypes=FLOAT, outputs=("mean", "variance"), typed="x")
def batch_norm_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance of each channel.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, inner)

    Returns
    -------
    tuple of Tensor, shape (channels,)
        Of differences from means, so nothing cancels.
    """


@batch_norm_moments.spec
def batch_norm_moments_spec(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    channels = TensorSpec((x.shape[1],), statistic_dtype(x.dtype))
    return channels, channels


@batch_norm_moments.kernel
def batch_norm_moments_kernel(gpu: DeviceInfo, x: StridedSpec) -> list[Dispatch]:
    return moments_dispatches(gpu, x)


@batch_norm_moments.reference
def batch_norm_moments_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.mean(axis=(0, 2)), x.var(axis=(0, 2))


_STATISTIC = (float32, float64)


@primitive(
    dtypes={
        "grad_out": FLOAT,
        "x": FLOAT,
        "mean": _STATISTIC,
        "inverse_std": _STATISTIC,
    },
    outputs=("sum_grad", "sum_grad_normalized"),
    typed="x",
)
def batch_norm_sums(
    grad_out: Tensor, x: Tensor, mean: Tensor, inverse_std: Tensor
) -> tuple[Tensor, Tensor]:
    """Return, per channel, the sums of `grad_out` and of it times normalised `x`."""


@batch_norm_sums.spec
def batch_norm_sums_spec(
    mean: TensorSpec, **_: object
) -> tuple[TensorSpec, TensorSpec]:
    return mean, mean


@batch_norm_sums.kernel
def batch_norm_sums_kernel(
    gpu: DeviceInfo, x: StridedSpec, mean: StridedSpec, **_: object
) -> list[Dispatch]:
    return channel_sums_dispatches(gpu, x, mean)


@batch_norm_sums.reference
def batch_norm_sums_reference(
    grad_out: np.ndarray, x: np.ndarray, mean: np.ndarray, inverse_std: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    normalized = (x - mean[:, None]) * inverse_std[:, None]
    return grad_out.sum(axis=(0, 2)), (grad_out * normalized).sum(axis=(0, 2))


@composite(dtypes=FLOAT, outputs=("out", "mean", "variance", "inverse_std"))
def _batch_norm_train(
    x: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Normalise (batch, channels, ...) with the batch's own statistics."""
    flat = _flat(x)
    mean, variance = batch_norm_moments(flat)
    inverse_std = inverse_deviation(variance, eps)
    rows = [_channels(each) for each in (mean, inverse_std, weight, bias)]
    out = normalized(flat, *rows)
    out = reshape(out.to(x.dtype), x.layout.shape)
    return out, mean, variance, inverse_std


@composite(
    dtypes=FLOAT, outputs=("out", "mean", "inverse_std", "new_mean", "new_variance")
)
def _batch_norm_tracked(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
    momentum: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Normalise as `_batch_norm_train`; return new running statistics, too.

    One call of the host has all the nodes of a layer.
    """
    train = _batch_norm_train.function
    out, mean, variance, inverse_std = train(x, weight, bias, eps)
    count = x.layout.numel // x.layout.shape[1]
    unbiased, kept = variance * (count / (count - 1)), 1.0 - momentum
    new_mean = weighted_sum(running_mean, mean, kept, momentum)
    new_variance = weighted_sum(running_var, unbiased, kept, momentum)
    return out, mean, inverse_std, new_mean, new_variance


@_batch_norm_tracked.vjp
def _batch_norm_tracked_vjp(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    mean: Tensor,
    inverse_std: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor, None, None]:
    found = _batch_norm_train_vjp(grad, x, weight, mean, inverse_std, eps)
    return *found, None, None


@_batch_norm_train.vjp
def _batch_norm_train_vjp(
    grad: Tensor,
    x: Tensor,
    weight: Tensor,
    mean: Tensor,
    inverse_std: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    shape = x.layout.shape
    grad, x = _flat(grad), _flat(x)
    if is_grad_enabled():
        grad_x, of_weight, of_bias = _differentiable_vjp(grad, x, weight, eps)
        return reshape(grad_x, shape), of_weight, of_bias
    count = x.layout.shape[0] * x.layout.shape[2]
    sums = batch_norm_sums(grad, x, mean, inverse_std)
    centre, spread = _channels(mean), _channels(inverse_std)
    first, second = [_channels(each) for each in sums]
    grad_x = normalized_vjp(grad, x, centre, spread, first, second, 1.0 / count)
    grad_x = grad_x * _channels(weight)
    return reshape(grad_x, shape), sums[1], sums[0]


def _differentiable_vjp(
    grad: Tensor, x: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients by differentiable ops, for double backward."""
    wide = as_dtype_of(x, statistic_dtype(x.dtype))
    apart = wide - average(wide, (0, 2), keepdim=True)
    inverse_std = rsqrt(average(square(apart), (0, 2), keepdim=True) + eps)
    y = apart * inverse_std
    centred = grad - average(grad, (0, 2), keepdim=True)
    centred = centred - y * average(grad * y, (0, 2), keepdim=True)
    grad_x = centred * inverse_std * _channels(weight)
    return grad_x, sum(grad * y, (0, 2)), sum(grad, (0, 2))


def _flat(x: Tensor) -> Tensor:
    """Return a tensor as (batch, channels, inner)."""
    shape = x.layout.shape
    return reshape(x, (shape[0], shape[1], _inner(shape)))


def _channels(x: Tensor) -> Tensor:
    """Return per-channel values reshaped to broadcast over the inner dimension."""
    return reshape(x, (x.numel(), 1))


def batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return each channel normalised to mean 0 and variance 1, then scaled and shifted.

    Parameters
    ----------
    x : Tensor, shape (batch, channels) or (batch, channels, ...)
        Float. Statistics of 16-bit floats are computed in float32.
    running_mean, running_var : Tensor, shape (channels,), or None
        Statistics used when not training; when training they are updated in place by
        `momentum`, the variance with the unbiased estimate.
    weight, bias : Tensor, shape (channels,), or None
        Scale and shift; None means 1 and 0.
    training : bool, default False
        Normalise with the batch's statistics.
    momentum : float, default 0.1
        Share of the new statistics in the running ones.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    Tensor, shape of `x`

    Raises
    ------
    ShapeError
        If `x` has fewer than two dimensions, training sees one value per channel, or
        statistics have another size, or are missing when not training.
    ValueError
        If `eps` is negative, or 0 in training.

    Notes
    -----
    An empty batch leaves running statistics as they are.

    Source: Ioffe and Szegedy, arXiv:1502.03167.
    """
    if len(x.layout.shape) < 2:
        raise ShapeError(
            f"batch_norm: x is {tuple(x.shape)}; it must be (batch, channels, ...)"
        )
    if eps <= 0.0 and (training or eps < 0.0):
        bound = "above 0 in training" if training else "at least 0"
        raise ValueError(f"batch_norm: eps is {eps}; it must be {bound}")
    shape = x.layout.shape
    channels = shape[1]
    for name, tracked in ("running_mean", running_mean), ("running_var", running_var):
        if tracked is not None and tracked.layout.numel != channels:
            raise ShapeError(
                f"batch_norm: {name} is {tuple(tracked.shape)}, x has {channels}"
                f" channels; it must be ({channels},)"
            )
    if not training:
        if running_mean is None or running_var is None:
            raise ShapeError(
                "batch_norm: not training needs running_mean and running_var"
            )
        found = _normalised(x, running_mean, running_var, weight, bias, eps)
        show_as(found, "NativeBatchNormBackward0", x, weight, bias)
        return found
    scale = fill_like(x, (channels,), 1, x.dtype) if weight is None else weight
    shift = fill_like(x, (channels,), 0, x.dtype) if bias is None else bias
    count = shape[0] * _inner(shape)
    if count < 2:
        if count == 0:
            return reshape(_flat(x) * _channels(scale) + _channels(shift), shape)
        raise ShapeError(
            "batch_norm: training needs at least two values per channel;"
            f" x is {tuple(x.shape)}"
        )
    # What is not contiguous is copied once, and that copy saved.
    copied = x.layout != Layout.contiguous(shape)
    source = _flat(x) if copied else x
    if type(momentum) is float and _are_beside(x, running_mean, running_var):
        assert running_mean is not None
        assert running_var is not None
        out, _, _, mean, variance = _batch_norm_tracked(
            source, scale, shift, running_mean, running_var, eps, momentum
        )
        _replace(running_mean, mean)
        _replace(running_var, variance)
    else:
        out, mean, variance, _ = _batch_norm_train(source, scale, shift, eps)
        unbiased = variance * (count / (count - 1))
        update_running(running_mean, running_var, mean, unbiased, momentum)
    if copied:
        out = reshape(out, shape)
        show_as(out, "NativeBatchNormBackward0", x, weight, bias)
    return out


@replayable
def _normalised(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """Return channels normalised with given statistics, then scaled and shifted."""
    factor = rsqrt(variance + eps)
    if weight is not None:
        factor = factor * weight
    out = (_flat(x) - _channels(mean)) * _channels(factor)
    if bias is not None:
        out = out + _channels(bias)
    return reshape(out.to(x.dtype), x.layout.shape)


def _are_beside(x: Tensor, *running: Tensor | None) -> bool:
    """Return whether running statistics are as those of `x`, and off the tape."""
    wide, device = statistic_dtype(x.array.value.dtype), x.device
    for each in running:
        if (
            each is None
            or each.needs_grad
            or each.array.value.dtype is not wide
            or each.device is not device
            or len(each.layout.shape) != 1
        ):
            return False
    return True


def _replace(running: Tensor, new: Tensor) -> None:
    """Replace the elements of running statistics by those of a tensor just made.

    Of plain tensors it is what is left of `copy_`, which takes as long as all the rest
    of a layer.
    """
    value = new.array.value
    if (
        inference.used
        or batching.has_rules
        or running.grad_index
        or new.layout is not running.layout
        or running.array.value.numel != value.numel
    ):
        running.copy_(new)
        return
    # As `copy_`: or what another thread writes elsewhere in the storage would be lost.
    with running.device.lock:
        running.array.rebind(value)


def update_running(
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    momentum: float,
) -> None:
    """Move running statistics, where there are some, towards new ones."""
    kept = 1.0 - momentum
    for running, new in ((running_mean, mean), (running_var, variance)):
        if running is not None:
            running.copy_(weighted_sum(running, new.detach(), kept, momentum))


def _inner(shape: tuple[int, ...]) -> int:
    size = 1
    for each in shape[2:]:
        size *= each
    return size


@autocast_float32_on_device
@replayable
def normalize(
    x: Tensor, p: float = 2.0, dim: int | tuple[int, ...] = 1, eps: float = 1e-12
) -> Tensor:
    """Return vectors divided by their norms, so that their norm is 1.

    Parameters
    ----------
    x : Tensor, float
    p : float, default 2
        Which norm: (sum of abs(x) ** p) ** (1 / p).
    dim : int or tuple of int, default 1
        Dimensions along which the vectors lie.
    eps : float, default 1e-12
        Least number to divide by.

    Returns
    -------
    Tensor, shape and dtype of `x`
    """
    if not x.dtype.is_complex:
        check_float("normalize", x)
    return x / clamp_min(norm(x, p, dim, keepdim=True), eps)
