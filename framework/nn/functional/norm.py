"""Normalisation under PyTorch's signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import ops
from ...base.errors import ShapeError
from ...dispatch.autocast_policy import autocast_float32_on_host
from ...dispatch.replayable import replayable
from ...eager.base_tensor import need_tensors
from ...ops.elementwise.cast import refuse_bool
from ...tensor.out import write
from ...tensor.tensor import Tensor


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return each channel normalised over the batch, then scaled and shifted.

    Parameters
    ----------
    input : Tensor, shape (batch, channels) or (batch, channels, ...), float
    running_mean, running_var : Tensor, shape (channels,), or None
        Statistics used when not training; when training they are updated in place, the
        variance with the unbiased estimate. An empty batch leaves them as they are.
    weight, bias : Tensor, shape (channels,), or None
        Scale and shift; None means 1 and 0.
    training : bool, default False
        Normalise with the statistics of the batch.
    momentum : float, default 0.1
        Share of the new statistics in the running ones.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    Tensor, shape of `input`
        Statistics of 16-bit floats are computed in float32.

    Raises
    ------
    ShapeError
        If shapes do not fit, training sees one value per channel, or statistics are
        missing when not training.
    ValueError
        If `eps` is negative, or 0 in training.

    Notes
    -----
    Source: Ioffe and Szegedy, arXiv:1502.03167.
    """
    return ops.batch_norm(
        input,
        running_mean,
        running_var,
        weight,
        bias,
        training=training,
        momentum=momentum,
        eps=eps,
    )


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return each channel of each sample normalised, then scaled and shifted.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, ...), float
    running_mean, running_var : Tensor, shape (channels,), or None
        Statistics used if those of `input` are not; otherwise updated in place with the
        mean over the batch, of variances unbiased.
    weight, bias : Tensor, shape (channels,), or None
        Scale and shift; None means 1 and 0.
    use_input_stats : bool, default True
        Normalise with the statistics of `input`.
    momentum : float, default 0.1
        Share of the new statistics in the running ones.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    Tensor, shape and dtype of `input`

    Raises
    ------
    ShapeError
        If shapes do not fit, channels have fewer than two elements, or statistics are
        missing.

    Notes
    -----
    Source: Ulyanov, Vedaldi and Lempitsky, arXiv:1607.08022.
    """
    return ops.instance_norm(
        input,
        running_mean,
        running_var,
        weight,
        bias,
        use_input_stats,
        momentum,
        eps,
    )


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return elements normalised to mean 0 and variance 1 over the last dimensions.

    Parameters
    ----------
    input : Tensor, shape (..., *normalized_shape), float
    normalized_shape : int or sequence of int
        Sizes of the last dimensions, at least one.
    weight, bias : Tensor, shape `normalized_shape`, or None
        Scale and shift of each element; None means 1 and 0.
    eps : float, default 1e-5
        Added to the variance, which is biased.

    Returns
    -------
    Tensor, shape and dtype of `input`
        Statistics are computed in float32 if the dtype is smaller.

    Raises
    ------
    ShapeError
        If shapes do not fit.

    Notes
    -----
    Source: Ba, Kiros and Hinton, arXiv:1607.06450.
    """
    need_tensors("layer_norm", input=input)
    if input.is_wrapper:
        wrapper: Any = input
        found: Tensor = wrapper.on_rows(
            "layer_norm",
            lambda x: ops.layer_norm(x, normalized_shape, weight, bias, eps),
        )
        return found
    return ops.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Return elements divided by their root mean square over the last dimensions.

    Parameters
    ----------
    input : Tensor, shape (..., *normalized_shape), float
    normalized_shape : int or sequence of int
        Sizes of the last dimensions, at least one.
    weight : Tensor, shape `normalized_shape`, or None
        Scale of each element; None means 1.
    eps : float or None
        Added to the mean square; None is the distance of 1 from the next number in the
        dtype of the statistics.

    Returns
    -------
    Tensor, shape and dtype of `input`
        Statistics are computed in float32 if the dtype is smaller.

    Raises
    ------
    ShapeError
        If shapes do not fit.

    Notes
    -----
    Source: Zhang and Sennrich, arXiv:1910.07467.
    """
    need_tensors("rms_norm", input=input)
    if input.is_wrapper:
        wrapper: Any = input
        found: Tensor = wrapper.on_rows(
            "rms_norm", lambda x: ops.rms_norm(x, normalized_shape, weight, eps)
        )
        return found
    return ops.rms_norm(input, normalized_shape, weight, eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return groups of channels normalised to mean 0 and variance 1 in each sample.

    Parameters
    ----------
    input : Tensor, shape (batch, channels) or (batch, channels, ...), float
    num_groups : int
        Groups of as many neighbouring channels each.
    weight, bias : Tensor, shape (channels,), or None
        Scale and shift of each channel; None means 1 and 0.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    Tensor, shape and dtype of `input`
        Statistics are computed in float32 if the dtype is smaller.

    Raises
    ------
    ShapeError
        If shapes do not fit, or the groups do not divide the channels.

    Notes
    -----
    Source: Wu and He, arXiv:1803.08494.
    """
    return ops.group_norm(input, num_groups, weight, bias, eps)


def normalize(
    input: Tensor,
    p: float = 2.0,
    dim: int | tuple[int, ...] = 1,
    eps: float = 1e-12,
    out: Tensor | None = None,
) -> Tensor:
    """Return vectors divided by their norms; see `ops.normalize`.

    Parameters
    ----------
    input : Tensor, float
    p : float, default 2
    dim : int or tuple of int, default 1
    eps : float, default 1e-12
    out : Tensor or None
        Where the result is written; it is returned then.
    """
    result = ops.normalize(input, p, dim, eps)
    return result if out is None else write("normalize", out, result)


@replayable
def local_response_norm(
    input: Tensor,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
) -> Tensor:
    """Return `input` divided by a power of the squares in neighbouring channels.

    Each element is divided by (k + alpha * mean)^beta, of the squares in the `size`
    channels around it; channels beyond the ends count as 0.

    Parameters
    ----------
    input : Tensor, shape (batch, channels, ...), float
    size : int
        Channels in the mean.
    alpha, beta, k : float, default 1e-4, 0.75, 1

    Raises
    ------
    ShapeError
        If `input` has fewer than three dimensions.

    Notes
    -----
    Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep
    Convolutional Neural Networks, 2012.
    """
    if len(input.layout.shape) < 3:
        raise ShapeError(
            f"local_response_norm: input is {tuple(input.shape)}; it must be (batch,"
            " channels,"
            " ...) with at least 3 dimensions"
        )
    refuse_bool("local_response_norm", input=input)
    if input.numel() == 0:
        return input
    batch, channels = input.layout.shape[:2]
    planes = ops.reshape(ops.square(input), (batch, 1, channels, -1))
    padded = ops.pad(planes, (0, 0, size // 2, (size - 1) // 2))
    averaged = _averaged_images if input.ndim > 3 else ops.avg_pool2d
    means = averaged(padded, (size, 1), 1)
    return input / ops.pow(ops.reshape(means, input.layout.shape) * alpha + k, beta)


# In PyTorch it is `avg_pool3d` for images, which is on a list of autocast.
_averaged_images = autocast_float32_on_host(ops.avg_pool2d)
