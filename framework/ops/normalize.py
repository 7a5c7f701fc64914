"""Normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..dispatch import Dispatch, Placed, check_rounds, divisor, fold_grid
from ..dtype import FLOAT, float32
from ..errors import ShapeError
from ..primitive import composite, primitive
from ..shape import TensorSpec, ceil_div
from .creation import fill_like
from .elementwise import rsqrt
from .movement import reshape
from .reducing import SOFTWARE_WORKGROUP, WORKGROUP

if TYPE_CHECKING:
    from vkbackend import DeviceInfo

    from ..tensor import Tensor


@primitive(dtypes=FLOAT, device_dtypes=(float32,), outputs=("mean", "variance"))
def batch_norm_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance of each channel.

    Parameters
    ----------
    x : Tensor, shape (batch, channels, inner)

    Returns
    -------
    tuple of Tensor, shape (channels,)
        Two passes over the data, so nothing cancels.
    """


@batch_norm_moments.spec
def batch_norm_moments_spec(x: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    channels = TensorSpec((x.shape[1],), x.dtype)
    return channels, channels


@batch_norm_moments.kernel
def batch_norm_moments_kernel(gpu: DeviceInfo, x: Placed) -> Dispatch:
    push: dict[str, int | str] = {"x": "x", "mean": "mean", "variance": "variance"}
    return _per_channel(gpu, "norm/batch_norm_moments", x, push)


def _per_channel(
    gpu: DeviceInfo, kernel: str, x: Placed, push: dict[str, int | str]
) -> Dispatch:
    """Return a dispatch with one workgroup per channel."""
    batch, channels, inner = x.shape
    magic, shift = divisor(inner)
    push |= {"batch": batch, "channels": channels, "inner": inner}
    push |= {"inner_magic": magic, "inner_shift": shift}
    size = SOFTWARE_WORKGROUP if gpu.kind == "software" else WORKGROUP
    check_rounds(gpu, "batch_norm", ceil_div(batch * inner, size))
    return Dispatch(kernel, fold_grid(channels), push, {"LOCAL_X": size})


@batch_norm_moments.reference
def batch_norm_moments_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return x.mean(axis=(0, 2)), x.var(axis=(0, 2))


@primitive(
    dtypes=FLOAT,
    device_dtypes=(float32,),
    outputs=("sum_grad", "sum_grad_normalized"),
)
def batch_norm_sums(
    grad_out: Tensor, x: Tensor, mean: Tensor, inverse_std: Tensor
) -> tuple[Tensor, Tensor]:
    """Return, per channel, the sums of `grad_out` and of it times normalised `x`."""


@batch_norm_sums.spec
def batch_norm_sums_spec(
    grad_out: TensorSpec, x: TensorSpec, mean: TensorSpec, inverse_std: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    return mean, mean


@batch_norm_sums.kernel
def batch_norm_sums_kernel(
    gpu: DeviceInfo, grad_out: Placed, x: Placed, mean: Placed, inverse_std: Placed
) -> Dispatch:
    push: dict[str, int | str] = {"grad": "grad_out"}
    names = ("x", "mean", "inverse_std", "sum_grad", "sum_grad_normalized")
    push.update({name: name for name in names})
    return _per_channel(gpu, "norm/batch_norm_vjp_sums", x, push)


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
    """Normalise (batch, channels, inner) with the batch's own statistics."""
    mean, variance = batch_norm_moments(x)
    inverse_std = rsqrt(variance + eps)
    scale = inverse_std * weight
    out = (x - _channels(mean)) * _channels(scale) + _channels(bias)
    return out, mean, variance, inverse_std


@_batch_norm_train.vjp
def _batch_norm_train_vjp(
    grad: Tensor, x: Tensor, weight: Tensor, mean: Tensor, inverse_std: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    count = x.shape[0] * x.shape[2]
    sum_grad, sum_normalized = batch_norm_sums(grad, x, mean, inverse_std)
    normalized = (x - _channels(mean)) * _channels(inverse_std)
    centred = grad - _channels(sum_grad * (1.0 / count))
    centred = centred - normalized * _channels(sum_normalized * (1.0 / count))
    return centred * _channels(inverse_std * weight), sum_normalized, sum_grad


def _channels(x: Tensor) -> Tensor:
    """Return per-channel numbers so that they broadcast over the inner dimension."""
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
        Float.
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
        If `x` has fewer than two dimensions, training sees fewer than two values per
        channel, or statistics are missing when not training.

    Notes
    -----
    Source: Ioffe and Szegedy, arXiv:1502.03167.
    """
    if x.ndim < 2:
        raise ShapeError(
            f"batch_norm: x is {x.shape}; it must be (batch, channels, ...)"
        )
    flat = reshape(x, (x.shape[0], x.shape[1], _inner(x.shape)))
    channels = x.shape[1]
    scale = fill_like(x, (channels,), 1, x.dtype) if weight is None else weight
    shift = fill_like(x, (channels,), 0, x.dtype) if bias is None else bias
    if not training:
        if running_mean is None or running_var is None:
            raise ShapeError(
                "batch_norm: not training needs running_mean and running_var"
            )
        factor = rsqrt(running_var + eps) * scale
        out = (flat - _channels(running_mean)) * _channels(factor) + _channels(shift)
        return reshape(out, x.shape)
    count = flat.shape[0] * flat.shape[2]
    if count < 2:
        raise ShapeError(
            "batch_norm: training needs at least two values per channel;"
            f" x is {x.shape}"
        )
    out, mean, variance, _ = _batch_norm_train(flat, scale, shift, eps)
    if running_mean is not None and running_var is not None:
        unbiased = variance * (count / (count - 1))
        running_mean.copy_(running_mean * (1.0 - momentum) + mean * momentum)
        running_var.copy_(running_var * (1.0 - momentum) + unbiased * momentum)
    return reshape(out, x.shape)


def _inner(shape: tuple[int, ...]) -> int:
    size = 1
    for each in shape[2:]:
        size *= each
    return size
